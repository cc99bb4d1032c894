"""The tables and figures of the paper, its baselines and its rivals: `python -m paper`."""
