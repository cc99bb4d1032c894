"""Our side: the model, the step that training runs and its agreement with a peer, and rows.

This is the one file of the benchmarks that uses names from inside the package: a step is what
:func:`crossgcn.train_full_batch` repeats, and only the inside can time one alone, or train on
rows that lie on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from benchmarks.harness import Check, relative_error
from benchmarks.peers import PeerTraining, Precision, order_of, product_precision
from crossgcn import PreparedGraph, RunConfig, Split, build_model
from crossgcn.data import make_splits
from crossgcn.data.relations import as_relation
from crossgcn.data.tables.graph import TableGraph, describe_encoding
from crossgcn.data.tables.kinds import numeric
from crossgcn.experiments.candidates import configure_for_tables
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.standardise import HopRows, Scale
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import capture, multiplying_in
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.rows import train_rows
from crossgcn.training.trainer import Run, Trainer, using_threads

SAME_VALUES: dict[Precision, float] = {"fp32": 3e-4, "tf32": 3e-2, "bf16": 1e-1}
"""Tolerance for scores and gradients, relative to their norm."""

SAME_LOSSES: dict[Precision, float] = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}
"""Tolerance for the first losses; Adam amplifies rounding errors of gradients near zero."""

CHECKED_STEPS = 5
ORDER_WEIGHT = 0.5
"""Order weight of the crosses in checks; the initial value 0 would hide them."""

Floats = NDArray[np.float64]
Weights = list[tuple[Tensor, Tensor | None]]


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


def weights_of(model: NodeClassifier) -> Weights:
    """Return weight and order weights of each layer, for a peer to copy."""
    transforms = [cast(Any, layer).transform for layer in model.layers]
    return [(transform.weight, transform.order_weights) for transform in transforms]


def training_step(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    train: Tensor,
    *,
    device: str = "cpu",
    precision: Precision = "fp32",
    weight_decay: float = 5e-4,
    seed: int = 0,
) -> TimedStep:
    """Return the step that trains a model, as a callable that returns the loss."""
    config = RunConfig(weight_decay=weight_decay, precision=precision)
    return TimedStep(model, graph, y, train, config, seed=seed, device=device)


class TimedStep(FullBatchStep):
    """A step of training; replayed from a CUDA graph if possible, as in training."""

    _replay: Callable[[], None] | None = None

    def __call__(self) -> Tensor:
        """Do one step, and return the loss."""
        if self._replay is None:
            self._replay = self.run
            if self.capturable:
                self._replay = capture(self.run, self.tensors(), self.device)
        self._replay()
        return self.loss


def check_peer(
    case: str,
    name: str,
    data: Data,
    train: Tensor,
    *,
    hidden_channels: int = 32,
    device: str = "cpu",
    precision: Precision = "fp32",
    graph: PreparedGraph | None = None,
) -> list[Check]:
    """Compare a peer with our timed step, from the same weights and without dropout.

    Compared are the scores of the training nodes, the gradients of every weight (of order
    weights in ``fp32`` only), and the losses of the first training steps.

    Raises:
        WorkFailed: If the sides disagree.
    """
    ours = build_ours(data, order_of(name), hidden_channels=hidden_channels, dropout=0.0)
    with torch.no_grad():
        for _, order_weights in weights_of(ours):
            if order_weights is not None:
                order_weights[1:] = ORDER_WEIGHT
    graph = graph or PreparedGraph(data.x, data.edge_index)
    both = {"device": device, "precision": precision}
    values, sides = SAME_VALUES[precision], f"of ours and {name}"
    with product_precision(precision):
        peer = PeerTraining(name, weights_of(ours), data, train, dropout=0.0, **both)  # type: ignore[arg-type]
        step = training_step(ours, graph, data.y, train, **both)  # type: ignore[arg-type]
        error = relative_error(_scores(step), peer.scores())
        checks = [Check(case, f"scores {sides}", error, values)]
        # No weight decay: it would hide a small gradient in Adam's first moment.
        bare = training_step(ours, graph, data.y, train, weight_decay=0.0, **both)  # type: ignore[arg-type]
        bare()
        pairs = zip(_first_gradients(bare), peer.gradients(), strict=True)
        for layer, (mine, theirs) in enumerate(pairs, 1):
            for place, expected in enumerate(theirs):
                is_scalar = expected.numel() == 1  # its terms cancel, their rounding errors do not
                if is_scalar and precision != "fp32":
                    continue
                what = f"gradients of weight {place + 1} in layer {layer} {sides}"
                tolerance = 10 * values if is_scalar else values
                error = relative_error(mine[place].cpu(), expected.cpu().reshape(mine[place].shape))
                checks.append(Check(case, what, error, tolerance))
        losses = [step().detach().reshape(()).clone() for _ in range(CHECKED_STEPS)]
        expected = torch.stack([peer.step() for _ in range(CHECKED_STEPS)])
    error = relative_error(torch.stack(losses), expected)
    checks.append(Check(case, f"first losses {sides}", error, SAME_LOSSES[precision]))
    return [check.require() for check in checks]


def _scores(step: FullBatchStep) -> Tensor:
    """Return the scores of the training nodes, without training."""
    with torch.no_grad(), multiplying_in(step.config.precision, step.device):
        scores: Tensor = step.model(*step.inputs)
        return scores


def _first_gradients(step: FullBatchStep) -> list[list[Tensor]]:
    """Return the gradients of a step's first call: a tenth of each is Adam's first moment.

    They are those of the timed step, even if it is compiled or captured.
    """
    found: dict[int, Tensor] = {}
    kept = step.optimizer
    for weight, order, state in zip(kept.weights, kept.orders, kept.states, strict=True):
        # Means lie as the weights do in memory.
        places = [order.index(dim) for dim in range(weight.dim())]
        found[id(weight)] = 10 * state["exp_avg"].permute(places)
    gradients = []
    for weight, order_weights in weights_of(step.model):
        trained = found.get(id(order_weights))
        more = [] if trained is None else [trained[1:]]
        gradients.append([*found[id(weight)], *more])
    return gradients


def hop_columns(x: Tensor, edge_index: Tensor, device: str) -> Tensor:
    """Return the columns of every node and its neighbourhood of two hops, on the device."""
    relations = [as_relation(edge_index)]
    return HopColumns(x, relations, hops=2, device=torch.device(device)).without_labels


def train_on_rows(
    columns: Tensor, y: Tensor, split: Split, *, epochs: int, device: str, seed: int
) -> float:
    """Train cross-hops with eight bags on standardised columns, and return the test accuracy."""
    config = RunConfig.create(
        model="cross-hops",
        hops=1,
        label_features=False,
        bags=8,
        epochs=epochs,
        batch_size=8192,
    )
    torch.manual_seed(seed)
    model = build_model("cross-hops", (columns.size(1) - 1) // 2, 2, **config.model_settings())
    assert isinstance(model, CrossHops)
    zeros = torch.zeros(columns.size(1))
    same = Scale(zeros, zeros + 1, zeros - torch.inf, zeros + torch.inf)
    result = train_rows(model, HopRows([columns], same, y), split, config, seed=seed, device=device)
    assert result.test_accuracy is not None
    return result.test_accuracy


@contextmanager
def numbers_as(variant: str) -> Iterator[None]:
    """Encode numbers as a variant does, within a block."""
    encode = numeric.NumberEncoder.encode_numbers

    def encode_splines(self: numeric.NumberEncoder, read: Floats) -> NDArray[np.float32]:
        """Let the feature of a range rise from 0 to 1 inside it, and stay 1 above it."""
        features, is_known = encode(self, read), np.isfinite(read)
        ends = np.array([self.known[0], *self.bounds, self.known[-1]])
        for place, (low, high) in enumerate(pairwise(ends)):
            risen = (read[is_known] - low) / max(high - low, 1e-300)
            features[is_known, place] = risen.clip(0, 1)
        return features

    if variant.startswith("8 ranges"):
        with patch.object(numeric, "NUM_RANGES", 8):
            yield
    elif variant.startswith("linear splines"):
        with patch.object(numeric.NumberEncoder, "encode_numbers", encode_splines):
            yield
    else:
        yield


def score_validation_nodes(
    graph: TableGraph, settings: Mapping[str, Any], num_splits: int
) -> tuple[str, list[float]]:
    """Return the metric, and the score of a model on the validation nodes of each split.

    The training nodes are split again for its own validation. No test node is read.
    """
    config = configure_for_tables(graph, settings)
    drawn = make_splits(graph.data, "stratified", num_splits=num_splits)
    splits = [_inner(split, seed) for seed, split in enumerate(drawn)]
    trainer = Trainer(graph.data, splits, preprocess=describe_encoding(graph))
    metric, scores = str(config.metric), []
    for place in range(num_splits):
        run = Run(config, place)
        with using_threads(1):
            result = trainer.fit(run, trainer.build(run))
        assert result.test is not None
        scores.append(result.test[metric])
    return metric, scores


def _inner(split: Split, seed: int) -> Split:
    """Return a split whose test nodes are the validation nodes of another."""
    generator = torch.Generator().manual_seed(seed)
    order = split.train[torch.randperm(split.train.numel(), generator=generator)]
    count = order.numel() // 4
    return Split(order[count:].sort().values, order[:count].sort().values, split.validation)
