"""Records functions that parallelize, and prints plan and train blocks."""
