"""Whole tasks as Python functions; the commands are their front."""
