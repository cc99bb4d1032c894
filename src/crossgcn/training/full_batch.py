"""Train, select, and only then look at the test nodes: one model, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.stack import Stack
from crossgcn.training.cuda_graph import capture
from crossgcn.training.scoring import Scorer
from crossgcn.training.selection import EpochMetrics, Selection
from crossgcn.training.step import TrainingStep
from crossgcn.training.targets import find_targets

__all__ = ["Diverged", "EpochMetrics", "TrainedModel", "train_full_batch", "train_together"]

State = dict[str, Tensor]

_EPOCHS_PER_WAIT = 25
"""How many epochs a GPU is given before anyone asks how far it is."""


@dataclass(frozen=True)
class TrainedModel:
    """The outcome of a training: selected weights and how they did.

    Attributes:
        state: Weights of the selected epoch; the model holds them too.
        best_epoch: The selected epoch, counted from 1.
        validation_accuracy: At that epoch.
        test_accuracy: With those weights, computed once; ``None`` if it was not to be read.
        history: Metrics of every epoch.
    """

    state: State
    best_epoch: int
    validation_accuracy: float
    test_accuracy: float | None
    history: tuple[EpochMetrics, ...]


class Diverged(WorkFailed):
    """A loss or a weight that is not finite.

    Attributes:
        state: The last good weights: those of the best validation epoch so
            far, or the initial ones.
        kept_epoch: Which epoch's they are, 0 for the initial ones.
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
        self.kept_epoch = 0 if best is None else best.epoch
        self.history = history


def train_full_batch(
    model: Stack,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    *,
    seed: int | None = None,
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    test_curve: bool = False,
    device: str | torch.device = "cpu",
    precision: str = "fp32",
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
        seed: Decides what is dropped; drawn by torch's generator when left out.
        epochs: Steps of the optimiser.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        test_curve: Also evaluate the test nodes after every epoch, for a figure;
            neither the weights nor the selection depend on it.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        on_epoch: Called with the metrics of each epoch; may raise to stop.

    Raises:
        Diverged: At the first loss, or selected weights, that are not finite.
    """
    seed = int(torch.randint(2**32, (1,))) if seed is None else seed
    training = _Training(
        [model],
        graph,
        y,
        [split],
        [seed],
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        test_curve=test_curve,
        device=device,
        precision=precision,
    )
    done = 0
    for count in training:
        for metrics in training.selection.metrics(done, count, test_curve=test_curve)[0]:
            if on_epoch is not None and training.selection.failure(0, [metrics]) is None:
                on_epoch(metrics)
        done = count
    (result,) = training.results()
    if isinstance(result, Diverged):
        raise result
    model.load_state_dict(result.state)
    return result


def train_together(
    models: Sequence[Stack],
    graph: PreparedGraph,
    y: Tensor,
    splits: Sequence[Split],
    seeds: Sequence[int],
    *,
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    test_curve: bool = False,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    precision: str = "fp32",
    on_epochs: Callable[[int], None] | None = None,
) -> list[TrainedModel | Diverged]:
    """Train several models of one architecture, each on its own split, in the same steps.

    Every one of them is trained as :func:`train_full_batch` would train it alone with the
    same seed: what it drops, its decay, its running means and its selected epoch are its
    own. The others go on past one that diverges.

    Args:
        models: Left as they are; their weights are the start.
        graph: Features and adjacency.
        y: Class of each node, ``-1`` where unknown.
        splits: One per model.
        seeds: One per model; decides what is dropped.
        epochs: Steps of the optimiser.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        test_curve: As for :func:`train_full_batch`.
        read_test: Look at the test nodes at the end; a search for settings does not.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        on_epochs: Called now and then with the number of epochs done since; may raise to stop.
    """
    training = _Training(
        models,
        graph,
        y,
        splits,
        seeds,
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        test_curve=test_curve,
        device=device,
        precision=precision,
    )
    done = 0
    for count in training:
        if on_epochs is not None:
            on_epochs(count - done)
        done = count
    return training.results(read_test=read_test)


class _Training:
    """Epochs to be done; iterating does them, and tells how many are."""

    def __init__(
        self,
        models: Sequence[Stack],
        graph: PreparedGraph,
        y: Tensor,
        splits: Sequence[Split],
        seeds: Sequence[int],
        *,
        epochs: int,
        learning_rate: float,
        weight_decay: float,
        test_curve: bool,
        device: str | torch.device,
        precision: str,
    ) -> None:
        self.y, self.splits = y, splits
        self.epochs, self.test_curve = epochs, test_curve
        self.step = TrainingStep(
            models,
            graph,
            y,
            [split.train for split in splits],
            seeds=seeds,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            device=device,
            precision=precision,
        )
        self.validation = self._scorer([split.validation for split in splits])
        self.curve = self._scorer([split.test for split in splits]) if test_curve else None
        self.selection = Selection(self.step.model, self.step.shapes, epochs, self.step.device)

    def __iter__(self) -> Iterator[int]:
        if self.step.captures:
            yield from self._replayed()
            return
        for epoch in range(1, self.epochs + 1):
            self._epoch()
            yield epoch
            if not self.selection.sound.any():
                return

    def results(self, *, read_test: bool = True) -> list[TrainedModel | Diverged]:
        """What became of each model; only now are the test nodes looked at, if at all."""
        done = int(self.selection.epoch)
        histories = self.selection.metrics(0, done, test_curve=self.test_curve)
        best_epochs = self.selection.best_epoch.tolist()
        test_accuracies = self._test() if read_test else None
        results: list[TrainedModel | Diverged] = []
        states = self.step.widen(self.selection.best_states(), best_epochs)
        for position, (history, state) in enumerate(zip(histories, states, strict=True)):
            best = history[best_epochs[position] - 1] if best_epochs[position] else None
            failure = self.selection.failure(position, history)
            if failure is not None:
                epoch, what = failure
                results.append(Diverged(epoch, what, best, state, history[: epoch - 1]))
                continue
            assert best is not None
            results.append(
                TrainedModel(
                    state,
                    best.epoch,
                    best.validation_accuracy,
                    None if test_accuracies is None else float(test_accuracies[position]),
                    tuple(history),
                )
            )
        return results

    def _test(self) -> Tensor:
        with torch.no_grad():
            for live, best in zip(self.selection.live, self.selection.best, strict=True):
                live.copy_(best)
        self.step.finish()
        del self.validation
        test = self.curve or self._scorer([split.test for split in self.splits])
        return test()[1]

    def _epoch(self) -> None:
        self.step.run()
        self.selection.record(
            (self.step.losses, self.step.accuracies),
            self.validation(),
            self.curve()[1] if self.curve is not None else None,
        )

    def _replayed(self) -> Iterator[int]:
        def restart() -> None:
            self.step.restart()
            self.selection.restart()

        replay = capture(self._epoch, restart, self.step.device)
        for epoch in range(1, self.epochs + 1):
            replay()
            if epoch % _EPOCHS_PER_WAIT == 0 or epoch == self.epochs:
                torch.cuda.synchronize(self.step.device)
                yield epoch

    def _scorer(self, nodes: Sequence[Tensor]) -> Scorer:
        targets = find_targets(self.step.model, self.step.graph, self.y, nodes, self.step.device)
        return Scorer(self.step.model, targets, self.step.precision)
