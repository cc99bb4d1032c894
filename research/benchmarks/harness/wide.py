"""A graph with a million sparse features, and a reference model with ``EmbeddingBag``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn import train_full_batch
from crossgcn.data.features import csr_tensor
from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.layers import CrossGCNConv
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep

__all__ = [
    "EmbeddingBags",
    "WideSize",
    "build",
    "draw_wide",
    "our_step",
    "train_ours",
    "train_peer",
]

LEARNING_RATE, WEIGHT_DECAY = 0.01, 5e-4


@dataclass(frozen=True)
class WideSize:
    """Sizes of a graph and its model.

    Attributes:
        nodes: Number of nodes; all of them are training nodes.
        features: Number of features, D; most occur in few nodes and many in none.
        stored: Approximate number of nonzero features per node.
        degree: Approximate number of neighbours of a node.
        classes: Number of classes.
        hidden: Hidden channels, E.
    """

    nodes: int = 100_000
    features: int = 1_000_000
    stored: int = 51
    degree: int = 10
    classes: int = 8
    hidden: int = 16

    @property
    def name(self) -> str:
        """Return the name of the case in the results."""
        return f"D {self.features:,}, E {self.hidden}"


def draw_wide(size: WideSize, seed: int) -> Data:
    """Draw word frequencies from a Zipf law shifted by ten ranks, and edges uniformly at random.

    The frequencies are assigned to columns at random, so that no side profits from their order.
    """
    random = np.random.default_rng(seed)
    ends = np.cumsum(1.0 / (np.arange(size.features) + 10.0))
    places = random.random((size.nodes, size.stored)) + np.arange(size.stored)
    ranks = np.searchsorted(ends, places.ravel() * (ends[-1] / size.stored))
    words = random.permutation(size.features)[ranks.clip(max=size.features - 1)]
    words = np.sort(words.reshape(size.nodes, size.stored), axis=1)
    is_new = np.diff(words, axis=1, prepend=-1) > 0
    offsets = np.concatenate([[0], is_new.sum(axis=1).cumsum()])
    values = random.random(int(offsets[-1]), dtype=np.float32)
    links = random.integers(size.nodes, size=(2, size.nodes * size.degree // 2))
    return Data(
        x=csr_tensor(offsets, words[is_new], values, (size.nodes, size.features)),
        edge_index=to_undirected(torch.from_numpy(links), num_nodes=size.nodes),
        y=torch.from_numpy(random.integers(size.classes, size=size.nodes)),
        num_classes=size.classes,
        name="wide",
    )


def build(size: WideSize, *, dropout: float = 0.0, seed: int = 0) -> NodeClassifier:
    """Build a layer with crosses of order 2 and a linear layer, each followed by aggregation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(
            "cross-gcn",
            size.features,
            size.classes,
            hidden_channels=size.hidden,
            order=[2, 1],
            dropout=dropout,
            bias=True,
        )


def our_step(
    size: WideSize, graph: PreparedGraph, y: Tensor, device: str, *, dropout: float = 0.0
) -> FullBatchStep:
    """Return our training step on all nodes."""
    return FullBatchStep(
        [build(size, dropout=dropout)],
        graph,
        y,
        [torch.arange(size.nodes)],
        RunConfig(learning_rate=LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        seeds=[0],
        device=device,
    )


class EmbeddingBags(nn.Module):
    """The same model in plain PyTorch: an ``EmbeddingBag`` per order, and Adam with its defaults.

    Args:
        model: From :func:`build`; its weights are copied.
        y: Class of each node.
        device: Device to train on.
    """

    def __init__(
        self, model: NodeClassifier, graph: PreparedGraph, y: Tensor, device: str = "cpu"
    ) -> None:
        super().__init__()
        first, last = model.layers
        assert isinstance(first, CrossGCNConv) and isinstance(last, CrossGCNConv)
        assert first.bias is not None and last.bias is not None
        assert isinstance(graph.x, SparseMatrix)
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(
                first.in_channels, first.out_channels, mode="sum", include_last_offset=True
            )
            for _ in range(2)
        )
        self.order_weight = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(first.bias.detach().clone())
        self.readout = nn.Linear(last.in_channels, last.out_channels)
        with torch.no_grad():
            for bag, weight in zip(self.bags, first.weight, strict=True):
                bag.weight.copy_(weight.T)  # type: ignore[operator]
            self.readout.weight.copy_(last.weight[0])
            self.readout.bias.copy_(last.bias)
        x, adjacency = graph.x, graph.adjacency
        self.words = [each.to(device) for each in (x.columns, x.row_offsets)]
        self.values, self.y = x.values.to(device), y.to(device)
        self.adjacency = torch.sparse_csr_tensor(
            adjacency.row_offsets,
            adjacency.columns,
            adjacency.values,
            adjacency.shape,
            check_invariants=False,
        ).to(device)
        self.to(device)
        parameters = list(self.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.dim() <= 1]},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)

    def forward(self) -> Tensor:
        """Return the scores of all nodes."""
        one, two = (bag(*self.words, per_sample_weights=self.values) for bag in self.bags)
        crossed = one + self.order_weight * (one * two)
        hidden = torch.relu(self.adjacency @ crossed + self.bias)
        return self.adjacency @ (hidden @ self.readout.weight.T) + self.readout.bias

    def step(self) -> Tensor:
        """Run forward, backward and Adam, and return the loss."""
        self.optimizer.zero_grad()
        loss = cross_entropy(self(), self.y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def train_ours(size: WideSize, seed: int) -> None:
    """Draw the graph and run a whole training: epochs, validation, selection and test."""
    data = draw_wide(size, seed)
    nodes = torch.arange(size.nodes)
    tenth = size.nodes // 10
    split = Split(nodes, nodes[:tenth], nodes[tenth : 2 * tenth])
    graph = PreparedGraph(data.x, data.edge_index)
    train_full_batch(build(size, dropout=0.5), graph, data.y, split, seed=0, epochs=5)


def train_peer(size: WideSize, seed: int) -> None:
    """Draw the graph and train the reference model for some steps."""
    data = draw_wide(size, seed)
    peer = EmbeddingBags(build(size), PreparedGraph(data.x, data.edge_index), data.y)
    for _ in range(5):
        peer.step()
