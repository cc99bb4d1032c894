"""Columns of a table as named features."""
