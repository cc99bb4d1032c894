"""Small models with live crosses, and their polynomials by plain enumeration."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn import CrossFeatureTransform, CrossGCN
from crossgcn.explanation.polynomial import Polynomial


def live(model: nn.Module, seed: int = 0) -> Any:
    """Open the gates and fill the biases, so that everything takes part."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if name.endswith(("order_weights", "bias")):
            nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)
    return model.eval()


def draw_graph(seed: int = 0, *, num_nodes: int = 30) -> Data:
    """Nodes with two one-hot fields of three, two words that may co-occur, and two numbers."""
    generator = np.random.default_rng(seed)
    x = np.zeros((num_nodes, 10), np.float32)
    for field in range(2):
        x[np.arange(num_nodes), 3 * field + generator.integers(3, size=num_nodes)] = 1.0
    x[:, 6:8] = generator.random((num_nodes, 2)) < 0.5
    x[:, 8:] = generator.normal(size=(num_nodes, 2))
    edges = torch.from_numpy(generator.integers(num_nodes, size=(2, 2 * num_nodes)))
    return Data(x=torch.from_numpy(x), edge_index=to_undirected(edges, num_nodes=num_nodes))


def draw_model(order: Any, num_layers: int = 1, seed: int = 0, **settings: Any) -> CrossGCN:
    """A model for :func:`draw_graph` with three classes."""
    torch.manual_seed(seed)
    settings = {"order_weights": "learned"} | settings
    return live(CrossGCN(10, 5, num_layers, 3, order=order, **settings), seed)  # type: ignore[no-any-return]


def draw_transform(
    num_features: int, channels: int, order: int, seed: int, **settings: Any
) -> CrossFeatureTransform:
    """A transform by itself, with live crosses."""
    torch.manual_seed(seed)
    settings = {"order_weights": "learned"} | settings
    return live(CrossFeatureTransform(num_features, channels, order, **settings), seed)  # type: ignore[no-any-return]


def enumerate_terms(layer: Polynomial) -> dict[tuple[int, ...], NDArray[np.float64]]:
    """Every product of features with its weight in each unit, one assignment after the other."""
    first, projections = layer.weights[0], layer.weights[1:]
    channels, num_features = first.shape
    weights: dict[tuple[int, ...], Any] = defaultdict(lambda: np.zeros(channels))
    for feature in range(num_features):
        weights[(feature,)] = weights[(feature,)] + first[:, feature]
    for order in range(2, len(layer.order_weights) + 1):
        for features in product(range(num_features), repeat=order):
            weight = np.full(channels, layer.order_weights[order - 1])
            for position, feature in enumerate(features):
                weight = weight * projections[position, :, feature]
            name = tuple(sorted(features))
            weights[name] = weights[name] + weight
    return dict(weights)
