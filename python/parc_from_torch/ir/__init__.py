"""The bodies of modules as statements in single-assignment form, and how to change them."""
