"""Our side: the model of a preset and its training step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.graph import PreparedGraph
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.full_batch import FullBatchStep

__all__ = ["build_ours", "prepare", "raise_crosses", "training_step"]

ORDER_WEIGHT = 0.5
"""Order weight of the crosses in comparisons; the initial value 0 would hide them."""


def build_ours(
    data: Data, order: int, *, hidden_channels: int = 32, dropout: float = 0.5, seed: int = 0
) -> NodeClassifier:
    """Build the preset ``cross-gcn`` with two layers of the given order, or ``gcn`` for order 1."""
    name, options = ("gcn", {}) if order == 1 else ("cross-gcn", {"order": order})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(
            name,
            data.x.size(1),
            data.num_classes,
            hidden_channels=hidden_channels,
            dropout=dropout,
            **options,
        )


def raise_crosses(model: NodeClassifier) -> None:
    """Set the order weights of the crosses to a nonzero value, as after some training."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, CrossFeatureTransform) and module.order_weights is not None:
                module.order_weights[1:] = ORDER_WEIGHT


def prepare(data: Data) -> PreparedGraph:
    """Prepare a graph for our models."""
    return PreparedGraph(data.x, data.edge_index)


def training_step(
    model: NodeClassifier,
    graph: PreparedGraph,
    data: Data,
    train: Tensor,
    *,
    device: str = "cpu",
    precision: Precision = "fp32",
    weight_decay: float = 5e-4,
    seed: int = 0,
) -> FullBatchStep:
    """Return our training step for one model, as a callable."""
    return FullBatchStep(
        [model],
        graph,
        data.y,
        [train],
        RunConfig(weight_decay=weight_decay, precision=precision),
        seeds=[seed],
        device=device,
    )
