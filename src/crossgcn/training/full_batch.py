"""Train, select, and only then look at the test nodes: one model, or several at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import WARM_UPS, capture
from crossgcn.training.model_batch import unstack_state
from crossgcn.training.steps.step import TrainingStep
from crossgcn.training.steps.targets import Scorer, find_targets

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


class Selection:
    """Keeps each model's first epoch of strictly best validation accuracy (NOTE[D6]).

    All of it stays on the models' device, so that no epoch waits for the CPU. A model
    whose loss or selected weights are not finite keeps what it had before.

    Args:
        model: One model, or several stacked, at the start of training.
        shapes: What each tensor of a single model's state is like.
        epochs: How many epochs there will be.
        device: Where the model is.
    """

    def __init__(
        self,
        model: NodeClassifier,
        shapes: Mapping[str, torch.Size],
        epochs: int,
        device: torch.device,
    ) -> None:
        self.shapes = shapes
        models = model.num_models or 1
        self.names = list(model.state_dict())
        values = model.state_dict().values()
        self.live = [value if model.num_models else value.unsqueeze(0) for value in values]
        self.best = [value.clone() for value in self.live]
        self.best_accuracy = torch.full((models,), -1.0, dtype=torch.float64, device=device)
        self.best_epoch = torch.zeros(models, dtype=torch.long, device=device)
        self.sound = torch.ones(models, dtype=torch.bool, device=device)
        rows = max(epochs, WARM_UPS)
        self.history = torch.zeros(rows, models, 6, dtype=torch.float64, device=device)
        self.epoch = torch.zeros(1, dtype=torch.long, device=device)

    def restart(self) -> None:
        """Forget all epochs, in place; the model's weights are those of the start again."""
        for kept, live in zip(self.best, self.live, strict=True):
            kept.copy_(live)
        self.best_accuracy.fill_(-1.0)
        self.sound.fill_(True)
        for tensor in (self.best_epoch, self.history, self.epoch):
            tensor.zero_()

    def record(
        self, train: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], test: Tensor | None
    ) -> None:
        """Take down one more epoch.

        Args:
            train: Losses and accuracies on the training nodes, ``[models]`` each.
            validation: The same on the validation nodes.
            test: Accuracies on the test nodes, for a curve; they decide nothing.
        """
        finite = train[0].isfinite() & validation[0].isfinite()
        better = self.sound & finite & (validation[1] > self.best_accuracy)
        # Asking whether any is better would make a GPU wait; there, all is computed.
        look = better.is_cuda or bool(better.any())
        fit = self._weights_are_finite() if look else torch.ones_like(better)
        burst = better & ~fit
        columns = (*train, *validation, validation[1] if test is None else test, ~burst)
        metrics = torch.stack([values.double() for values in columns], dim=1)
        self.history.index_copy_(0, self.epoch, metrics.unsqueeze(0))
        self.epoch += 1
        self.sound &= finite & ~burst
        if look:
            self._keep(better & fit, validation[1])

    def _weights_are_finite(self) -> Tensor:
        each = [value.isfinite().all(dim=tuple(range(1, value.dim()))) for value in self.live]
        return torch.stack(each).all(dim=0)

    def _keep(self, better: Tensor, accuracy: Tensor) -> None:
        for kept, value in zip(self.best, self.live, strict=True):
            kept.copy_(torch.where(better.view(-1, *(1,) * (value.dim() - 1)), value, kept))
        self.best_accuracy.copy_(torch.where(better, accuracy, self.best_accuracy))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))

    def best_states(self) -> list[State]:
        """Each model's weights at its best epoch, or those at the start, on the CPU."""
        best = {name: value.cpu() for name, value in zip(self.names, self.best, strict=True)}
        return [unstack_state(best, model, self.shapes) for model in range(self.sound.numel())]

    def metrics(self, first: int, last: int, *, test_curve: bool) -> list[list[EpochMetrics]]:
        """Of each model, the epochs from ``first`` to before ``last``, counted from 0."""
        rows = self.history[first:last].tolist()
        return [
            [_metrics(first + i + 1, epoch[position], test_curve) for i, epoch in enumerate(rows)]
            for position in range(self.history.size(1))
        ]

    def failure(self, position: int, metrics: list[EpochMetrics]) -> tuple[int, str] | None:
        """Epoch and kind of the first thing that was not finite, if anything was."""
        fit = self.history[:, position, 5].tolist()
        for epoch in metrics:
            if not math.isfinite(epoch.train_loss):
                return epoch.epoch, f"the loss became {epoch.train_loss}"
            if not math.isfinite(epoch.validation_loss):
                return epoch.epoch, f"the validation loss became {epoch.validation_loss}"
            if not fit[epoch.epoch - 1]:
                return epoch.epoch, "a weight became infinite"
        return None


def _metrics(epoch: int, row: list[float], test_curve: bool) -> EpochMetrics:
    train_loss, train_accuracy, validation_loss, validation_accuracy, test_accuracy, _ = row
    return EpochMetrics(
        epoch,
        train_loss,
        train_accuracy,
        validation_loss,
        validation_accuracy,
        test_accuracy if test_curve else None,
    )


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
    model: NodeClassifier,
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
    models: Sequence[NodeClassifier],
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
        models: Sequence[NodeClassifier],
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
