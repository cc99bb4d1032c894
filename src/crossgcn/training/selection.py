"""The metrics of every epoch, and the weights of the best one, of several models at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn.models.stack import Stack
from crossgcn.training.cuda_graph import WARM_UPS
from crossgcn.training.stacking import unstack_state

__all__ = ["EpochMetrics", "Selection"]

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
        self, model: Stack, shapes: Mapping[str, torch.Size], epochs: int, device: torch.device
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
