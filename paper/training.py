"""The paper's protocol as a plain PyTorch loop, for models that are not crossgcn's presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, GCNConv, LSTMAggregation
from torch_geometric.utils import add_remaining_self_loops, sort_edge_index

from crossgcn import CrossGCNConv, RunConfig, Split, crossify
from paper import rivals
from paper.baselines import SemiEmb, laplacian_penalty

RIVALS: Final[dict[str, Callable[[int, int], nn.Module]]] = {
    "dcn": rivals.CrossNetwork,
    "dcn-v2": rivals.CrossNetworkV2,
    "cin": rivals.CompressedInteractionNetwork,
    "hofm": rivals.HigherOrderFM,
}
AGGREGATIONS: Final = ("mean", "max", "lstm", "attention")
OWN_MODELS: Final = ("semi-emb", *RIVALS, *AGGREGATIONS)
"""Models that are trained here; all others are presets of crossgcn."""

_MOST_READ: Final = 5

Penalty = Callable[[Tensor], Tensor]


class LayerStack(nn.Module):
    """Graph convolutions with dropout before each and a ReLU between them."""

    def __init__(self, layers: Sequence[nn.Module], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return class scores."""
        for position, layer in enumerate(self.layers):
            x = functional.relu(x) if position else x
            x = functional.dropout(x, self.dropout, self.training)
            x = layer(x, edge_index)
        return x


def build_own_model(
    name: str, config: RunConfig, data: Data, options: Mapping[str, Any]
) -> tuple[nn.Module, Penalty | None]:
    """Build one of :data:`OWN_MODELS`, and return what it adds to the loss.

    Args:
        config: Its depth, width and dropout are used.
        options: ``laplacian_weight`` of SemiEmb; ``order`` of aggregations.
    """
    if name == "semi-emb":
        weight = options["laplacian_weight"]
        sizes = (data.x.size(1), config.hidden_channels, data.num_classes)
        model = SemiEmb(*sizes, config.dropout)
        return model, lambda scores: weight * laplacian_penalty(scores, data.edge_index)
    inside = [config.hidden_channels] * (config.num_layers - 1)
    widths = [data.x.size(1), *inside, data.num_classes]
    layer = partial(_aggregating, name, options)
    if name in RIVALS:
        layer = partial(_rival, RIVALS[name])
    layers = [layer(*each) for each in pairwise(widths)]
    return LayerStack(layers, config.dropout), None


def _rival(transform: Callable[[int, int], nn.Module], in_channels: int, out: int) -> nn.Module:
    """Return a GCNConv with another map in the place of its linear one."""
    conv: nn.Module = GCNConv(in_channels, out, bias=False, cached=True)
    conv.lin = transform(in_channels, out)
    return conv


def _aggregating(name: str, options: Mapping[str, Any], in_channels: int, out: int) -> nn.Module:
    """Return a layer with one of PyG's aggregations, over edges that hold self-loops."""
    if name == "attention":
        attention: nn.Module = GATv2Conv(in_channels, out, add_self_loops=False)
        return crossify(attention, options["order"]) if options["order"] > 1 else attention
    aggregation = LSTMAggregation(out, out) if name == "lstm" else name
    order = options["order"]
    return CrossGCNConv(in_channels, out, order, aggr=aggregation, normalize=False, bias=False)


def inputs_of(name: str, data: Data) -> tuple[Tensor, Tensor]:
    """Return the features and edges that a model takes.

    Aggregations other than a sum take features of standard deviation one, with which the LSTM
    learns, and edges with self-loops. The LSTM reads them by target, five of a node: PyG pads
    those of all nodes to the same number with zeros, and what it read before them fades.
    """
    x, edge_index = data.x, data.edge_index
    if name != "semi-emb" and x.layout != torch.strided:
        x = x.to_dense()
    if name in AGGREGATIONS:
        x = x / x.std()
        edge_index, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))
    if name == "lstm":
        edge_index = sort_edge_index(edge_index, num_nodes=x.size(0), sort_by_row=False)
        source, target = edge_index
        place = torch.arange(target.numel(), device=x.device)
        before = place - torch.searchsorted(target, target)
        edge_index = edge_index[:, (before < _MOST_READ) | (source == target)]
    return x, edge_index


@dataclass(frozen=True)
class Trained:
    """One training; accuracies are fractions at the selected epoch, which counts from 1."""

    best_epoch: int
    validation_accuracy: float
    test_accuracy: float


def train(
    name: str,
    data: Data,
    split: Split,
    config: RunConfig,
    options: Mapping[str, Any],
    seed: int,
    device: torch.device,
) -> Trained:
    """Train one of :data:`OWN_MODELS` as crossgcn trains its presets.

    Adam over the whole graph, weight decay on matrices alone (NOTE[D5]), and the first epoch of
    strictly best validation accuracy (NOTE[D6]).
    """
    torch.manual_seed(seed)
    data = data.clone().to(device)
    model, penalty = build_own_model(name, config, data, options)
    model.to(device)
    x, edge_index = inputs_of(name, data)
    train_nodes = split.train.to(device)
    optimizer = torch.optim.Adam(
        [
            {"params": [weight], "weight_decay": config.weight_decay if weight.dim() > 1 else 0.0}
            for weight in model.parameters()
        ],
        lr=config.learning_rate,
        fused=True,
    )

    @torch.no_grad()
    def accuracy(nodes: Tensor) -> float:
        nodes = nodes.to(device)
        predicted = model.eval()(x, edge_index)[nodes].argmax(dim=-1)
        return float((predicted == data.y[nodes]).double().mean())

    best_epoch, best_score, best_state = 0, -1.0, model.state_dict()
    for epoch in range(1, config.epochs + 1):
        model.train()
        optimizer.zero_grad()
        scores = model(x, edge_index)
        loss = functional.cross_entropy(scores[train_nodes], data.y[train_nodes])
        if penalty is not None:
            loss = loss + penalty(scores)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        score = accuracy(split.validation)
        if score > best_score:
            best_epoch, best_score, best_state = epoch, score, deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    return Trained(best_epoch, best_score, accuracy(split.test))
