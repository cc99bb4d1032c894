"""Experiments: models over many splits, comparisons, searches, and the folders they leave."""
