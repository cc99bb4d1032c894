"""Graphs for models: kinds of edges, sparse matrices, prepared graphs."""

from crossgcn.graph.prepared import (
    EdgeKind,
    PreparedGraph,
    ReceptiveField,
    edges_of_kind,
    normalise_bipartite,
    normalise_edges,
    receptive_field,
)
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = [
    "EdgeKind",
    "PreparedGraph",
    "ReceptiveField",
    "SparseMatrix",
    "edges_of_kind",
    "normalise_bipartite",
    "normalise_edges",
    "receptive_field",
]
