"""The text of the PDL file."""
