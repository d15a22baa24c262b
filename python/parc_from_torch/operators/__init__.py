"""ATen operators as statements of PDL."""
