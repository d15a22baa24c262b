"""Traces models with several sizes, and rebuilds their modules."""
