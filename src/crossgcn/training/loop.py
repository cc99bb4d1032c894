"""The training loop: every model of this package is trained by :func:`fit`.

A :class:`Step` does the work of one epoch, scorers evaluate the weights, a
:class:`~crossgcn.training.selection.Selection` keeps the best ones, and a
:class:`~crossgcn.training.checkpoints.Checkpoint` lets a training that was stopped go on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from crossgcn.layers import FeatureDropout
from crossgcn.training.checkpoints import Checkpoint
from crossgcn.training.config import RunConfig
from crossgcn.training.device import capture
from crossgcn.training.optimizer import Optimizer
from crossgcn.training.selection import (
    Diverged,
    EpochMetrics,
    Scores,
    Selection,
    State,
    TrainedModel,
)

Scorer = Callable[[], Scores]
"""Returns the loss, and a score that should grow, of the weights as they are now."""

_EPOCHS_PER_WAIT = 25
"""Epochs of a CUDA graph that are queued before the loop waits for them."""


class Step:
    """A model in training; :meth:`run` does the work of one epoch.

    The dropped entries depend on the seed and the number of the step alone.

    Args:
        model: Trained in place, on its device.

    Attributes:
        loss: Of the last epoch, on the training nodes and with dropout; likewise ``accuracy``.
        count: Steps of the optimiser so far, a tensor on the device.
        capturable: Whether an epoch can be recorded as a CUDA graph.
    """

    loss: Tensor
    accuracy: Tensor
    capturable: bool = False

    def __init__(self, model: nn.Module, config: RunConfig, seed: int) -> None:
        self.model, self.config = model, config
        self.device = next(model.parameters()).device
        self.count = torch.zeros((), dtype=torch.long, device=self.device)
        self.optimizer = Optimizer(model, config.learning_rate, config.weight_decay)
        self._dropouts = [each for each in model.modules() if isinstance(each, FeatureDropout)]
        seed_here = torch.tensor(seed, device=self.device)
        for dropout in self._dropouts:
            dropout.follow(seed_here, self.count)

    def run(self) -> None:
        """Train for one epoch."""
        raise NotImplementedError

    def restart(self) -> None:
        """Return to the initial weights and the first step, in place; for capturable steps."""
        raise NotImplementedError

    def release(self) -> None:
        """Free all memory but the model's, and let its dropout draw anew: no epoch follows."""
        for dropout in self._dropouts:
            dropout.follow(None, None)

    def state(self) -> State:
        """Return the tensors that a checkpoint keeps; they are written to in place."""
        tensors = {f"weights.{name}": value for name, value in self.model.state_dict().items()}
        tensors["count"] = self.count
        names = {id(weight): name for name, weight in self.model.named_parameters()}
        for weight, _, *own, _ in self.optimizer.states():
            for what, value in zip(("mean", "square", "step"), own, strict=True):
                tensors[f"adam.{names[id(weight)]}.{what}"] = value
        return tensors


def fit(
    step: Step,
    *,
    validation: Scorer | None,
    curve: Scorer | None = None,
    test: Callable[[], dict[str, float]] | None = None,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel | Diverged:
    """Train for all epochs of the configuration, select one, and return the outcome.

    The loop ends early when the model has diverged, or has not improved for ``config.patience``
    epochs. An epoch of a step that is ``capturable`` is recorded as a CUDA graph and replayed.

    Args:
        step: Does the work of an epoch; its weights are the start. Afterwards its model holds the
            selected weights, and nothing else of it can be used.
        validation: Scores the validation nodes; without it, the last epoch is selected.
        curve: Scores the test nodes in each epoch, for a figure.
        test: Returns every metric of the test nodes; called only when the epoch is selected.
            ``None`` does not read them.
        checkpoint: Where training is resumed from, if the file exists, and saved to.
        on_epochs: Called regularly with the number of epochs done since the last call; an
            exception raised in it stops the training.
        on_metrics: Called with the metrics of each epoch.
    """
    epochs = step.config.epochs
    selection = Selection(step.model, epochs, None if validation is None else step.config.patience)
    report = on_epochs or (lambda count: None)

    def run_and_record() -> None:
        step.run()
        selection.record(
            (step.loss, step.accuracy),
            None if validation is None else validation(),
            None if curve is None else curve()[1],
        )

    def restart() -> None:
        step.restart()
        selection.restart()

    run_epoch, wait = run_and_record, 1
    if step.capturable:
        run_epoch, wait = capture(run_and_record, restart, step.device), _EPOCHS_PER_WAIT
    reported = 0
    if checkpoint is not None:
        checkpoint.load(step.state(), selection.state())
        reported = int(selection.epoch)
        if reported:
            report(reported)
    for epoch in range(reported + 1, epochs + 1):
        # Asked before each epoch, so that a training resumed where it should end does end.
        if reported == epoch - 1 and not selection.goes_on():
            break
        run_epoch()
        if epoch % wait and epoch != epochs:
            continue
        if step.capturable:
            torch.cuda.synchronize(step.device)
        if checkpoint is not None and epoch != epochs and bool(selection.sound):
            checkpoint.save(epoch, step.state(), selection.state())
        if on_metrics is not None:
            for metrics in selection.metrics(first=reported):
                on_metrics(metrics)
        report(epoch - reported)
        reported = epoch
    if reported < epochs and bool(selection.sound):
        report(epochs - reported)  # stopped early: there is nothing left to do
    del run_epoch  # a CUDA graph keeps memory
    if validation is None:
        selection.keep_last()
    selection.restore()
    step.release()
    tested = test() if test is not None and bool(selection.sound) else None
    return selection.result(tested)
