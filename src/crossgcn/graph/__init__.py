"""Graphs for models: kinds of edges, sparse matrices, prepared graphs."""

from crossgcn.graph.normalise import (
    EdgeKind,
    edges_of_kind,
    normalise_bipartite,
    normalise_edges,
)
from crossgcn.graph.prepared import PreparedGraph, ReceptiveField, receptive_field
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
