"""What a trained model says about nodes, in digits that are the same on every machine."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.graph import PreparedGraph
from crossgcn.models.stack import Stack

__all__ = ["class_probabilities", "class_scores"]

_NODES_AT_ONCE = 65_536


def class_scores(model: Stack, data: Data, nodes: Tensor | None = None) -> Tensor:
    """Class scores before the softmax, ``[nodes, classes]``, computed in 64 bits.

    Processors differ in how they round sums of 32-bit numbers. Computed in 64 bits, scores
    differ by some 1e-14, which is far below any digit that is written down.

    Args:
        model: A trained model; it is left as it is.
        data: Features and edges.
        nodes: Whose scores; all when left out.
    """
    exact = copy.deepcopy(model).double().eval()
    graph = PreparedGraph(
        data.x, data.edge_index, getattr(data, "edge_weight", None), dtype=torch.float64
    )
    nodes = torch.arange(data.x.size(0)) if nodes is None else nodes
    with torch.no_grad():
        scores = [
            exact(*graph.view(part, model.propagations))[:, : model.num_scores]
            for part in torch.split(nodes, _NODES_AT_ONCE)
        ]
    return torch.cat(scores)


def class_probabilities(model: Stack, data: Data, nodes: Tensor | None = None) -> Tensor:
    """Softmax of :func:`class_scores`; each row sums to 1."""
    return class_scores(model, data, nodes).softmax(dim=1)
