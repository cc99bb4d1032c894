"""Models of every kind that training treats in its own way, small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "order 3": ("cross-gcn", {"order": 3}),
    "order 3, learned, release": (
        "cross-gcn-release",
        {"order": 3, "order_weights": "learned", "bias": True},
    ),
    "order 2 then 1": ("cross-gcn", {"order": [2, 1]}),
    "bias": ("cross-gcn", {"bias": True}),
    "learned": ("cross-gcn", {"order_weights": "learned"}),
    "a list": ("cross-gcn", {"order_weights": [0.5, -1.5]}),
    "a list of one": ("cross-gcn", {"order": 1, "order_weights": [0.7]}),
    "release": ("cross-gcn", {"first_order": "release"}),
    "aggregate first": ("cross-gcn", {"aggregate_first": True, "order": 3}),
    "one layer": ("cross-gcn", {"num_layers": 1, "order_weights": "learned"}),
    "three layers": ("cross-gcn", {"num_layers": 3, "order_weights": "learned", "bias": True}),
    "gcn with bias, aggregate first": (
        "cross-gcn",
        {"order": 1, "order_weights": "fixed", "aggregate_first": True, "bias": True},
    ),
    "mlp of three layers with bias": ("mlp", {"num_layers": 3, "bias": True}),
}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name, preset in PRESETS.items() if preset.inputs != "hops"},
    **VARIANTS,
}


def make(architecture: str, data: Data, seed: int, dropout: float = 0.5) -> NodeClassifier:
    """A model whose start a seed decides."""
    preset, settings = ARCHITECTURES[architecture]
    torch.manual_seed(seed)
    return build_model(
        preset, data.x.size(1), data.num_classes, hidden_channels=8, dropout=dropout, **settings
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they bring on a graph this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
