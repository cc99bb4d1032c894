"""Graphs for models: kinds of edges, sparse matrices, prepared graphs, mini-batches."""

from crossgcn.graph.matrix import DenseFeatures, ModelBatchMatrix, SparseMatrix, stack_inputs
from crossgcn.graph.normalise import (
    EDGE_RULES,
    EdgeKind,
    edges_of_kind,
    normalise_bipartite,
)
from crossgcn.graph.prepared import PreparedGraph, ReceptiveField, receptive_field

__all__ = [
    "EDGE_RULES",
    "DenseFeatures",
    "EdgeKind",
    "ModelBatchMatrix",
    "PreparedGraph",
    "ReceptiveField",
    "SparseMatrix",
    "edges_of_kind",
    "normalise_bipartite",
    "receptive_field",
    "stack_inputs",
]
