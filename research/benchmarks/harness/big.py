"""Full-batch training on a synthetic graph of millions of nodes on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

from crossgcn import train_full_batch
from crossgcn.data.splits import Split
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.prepared import receptive_field
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.steps.full_batch import FullBatchStep
from research.benchmarks.harness.ours import raise_crosses

__all__ = [
    "BigSize",
    "EdgeByEdge",
    "build",
    "our_step",
    "prepare",
    "score_error",
    "train_on_cpu",
    "training_nodes",
]


@dataclass(frozen=True)
class BigSize:
    """Sizes of the graph and the model.

    Attributes:
        nodes: Number of nodes.
        edges: Number of undirected edges drawn.
        hidden: Width of the hidden layer.
        features: Number of dense features per node.
        classes: Number of classes.
    """

    nodes: int
    edges: int
    hidden: int
    features: int = 100
    classes: int = 47

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return f"{self.nodes:,} nodes, {self.edges:,} edges, E {self.hidden}"


def build(size: BigSize, seed: int = 0, dropout: float = 0.5) -> NodeClassifier:
    """Build a two-layer model of order 2 with nonzero order weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(
            "cross-gcn",
            size.features,
            size.classes,
            order=2,
            hidden_channels=size.hidden,
            dropout=dropout,
        )
    raise_crosses(model)
    return model


def prepare(folder: Path) -> tuple[StoredGraph, PreparedGraph]:
    """Open the graph; return it and its prepared form."""
    stored = open_graph(folder)
    return stored, PreparedGraph.from_source(source_of(stored))


def training_nodes(stored: StoredGraph) -> Tensor:
    """Return the training nodes of the graph's only split."""
    assert stored.roles is not None
    return (stored.roles[0] == 1).nonzero().flatten()


def our_step(
    model: NodeClassifier,
    graph: PreparedGraph,
    stored: StoredGraph,
    *,
    device: str = "cpu",
    precision: Precision = "fp32",
) -> FullBatchStep:
    """Return our training step on all training nodes, as a callable."""
    return FullBatchStep(
        [model],
        graph,
        stored.labels,
        [training_nodes(stored)],
        RunConfig(precision=precision),
        seeds=[0],
        device=device,
    )


def score_error(step: FullBatchStep, graph: PreparedGraph, stored: StoredGraph) -> float:
    """Return the error of the scores of some nodes against float64.

    The nodes are few and have few neighbours. The reference is computed on the subgraph that
    their scores depend on.

    Args:
        step: A step that has not run yet, of a model without dropout.
        graph: The prepared graph.
        stored: The graph on disk.
    """
    train = training_nodes(stored)
    degrees = stored.offsets.diff()[train]
    places = degrees.argsort(stable=True)[:: max(1, train.numel() // 40)][:20]
    with torch.no_grad(), multiplying_in(step.config.precision, step.device):
        scores = step.model(*step.objective.inputs)
    found = scores.reshape(train.numel(), -1)[places.to(scores.device)].double().cpu()
    field = receptive_field([graph.adjacency] * 2, train[places])
    blocks = tuple(block.with_values(block.values.double()) for block in field.blocks)
    rows = graph.x[field.input_rows] if isinstance(graph.x, Tensor) else graph.x
    assert not isinstance(rows, SparseMatrix)
    (state,) = step.states
    exact = build(_size_of(step, stored), dropout=0.0).double()
    exact.load_state_dict({name: value.double() for name, value in state.items()})
    with torch.no_grad():
        expected = exact(rows.double(), blocks)
    found = found[:, : expected.size(1)]
    return float((found - expected).norm() / expected.norm())


def _size_of(step: FullBatchStep, stored: StoredGraph) -> BigSize:
    first: Any = step.model.layers[0]
    return BigSize(
        stored.num_nodes,
        stored.num_edges,
        int(first.out_channels),
        stored.num_features,
        int(stored.num_classes or 0),
    )


class EdgeByEdge:
    """A PyG GCN that computes one message per edge; it has no crosses.

    Args:
        size: Sizes of the graph and the model.
        stored: The graph on disk.
        device: Device to train on.
    """

    def __init__(self, size: BigSize, stored: StoredGraph, device: str) -> None:
        data = stored.to_data()
        self.x, self.edges = data.x.to(device), data.edge_index.to(device)
        self.train = training_nodes(stored).to(device)
        self.y = data.y.to(device)[self.train]
        self.layers = nn.ModuleList(
            [GCNConv(size.features, size.hidden), GCNConv(size.hidden, size.classes)]
        ).to(device)
        self.optimizer = torch.optim.Adam(self.layers.parameters())

    def step(self) -> None:
        """Run forward, backward and Adam."""
        first, second = self.layers
        hidden = first(self.x, self.edges).relu()
        loss = cross_entropy(second(hidden, self.edges)[self.train], self.y)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def train_on_cpu(folder: str, hidden: int, epochs: int) -> None:
    """Open a graph, train, select and test; meant for a separate process."""
    stored, graph = prepare(Path(folder))
    size = BigSize(stored.num_nodes, stored.num_edges, hidden, stored.num_features)
    assert stored.roles is not None
    parts = ((stored.roles[0] == role).nonzero().flatten() for role in (1, 2, 3))
    train_full_batch(build(size), graph, stored.labels, Split(*parts), seed=0, epochs=epochs)
