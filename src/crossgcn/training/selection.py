"""Which epoch of a training is kept, and what a training returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossgcn.errors import WorkFailed
from crossgcn.training.device import WARM_UPS

State = dict[str, Tensor]
Scores = tuple[Tensor, Tensor]
"""The loss, and the accuracy or another score that should grow; a number each."""


@dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one epoch.

    ``train_loss`` is the cross-entropy, or half the squared error, with dropout and without
    weight decay. ``train_score`` is the accuracy, or R² for numbers, likewise.
    ``validation_score`` is the metric that selects, negated if it should shrink.
    ``test_accuracy`` is recorded for curves only; it does not influence the selection.
    """

    epoch: int
    train_loss: float
    train_score: float
    validation_loss: float
    validation_score: float
    test_accuracy: float | None = None


@dataclass(frozen=True)
class TrainedModel:
    """A trained model: the weights of the selected epoch and their metrics.

    Attributes:
        best_epoch: The selected epoch, counted from 1.
        validation_score: The metric that selects, negated if it should shrink.
        test: Every metric of the test nodes; ``None`` if they were not scored.
    """

    state: State
    best_epoch: int
    validation_score: float
    test: dict[str, float] | None
    history: tuple[EpochMetrics, ...]

    @property
    def test_accuracy(self) -> float | None:
        """Accuracy on the test nodes, if they were scored and have classes."""
        return None if self.test is None else self.test.get("accuracy")


class Diverged(WorkFailed):
    """A loss or a weight became infinite or NaN.

    Attributes:
        reason: What happened in which epoch, without a remedy.
        state: The weights of the best epoch before, or the initial weights.
        kept_epoch: The epoch of these weights; 0 for the initial weights.
        history: Metrics of the epochs before.
    """

    def __init__(
        self, epoch: int, what: str, kept_epoch: int, state: State, history: list[EpochMetrics]
    ) -> None:
        self.reason = f"training diverged: {what} in epoch {epoch}"
        self.kept_epoch, self.state, self.history = kept_epoch, state, history
        kept = f"epoch {kept_epoch}" if kept_epoch else "the start"
        super().__init__(
            f"{self.reason}; the weights of {kept} are kept. Try a lower learning_rate, a lower "
            "--order, or smaller feature values (row-normalise or standardise them)"
        )


class Selection:
    """Keeps the weights of the first epoch of strictly best validation score (NOTE[D6]).

    All tensors stay on the model's device, so that no epoch waits for a GPU. If a loss or the
    selected weights are not finite, the weights selected before are kept.

    Args:
        model: At the start of training.
        patience: Epochs without improvement after which training ends.
    """

    def __init__(self, model: nn.Module, epochs: int, patience: int | None = None) -> None:
        self.patience = epochs if patience is None else patience
        self.live = {name: value.detach() for name, value in model.state_dict().items()}
        self.best = {name: value.clone() for name, value in self.live.items()}
        device = next(iter(self.live.values())).device
        self.best_score = torch.full((), -math.inf, dtype=torch.float64, device=device)
        self.best_epoch = torch.zeros((), dtype=torch.long, device=device)
        self.sound = torch.ones((), dtype=torch.bool, device=device)
        self.epoch = torch.zeros((), dtype=torch.long, device=device)
        rows = max(epochs, WARM_UPS)
        self.history = torch.full((rows, 6), math.nan, dtype=torch.float64, device=device)
        self._unknown = torch.full_like(self.best_score, math.nan)
        self.validates = False

    def restart(self) -> None:
        """Forget all epochs, in place; the model holds its initial weights again."""
        for name, value in self.live.items():
            self.best[name].copy_(value)
        self.best_score.fill_(-math.inf)
        self.best_epoch.zero_()
        self.sound.fill_(True)
        self.epoch.zero_()
        self.history.fill_(math.nan)

    def record(
        self, train: Scores, validation: Scores | None = None, test: Tensor | None = None
    ) -> None:
        """Record the metrics of one more epoch, and keep its weights if they are the best."""
        finite = train[0].isfinite()
        self.validates = validation is not None
        if validation is None:
            validation = (self._unknown, self._unknown)
        else:
            finite = finite & validation[0].isfinite()
        better = self.sound & finite & (validation[1] > self.best_score)
        better = better & (self.epoch - self.best_epoch < self.patience)
        # On a GPU, asking whether it is better would wait; there everything is computed.
        look = better.is_cuda or bool(better)
        if look:
            weights_are_finite = self._weights_are_finite()
            finite = finite & (weights_are_finite | ~better)
            better = better & weights_are_finite
        self.sound &= finite
        columns = (*train, *validation, self._unknown if test is None else test, self.sound)
        row = torch.stack([value.double() for value in columns])
        self.history.index_copy_(0, self.epoch.view(1), row.unsqueeze(0))
        self.epoch += 1
        if look:
            self._keep(better, validation[1])

    def goes_on(self) -> bool:
        """Whether the model has not diverged and may still improve."""
        return bool(self.sound & (self.epoch - self.best_epoch < self.patience))

    def keep_last(self) -> None:
        """Select the last epoch: the rule where no validation nodes select one."""
        self.sound &= self._weights_are_finite()
        self.history[self.epoch - 1, 5] = self.sound.double()
        self._keep(self.sound, self._unknown)

    def _weights_are_finite(self) -> Tensor:
        return torch.stack([value.isfinite().all() for value in self.live.values()]).all()

    def _keep(self, better: Tensor, score: Tensor) -> None:
        for name, value in self.live.items():
            self.best[name].copy_(torch.where(better, value, self.best[name]))
        self.best_score.copy_(torch.where(better, score, self.best_score))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))

    def state(self) -> State:
        """Return the tensors that a checkpoint keeps; they are written to in place."""
        names = ("best_score", "best_epoch", "sound", "epoch", "history")
        best = {f"best.{name}": value for name, value in self.best.items()}
        return {name: getattr(self, name) for name in names} | best

    def restore(self) -> None:
        """Put the selected weights into the model."""
        for name, value in self.live.items():
            value.copy_(self.best[name])

    def metrics(self, first: int = 0) -> list[EpochMetrics]:
        """Return the metrics of the epochs after ``first``, while the model is sound."""
        metrics = []
        rows = self.history[first : int(self.epoch)].tolist()
        for epoch, (loss, train, validation_loss, score, test, sound) in enumerate(rows, first + 1):
            if sound == 1.0:
                curve = None if math.isnan(test) else test
                metrics.append(EpochMetrics(epoch, loss, train, validation_loss, score, curve))
        return metrics

    def result(self, test: dict[str, float] | None) -> TrainedModel | Diverged:
        """Return the outcome, with the selected weights on the CPU."""
        state = {
            name: value.to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, value in self.best.items()
        }
        history, best_epoch = self.metrics(), int(self.best_epoch)
        rows = self.history[: int(self.epoch)].tolist()
        for epoch, (train_loss, _, validation_loss, *_, sound) in enumerate(rows, start=1):
            if sound == 0.0:
                what = "a weight became infinite"
                if not math.isfinite(train_loss):
                    what = f"the loss became {train_loss}"
                elif self.validates and not math.isfinite(validation_loss):
                    what = f"the validation loss became {validation_loss}"
                return Diverged(epoch, what, best_epoch, state, history)
        validation = next(m.validation_score for m in history if m.epoch == best_epoch)
        return TrainedModel(state, best_epoch, validation, test, tuple(history))
