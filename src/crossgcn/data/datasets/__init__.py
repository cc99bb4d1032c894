"""Graphs by name: the catalogue, where their files come from, and their readers."""
