"""A feature matrix and edges as a model takes them, and the scores it gives."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.adopt import adopt_graph
from crossgcn.data.features import csr_tensor
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.models.stack import Stack
from crossgcn.training.classifier_edges import read_edges

__all__ = ["prepare_graph", "score_rows"]


def prepare_graph(x: Any, edge_index: Any, edge_weight: Any, node_index: Any) -> PreparedGraph:
    """Features and adjacency; edges are made undirected and unique.

    Args:
        x: Features ``[rows, features]``, 32-bit floats, dense or SciPy CSR, which stays sparse.
        edge_index: As :func:`~crossgcn.training.classifier_edges.read_edges` takes it.
        edge_weight: Likewise.
        node_index: Likewise.
    """
    rows = x.shape[0]
    edges, weights = read_edges(edge_index, edge_weight, node_index, rows)
    no_labels = torch.full((rows,), -1)
    data = Data(x=_tensor(x), edge_index=edges, edge_weight=weights, y=no_labels, num_nodes=rows)
    data = adopt_graph(data, "X")
    return PreparedGraph(data.x, data.edge_index, data.get("edge_weight"))


@torch.no_grad()
def score_rows(model: Stack, graph: PreparedGraph) -> NDArray[np.float64]:
    """Class scores of every row, before any softmax.

    In 64 bits, so that the score of a row does not depend on how many others are scored with
    it, to any digit that a 32-bit weight could justify.

    Args:
        model: Its weights are left as they are.
        graph: Features and adjacency.
    """
    x = _in_64_bits(graph.x) if isinstance(graph.x, SparseMatrix) else graph.x.double()
    scores: Tensor = deepcopy(model).double().eval()(x, _in_64_bits(graph.adjacency))
    return scores.numpy()


def _tensor(x: Any) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))
    # A stored zero, or one entry in two parts, would be dropped otherwise than the rest.
    canonical = x.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return csr_tensor(canonical.indptr, canonical.indices, canonical.data, canonical.shape)


def _in_64_bits(matrix: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(matrix.row_offsets, matrix.columns, matrix.values.double(), matrix.shape)
