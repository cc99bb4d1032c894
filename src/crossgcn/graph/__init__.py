"""Edges to propagation: normalisation, sparse products, receptive fields; and random walks."""

from crossgcn.graph.dense_features import DenseFeatures
from crossgcn.graph.laplacian import mean_laplacian
from crossgcn.graph.normalise import (
    EdgeKind,
    edges_of_kind,
    normalise_bipartite,
    normalised_adjacency,
)
from crossgcn.graph.prepared_graph import PreparedGraph
from crossgcn.graph.random_walks import random_walks
from crossgcn.graph.receptive_field import ReceptiveField, receptive_field
from crossgcn.graph.sparse_matrix import SparseMatrix
from crossgcn.graph.stacked_matrix import StackedMatrix, stack_inputs

__all__ = [
    "DenseFeatures",
    "EdgeKind",
    "PreparedGraph",
    "ReceptiveField",
    "SparseMatrix",
    "StackedMatrix",
    "edges_of_kind",
    "mean_laplacian",
    "normalise_bipartite",
    "normalised_adjacency",
    "random_walks",
    "receptive_field",
    "stack_inputs",
]
