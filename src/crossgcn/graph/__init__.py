"""Graphs for models: kinds of edges, sparse matrices, prepared graphs."""

from crossgcn.graph.prepared import (
    EdgeKind,
    PreparedGraph,
    edges_of_kind,
    normalise_edges,
    receptive_field,
)
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = [
    "EdgeKind",
    "PreparedGraph",
    "SparseMatrix",
    "edges_of_kind",
    "normalise_edges",
    "receptive_field",
]
