"""The training loop: every model of this package is trained by :func:`fit`.

A :class:`~crossgcn.training.steps.step.Step` does the work of one epoch, scorers evaluate the
weights, a :class:`~crossgcn.training.selection.Selection` keeps the best ones, and a
:class:`~crossgcn.training.checkpoints.Checkpoint` lets a training that was stopped go on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from crossgcn.training.checkpoints import Checkpoint
from crossgcn.training.device import capture
from crossgcn.training.run_log import epoch_hooks
from crossgcn.training.selection import Diverged, EpochMetrics, Scores, Selection, TrainedModel
from crossgcn.training.steps.step import Step

Scorer = Callable[[], Scores]
"""Returns losses and scores that should grow of the weights as they are now, ``[models]`` each."""

_EPOCHS_PER_WAIT = 25
"""Epochs of a CUDA graph that are queued before the loop waits for them."""


def fit(
    step: Step,
    *,
    validation: Scorer | None,
    curve: Scorer | None = None,
    test: Callable[[], list[dict[str, float]]] | None = None,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> list[TrainedModel | Diverged]:
    """Train for all epochs of the configuration, select one, and return the outcome of each model.

    The loop ends early when every model has diverged, or when no model has improved for
    ``config.patience`` epochs. An epoch of a step that is ``capturable`` is recorded as a CUDA
    graph and replayed.

    Args:
        step: Does the work of an epoch; its weights are the start. Afterwards its model holds the
            selected weights, and nothing else of it can be used.
        validation: Scores the validation nodes; without it, the last epoch is selected.
        curve: Scores the test nodes in each epoch, for a figure.
        test: Returns every metric of the test nodes, for each model; called only when the epoch
            is selected. ``None`` does not read them.
        checkpoint: Where training is resumed from, if the file exists, and saved to.
        on_epochs: Called regularly with the number of epochs done since the last call; an
            exception raised in it stops the training.
        on_metrics: Called with the metrics of the first model in each evaluated epoch.
    """
    patience = None if validation is None else step.config.patience
    selection = Selection(step.model, step.shapes, step.config.epochs, patience)
    _run_epochs(step, selection, validation, curve, checkpoint, on_epochs, on_metrics)
    if validation is None:
        selection.keep_last()
    selection.restore()
    step.release()
    tested: list[dict[str, float]] | None = None
    if test is not None and selection.sound.any():
        tested = test()
    states = step.widen(selection.best_states(), selection.best_epoch.tolist())
    return [
        selection.result(position, state, None if tested is None else tested[position])
        for position, state in enumerate(states)
    ]


def _run_epochs(
    step: Step,
    selection: Selection,
    validation: Scorer | None,
    curve: Scorer | None,
    checkpoint: Checkpoint | None,
    on_epochs: Callable[[int], None] | None,
    on_metrics: Callable[[EpochMetrics], None] | None,
) -> None:
    epochs, every = step.config.epochs, step.config.evaluate_every
    hooks = list(enumerate(epoch_hooks(len(selection.best_epoch))))
    if on_metrics is not None:
        hooks.append((0, on_metrics))

    def run_and_record() -> None:
        step.run()
        record()

    def record() -> None:
        selection.record(
            (step.losses, step.accuracies),
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
        if reported and on_epochs is not None:
            on_epochs(reported)
    for epoch in range(reported + 1, epochs + 1):
        # Asked before each epoch, so that a training resumed where it should end does end.
        if reported == epoch - 1 and not selection.goes_on():
            break
        if every == 1:
            run_epoch()
        else:
            step.run()
            if epoch % every == 0 or epoch == epochs or not step.losses.isfinite().all():
                record()
            else:
                selection.skip()
        if epoch % wait and epoch != epochs:
            continue
        if step.capturable:
            torch.cuda.synchronize(step.device)
        if checkpoint is not None and epoch != epochs and bool(selection.sound.any()):
            checkpoint.save(epoch, step.state(), selection.state())
        for position, hook in hooks:
            for metrics in selection.metrics(position, first=reported):
                hook(metrics)
        if on_epochs is not None:
            on_epochs(epoch - reported)
        reported = epoch
    if on_epochs is not None and reported < epochs and selection.sound.any():
        on_epochs(epochs - reported)  # stopped early: there is nothing left to do
