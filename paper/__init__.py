"""The tables and figures of the paper, and its baselines: `python -m paper`."""
