"""Edges to propagation: normalisation, sparse products, receptive fields."""

from crossgcn.graph.normalise import normalise_bipartite, normalised_adjacency
from crossgcn.graph.prepared_graph import PreparedGraph
from crossgcn.graph.receptive_field import ReceptiveField, receptive_field
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = [
    "PreparedGraph",
    "ReceptiveField",
    "SparseMatrix",
    "normalise_bipartite",
    "normalised_adjacency",
    "receptive_field",
]
