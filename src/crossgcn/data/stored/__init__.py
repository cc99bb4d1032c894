"""Graph folders: arrays on disk that are mapped into memory instead of loaded.

Names are imported on first use, so that a command's help needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.stored.format import is_graph_folder
    from crossgcn.data.stored.import_graph import build_graph, store_graph
    from crossgcn.data.stored.open import StoredGraph, open_graph
    from crossgcn.data.stored.write import GraphWriter, writing_graph

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
    "format": ("is_graph_folder",),
    "import_graph": ("build_graph", "store_graph"),
    "open": ("StoredGraph", "open_graph"),
    "write": ("GraphWriter", "writing_graph"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
