"""Checks of a user's tables, by subject."""
