"""Training steps compiled for the CPU by Numba."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from crossgcn.kernels import has_numba
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv, FeatureDropout
from crossgcn.models.cross_gcn import GCN, MLP, CrossGCN
from crossgcn.models.node_classifier import NodeClassifier


def can_be_compiled(model: NodeClassifier) -> bool:
    """Whether the CPU's compiled kernels can train a model.

    It must be a model of this package, not of a subclass, of cross-feature layers whose orders are
    summed, without foreign code in its passes, frozen weights, or a number as target.
    """
    return (
        has_numba()
        and type(model) in (NodeClassifier, CrossGCN, GCN, MLP)
        and model.target_scale is None
        and type(model.dropout) is FeatureDropout
        and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
        and all(_is_plain(layer) for layer in model.layers)
    )


def _is_plain(layer: Any) -> bool:
    """Whether a layer sums its orders, and neighbours as GCN does."""
    if type(layer) is CrossGCNConv:
        if not layer.sums_neighbours:
            return False
        layer = layer.transform
    return type(layer) is CrossFeatureTransform and layer.aggregator is None


def lay_out_weights(model: nn.Module) -> None:
    """Store all projections of one input feature side by side in memory.

    Products with sparse features read them in this order, without a transposed copy.
    """
    for module in model.modules():
        if isinstance(module, CrossFeatureTransform):
            memory = module.weight.detach().movedim(-1, 0).contiguous()
            module.weight = nn.Parameter(memory.movedim(0, -1), module.weight.requires_grad)
