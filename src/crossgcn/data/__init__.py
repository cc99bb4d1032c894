"""Datasets, graph files, and splits.

Names are imported on first use, so that reading the catalogue needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES
    from crossgcn.data.datasets.generated import plant_crosses, reddit400k_shaped
    from crossgcn.data.datasets.load import load_dataset
    from crossgcn.data.datasets.planetoid import read_planetoid
    from crossgcn.data.datasets.real import load_real, read_real
    from crossgcn.data.datasets.registry import available, fetch, locate, locate_splits
    from crossgcn.data.features import csr_tensor, row_normalise
    from crossgcn.data.graph import canonical_graph
    from crossgcn.data.graph_file import read_graph, save_graph
    from crossgcn.data.splits import Split, make_splits, validate_split

__all__ = [
    "CATALOGUE",
    "DATASET_NAMES",
    "TABLES",
    "Split",
    "available",
    "canonical_graph",
    "csr_tensor",
    "fetch",
    "load_dataset",
    "load_real",
    "locate",
    "locate_splits",
    "make_splits",
    "plant_crosses",
    "read_graph",
    "read_planetoid",
    "read_real",
    "reddit400k_shaped",
    "row_normalise",
    "save_graph",
    "validate_split",
]

_HOMES = {
    "datasets.catalogue": ("CATALOGUE", "DATASET_NAMES", "TABLES"),
    "datasets.generated": ("plant_crosses", "reddit400k_shaped"),
    "datasets.load": ("load_dataset",),
    "datasets.planetoid": ("read_planetoid",),
    "datasets.real": ("load_real", "read_real"),
    "datasets.registry": ("available", "fetch", "locate", "locate_splits"),
    "features": ("csr_tensor", "row_normalise"),
    "graph": ("canonical_graph",),
    "graph_file": ("read_graph", "save_graph"),
    "splits": ("Split", "make_splits", "validate_split"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
