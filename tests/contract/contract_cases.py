"""A small graph and layers whose parameters are moved away from where they start."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn import CrossGCNConv
from crossgcn.layers import MLPTransform
from crossgcn.layers.order_weights import ORDER_WEIGHTS

NODES, FEATURES, OUTPUTS = 7, 5, 4
EDGES = torch.tensor(  # node 6 is isolated, node 3 has a self-loop
    [[0, 1, 1, 2, 3, 3, 4, 5, 0, 5, 3], [1, 0, 2, 1, 4, 5, 3, 3, 5, 0, 3]]
)
WEIGHTS = torch.linspace(0.3, 2.0, EDGES.size(1))
ORDERS = (1, 2, 3)
CASES: dict[str, dict[str, Any]] = {
    **{f"order {order}": {"order": order} for order in ORDERS},
    "aggregate first": {"order": 3, "aggregate_first": True},
    "release": {"order": 2, "first_order": "release", "order_weights": "learned"},
    **{f"aggr {name}": {"aggr": name} for name in ("mean", "max", "softmax")},
    **{f"orders {name}": {"order": 3, "order_weights": name} for name in ORDER_WEIGHTS},
    "perceptron": {"transform": MLPTransform(FEATURES, 6, OUTPUTS)},
}


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*(shape or (NODES, FEATURES)), generator=torch.Generator().manual_seed(seed))


def shake(module: nn.Module) -> Any:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def make(case: str) -> CrossGCNConv:
    torch.manual_seed(0)
    conv: CrossGCNConv = shake(CrossGCNConv(FEATURES, OUTPUTS, **deepcopy(CASES[case])))
    return conv


def copy_weights(theirs: Any, ours: Any) -> None:
    """Give a layer of order 1 the weights of PyG's ``GCNConv``."""
    with torch.no_grad():
        ours.weight[0].copy_(theirs.lin.weight)
        if theirs.bias is not None:
            ours.bias.copy_(theirs.bias)
