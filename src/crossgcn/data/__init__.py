"""Files in, graphs and splits out.

Names are imported on first use, so that reading the catalogue needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.adopt import adopt_graph
    from crossgcn.data.archive import read_graph, save_graph
    from crossgcn.data.catalogue import CATALOGUE, DATASET_NAMES
    from crossgcn.data.citeseer_cross import plant_crosses
    from crossgcn.data.datasets import load_dataset
    from crossgcn.data.explicit_crosses import cross_columns, explicit_crosses
    from crossgcn.data.features import csr_tensor, row_normalise
    from crossgcn.data.graphsage import read_graphsage
    from crossgcn.data.planetoid import read_planetoid
    from crossgcn.data.reddit import reddit400k_shaped
    from crossgcn.data.sources import available, fetch, locate, locate_splits
    from crossgcn.data.splits import Split, make_splits, validate_split
    from crossgcn.data.stored import StoredGraph, build_graph, open_graph, store_graph
    from crossgcn.data.validate import validate_data

__all__ = [
    "CATALOGUE",
    "DATASET_NAMES",
    "Split",
    "StoredGraph",
    "adopt_graph",
    "available",
    "build_graph",
    "cross_columns",
    "csr_tensor",
    "explicit_crosses",
    "fetch",
    "load_dataset",
    "locate",
    "locate_splits",
    "make_splits",
    "open_graph",
    "plant_crosses",
    "read_graph",
    "read_graphsage",
    "read_planetoid",
    "reddit400k_shaped",
    "row_normalise",
    "save_graph",
    "store_graph",
    "validate_data",
    "validate_split",
]

_HOMES = {
    "adopt": ("adopt_graph",),
    "archive": ("read_graph", "save_graph"),
    "catalogue": ("CATALOGUE", "DATASET_NAMES"),
    "citeseer_cross": ("plant_crosses",),
    "datasets": ("load_dataset",),
    "explicit_crosses": ("cross_columns", "explicit_crosses"),
    "features": ("csr_tensor", "row_normalise"),
    "graphsage": ("read_graphsage",),
    "planetoid": ("read_planetoid",),
    "reddit": ("reddit400k_shaped",),
    "sources": ("available", "fetch", "locate", "locate_splits"),
    "splits": ("Split", "make_splits", "validate_split"),
    "stored": ("StoredGraph", "build_graph", "open_graph", "store_graph"),
    "validate": ("validate_data",),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
