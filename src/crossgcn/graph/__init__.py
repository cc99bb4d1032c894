"""Graphs for models: kinds of edges, sparse matrices, prepared graphs."""

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.normalise import (
    EDGE_RULES,
    EdgeKind,
    edges_of_kind,
    normalise_bipartite,
    normalise_edges,
)
from crossgcn.graph.prepared import PreparedGraph, ReceptiveField, receptive_field

__all__ = [
    "EDGE_RULES",
    "EdgeKind",
    "PreparedGraph",
    "ReceptiveField",
    "SparseMatrix",
    "edges_of_kind",
    "normalise_bipartite",
    "normalise_edges",
    "receptive_field",
]
