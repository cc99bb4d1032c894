"""Which epoch of a training is kept, and what a training returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossgcn.errors import WorkFailed
from crossgcn.training.device import WARM_UPS
from crossgcn.training.model_batch import State, unstack_state

Scores = tuple[Tensor, Tensor]
"""Losses and accuracies (or another score that should grow), ``[models]`` each."""


@dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one epoch.

    ``train_loss`` is the cross-entropy, or half the squared error, with dropout and without
    penalties. ``train_score`` is the accuracy, or R² for numbers, likewise. ``validation_score``
    is the metric that selects, negated if it should shrink. ``test_accuracy`` is recorded for
    curves only; it does not influence the selection.
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
            f"{self.reason}; the weights of {kept} are kept. Try a lower --learning-rate, a lower "
            "--order, or smaller feature values (row-normalise or standardise them)"
        )


class Selection:
    """Keeps the weights of each model's first epoch of strictly best validation score (NOTE[D6]).

    All tensors stay on the model's device, so that no epoch waits for a GPU. A model whose loss
    or selected weights are not finite keeps the weights selected before.

    Args:
        model: One model, or several stacked, at the start of training.
        shapes: Shape of each tensor in the state of a single model.
        patience: Epochs without improvement after which a model is done, even if others go on.
    """

    def __init__(
        self,
        model: nn.Module,
        shapes: Mapping[str, torch.Size],
        epochs: int,
        patience: int | None = None,
    ) -> None:
        self.patience = epochs if patience is None else patience
        stacked: int | None = getattr(model, "num_models", None)
        self.names, values = list(model.state_dict()), model.state_dict().values()
        self.live = [value if stacked else value.unsqueeze(0) for value in values]
        self.best = [value.clone() for value in self.live]
        self.shapes, models, device = shapes, stacked or 1, self.live[0].device
        self.best_score = torch.full((models,), -math.inf, dtype=torch.float64, device=device)
        self.best_epoch = torch.zeros(models, dtype=torch.long, device=device)
        self.sound = torch.ones(models, dtype=torch.bool, device=device)
        self.epoch = torch.zeros(1, dtype=torch.long, device=device)
        # NaN in the last column: the epoch was not evaluated. Else: whether the model was sound.
        rows = max(epochs, WARM_UPS)
        self.history = torch.full((rows, models, 6), math.nan, dtype=torch.float64, device=device)
        self._unknown = torch.full_like(self.best_score, math.nan)
        self.validates = False

    def restart(self) -> None:
        """Forget all epochs, in place; the model holds its initial weights again."""
        for kept, live in zip(self.best, self.live, strict=True):
            kept.copy_(live)
        self.best_score.fill_(-math.inf)
        self.best_epoch.zero_()
        self.sound.fill_(True)
        self.epoch.zero_()
        self.history.fill_(math.nan)

    def record(
        self, train: Scores, validation: Scores | None = None, test: Tensor | None = None
    ) -> None:
        """Record the metrics of one more epoch, and keep its weights where they are the best."""
        finite = train[0].isfinite()
        self.validates = validation is not None
        if validation is None:
            validation = (self._unknown, self._unknown)
        else:
            finite = finite & validation[0].isfinite()
        better = self.sound & finite & (validation[1] > self.best_score)
        better = better & (self.epoch - self.best_epoch < self.patience)
        # On a GPU, the test whether any is better would wait; there everything is computed.
        look = better.is_cuda or bool(better.any())
        if look:
            weights_are_finite = self._weights_are_finite()
            finite = finite & (weights_are_finite | ~better)
            better = better & weights_are_finite
        self.sound &= finite
        columns = (*train, *validation, self._unknown if test is None else test, self.sound)
        row = torch.stack([values.double() for values in columns], dim=1)
        self.history.index_copy_(0, self.epoch, row.unsqueeze(0))
        self.epoch += 1
        if look:
            self._keep(better, validation[1])

    def skip(self) -> None:
        """Count an epoch that is not evaluated."""
        self.epoch += 1

    def goes_on(self) -> bool:
        """Whether a model that has not diverged may still improve."""
        return bool((self.sound & (self.epoch - self.best_epoch < self.patience)).any())

    def keep_last(self) -> None:
        """Select the last epoch: the rule where no validation nodes select one."""
        self.sound &= self._weights_are_finite()
        self.history[self.epoch - 1, :, 5] = self.sound.double()
        self._keep(self.sound, self._unknown)

    def _weights_are_finite(self) -> Tensor:
        each = [value.isfinite().all(dim=tuple(range(1, value.dim()))) for value in self.live]
        return torch.stack(each).all(dim=0)

    def _keep(self, better: Tensor, scores: Tensor) -> None:
        for kept, value in zip(self.best, self.live, strict=True):
            kept.copy_(torch.where(better.view(-1, *(1,) * (value.dim() - 1)), value, kept))
        self.best_score.copy_(torch.where(better, scores, self.best_score))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))

    def state(self) -> State:
        """Return the tensors that a checkpoint keeps; they are written to in place."""
        names = ("best_score", "best_epoch", "sound", "epoch", "history")
        best = {f"best.{name}": value for name, value in zip(self.names, self.best, strict=True)}
        return {name: getattr(self, name) for name in names} | best

    def restore(self) -> None:
        """Put the selected weights into the model."""
        for live, best in zip(self.live, self.best, strict=True):
            live.copy_(best)

    def best_states(self) -> list[State]:
        """Return the selected weights of each single model, on the CPU."""
        best = {name: value.cpu() for name, value in zip(self.names, self.best, strict=True)}
        return [unstack_state(best, model, self.shapes) for model in range(self.sound.numel())]

    def metrics(self, position: int, first: int = 0) -> list[EpochMetrics]:
        """Return the metrics of one model's evaluated epochs after ``first``, while it is sound."""
        metrics = []
        rows = self.history[first : int(self.epoch), position].tolist()
        for epoch, (*values, test, sound) in enumerate(rows, start=first + 1):
            if sound == 1.0:
                loss, train, validation_loss, score = values
                curve = None if math.isnan(test) else test
                metrics.append(EpochMetrics(epoch, loss, train, validation_loss, score, curve))
        return metrics

    def result(
        self, position: int, state: State, test: dict[str, float] | None
    ) -> TrainedModel | Diverged:
        """Return the outcome for one model, given its selected weights."""
        history, best_epoch = self.metrics(position), int(self.best_epoch[position])
        rows = self.history[: int(self.epoch), position].tolist()
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
