"""Datasets, graph files, and splits.

Names are imported on first use, so that reading the catalogue needs no torch.
"""

from crossgcn.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
