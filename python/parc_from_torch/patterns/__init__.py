"""Replaces statements by those that a person would write."""
