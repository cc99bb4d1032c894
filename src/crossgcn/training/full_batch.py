"""One model, one split, one seed: train, select, and only then look at the test nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.stack import Stack
from crossgcn.training.objective import Objective, cross_entropy, make_optimizer

__all__ = ["Diverged", "EpochMetrics", "TrainedModel", "train_full_batch"]

State = dict[str, Tensor]


@dataclass(frozen=True)
class EpochMetrics:
    """What is known after one epoch.

    The training loss is the cross-entropy with dropout, without any penalty. The
    test accuracy is there for curves that asked for it and decides nothing.
    """

    epoch: int
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    test_accuracy: float | None = None


@dataclass(frozen=True)
class TrainedModel:
    """The outcome of a training: selected weights and how they did.

    Attributes:
        state: Weights of the selected epoch; the model holds them too.
        best_epoch: The selected epoch, counted from 1.
        validation_accuracy: At that epoch.
        test_accuracy: With those weights, computed once.
        history: Metrics of every epoch.
    """

    state: State
    best_epoch: int
    validation_accuracy: float
    test_accuracy: float
    history: tuple[EpochMetrics, ...]


class Diverged(WorkFailed):
    """A loss or a weight that is not finite.

    Attributes:
        state: The last good weights: those of the best validation epoch so
            far, or the initial ones.
        history: Metrics of the epochs before.
    """

    def __init__(
        self,
        epoch: int,
        what: str,
        best: EpochMetrics | None,
        state: State,
        history: list[EpochMetrics],
    ) -> None:
        kept = f"epoch {best.epoch}" if best is not None else "the start"
        super().__init__(
            f"training diverged: {what} in epoch {epoch}; the weights of {kept} "
            "are kept. Try a lower --learning-rate, a lower --order, smaller feature values "
            "(row-normalise or standardise them), or --model cross-gcn, whose crosses start at zero"
        )
        self.state = state
        self.history = history


def train_full_batch(
    model: Stack,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    *,
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    test_curve: bool = False,
    on_epoch: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel:
    """Minimise the objective over the whole graph and keep the best validation epoch.

    Each pass computes just the rows it needs (see
    :func:`~crossgcn.graph.receptive_field`). The selected epoch is the first
    with the strictly best validation accuracy (NOTE[D6]). Test nodes enter no
    loss, and unless a curve is asked for no computation, until it is known. (A model
    whose neighbours should agree predicts all nodes; no test label is read.)

    Args:
        model: Trained in place; holds the selected weights afterwards.
        graph: Features and adjacency.
        y: Class of each node, ``-1`` where unknown.
        split: Which nodes train, select and test.
        epochs: Steps of the optimiser.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        test_curve: Also evaluate the test nodes after every epoch, for a figure;
            neither the weights nor the selection depend on it.
        on_epoch: Called with the metrics of each epoch; may raise to stop.

    Raises:
        Diverged: At the first loss, or selected weights, that are not finite.
    """
    objective = Objective(model, graph, y, split.train, weight_decay)
    validation_inputs = graph.view(split.validation, model.num_hops)
    curve_inputs = graph.view(split.test, model.num_hops) if test_curve else None
    optimizer = make_optimizer(model, learning_rate, weight_decay)
    best: EpochMetrics | None = None
    best_state = _copy_state(model)
    history: list[EpochMetrics] = []

    for epoch in range(1, epochs + 1):
        model.train()
        optimizer.zero_grad()
        step = objective()
        step.total.backward()  # type: ignore[no-untyped-call]
        if not math.isfinite(step.loss.item()):
            raise Diverged(epoch, f"the loss became {step.loss.item()}", best, best_state, history)
        optimizer.step()

        validation_loss, validation_accuracy = _evaluate(
            model, validation_inputs, y[split.validation]
        )
        if not math.isfinite(validation_loss):
            what = f"the validation loss became {validation_loss}"
            raise Diverged(epoch, what, best, best_state, history)
        metrics = EpochMetrics(
            epoch,
            step.loss.item(),
            _accuracy(step.scores, y[split.train]),
            validation_loss,
            validation_accuracy,
            _evaluate(model, curve_inputs, y[split.test])[1] if curve_inputs else None,
        )
        history.append(metrics)
        if best is None or metrics.validation_accuracy > best.validation_accuracy:
            if not all(parameter.isfinite().all() for parameter in model.parameters()):
                raise Diverged(epoch, "a weight became infinite", best, best_state, history)
            best, best_state = metrics, _copy_state(model)
        if on_epoch is not None:
            on_epoch(metrics)

    model.load_state_dict(best_state)
    _, test_accuracy = _evaluate(model, graph.view(split.test, model.num_hops), y[split.test])
    assert best is not None
    return TrainedModel(
        best_state, best.epoch, best.validation_accuracy, test_accuracy, tuple(history)
    )


@torch.no_grad()
def _evaluate(model: Stack, inputs: tuple[object, object], y: Tensor) -> tuple[float, float]:
    model.eval()
    scores = model(*inputs)
    return cross_entropy(scores, y).item(), _accuracy(scores, y)


def _accuracy(scores: Tensor, y: Tensor) -> float:
    return (scores.argmax(dim=1) == y).sum().item() / y.numel()


def _copy_state(model: Stack) -> State:
    """Clones, not views: later steps change the live weights in place."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
