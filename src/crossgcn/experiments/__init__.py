"""Experiments: models over many splits, comparisons, and the folders they leave."""
