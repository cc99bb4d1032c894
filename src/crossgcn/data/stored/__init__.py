"""Graphs as folders of arrays that are mapped into memory: opened, not loaded.

Names are imported on first use, so that a command's help needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.stored.building import build_graph, store_graph
    from crossgcn.data.stored.graph_writer import GraphWriter, writing_graph
    from crossgcn.data.stored.layout import is_graph_folder
    from crossgcn.data.stored.stored_graph import StoredGraph, open_graph

__all__ = [
    "GraphWriter",
    "StoredGraph",
    "build_graph",
    "is_graph_folder",
    "open_graph",
    "store_graph",
    "writing_graph",
]

_HOMES = {
    "building": ("build_graph", "store_graph"),
    "graph_writer": ("GraphWriter", "writing_graph"),
    "layout": ("is_graph_folder",),
    "stored_graph": ("StoredGraph", "open_graph"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
