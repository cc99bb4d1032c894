"""Train on batches of nodes with sampled neighbours, and judge on whole neighbourhoods.

Training sees a draw of each neighbourhood; validation and test nodes never do: their scores
are those of the model on the whole graph (:mod:`~crossgcn.training.batches.scoring`). The
selected epoch is full-batch training's: the first of strictly best validation accuracy
(NOTE[D6]). Several processes share every batch and give what one gives, up to rounding and
to which entries are dropped.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.prepared import choose_device
from crossgcn.graph.sampling.source import GraphSource, StoredSource
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier, calibrate
from crossgcn.training.batches.progress import Checkpoints, TrainingProgress
from crossgcn.training.batches.scoring import ExactScorer
from crossgcn.training.batches.step import MiniBatchStep, batches_of
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision, enough_memory
from crossgcn.training.distributed import processes
from crossgcn.training.full_batch import Diverged, EpochMetrics, TrainedModel
from crossgcn.training.steps.unused_columns import find_unused_columns_of

FANOUT = 50
"""Neighbours drawn for each node in each hop, unless told otherwise."""


def refuse_batches(model: NodeClassifier) -> None:
    """Refuse models whose objective is over all nodes at once.

    Raises:
        BadInput: With the reason.
    """
    if model.penalty_reason is not None:
        raise BadInput(
            f"{type(model).__name__} {model.penalty_reason} in each step, so it cannot be trained "
            "in batches: leave out --batch-size, or choose another --model"
        )


def hop_fanouts(
    fanout: int | Sequence[int] | None, propagations: Sequence[Any]
) -> tuple[int, ...] | None:
    """Neighbours to draw in each hop, nearest first; ``None`` where nothing is sampled.

    Args:
        fanout: For all hops or one per hop, -1 for all neighbours; 50 in each hop when left out.
            A model of one hop takes all neighbours, whatever is said here.
        propagations: The model's.

    Raises:
        BadInput: If there are more or fewer numbers than hops.
    """
    hops = len(propagations)
    fanout = FANOUT if fanout is None else fanout
    each = (fanout,) * hops if isinstance(fanout, int) else tuple(fanout)
    if len(each) != hops:
        raise BadInput(
            f"fanout {','.join(map(str, each))} is for {len(each)} hops, but the model has {hops}: "
            "give one number for all hops or one per hop"
        )
    return None if hops <= 1 or all(number == -1 for number in each) else each


def train_mini_batch(
    model: NodeClassifier,
    source: GraphSource,
    split: Split,
    *,
    batch_size: int,
    fanout: int | Sequence[int] | None = None,
    seed: int = 0,
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    evaluate_every: int = 1,
    test_curve: bool = False,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    precision: str = "fp32",
    checkpoints: Checkpoints | None = None,
    scratch: Path | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Minimise full-batch training's objective in steps of a few nodes each.

    Args:
        model: Trained in place; holds the selected weights afterwards.
        source: The graph, in memory or on disk, with its labels.
        split: Which nodes train, select and test.
        batch_size: Training nodes of a step, over all processes together.
        fanout: As :func:`hop_fanouts` takes it.
        seed: Decides the batches, what is sampled and what is dropped.
        epochs: Passes over the training nodes.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        evaluate_every: Epochs from one look at the validation nodes to the next; the last
            epoch is always looked at.
        test_curve: Also look at the test nodes each time, for a figure; it decides nothing.
        read_test: Look at the test nodes at the end.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        checkpoints: Where to write resume points; one that is there is continued from.
        scratch: Keep what has a row per node (hidden values, sums of features) in temporary files
            in this folder instead of in memory.
        on_epochs: Called with the number of epochs done since; may raise to stop.

    Raises:
        Diverged: At the first loss, or selected weights, that are not finite.
        BadInput: If the model cannot be trained in batches.
    """
    refuse_batches(model)
    settings: dict[str, Any] = {
        "batch_size": batch_size,
        "fanout": fanout,
        "seed": seed,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "evaluate_every": evaluate_every,
        "test_curve": test_curve,
        "read_test": read_test,
        "device": choose_device(device),
        "precision": precision,
        "checkpoints": checkpoints,
        "scratch": scratch,
        "report": on_epochs or (lambda count: None),
    }
    unused = find_unused_columns_of(model, source)
    if unused is None:
        return _train(model, source, split, **settings)
    (narrow,) = unused.narrow_models([model])

    def widen(state: dict[str, Tensor], epoch: int) -> dict[str, Tensor]:
        steps = epoch * -(-split.train.numel() // batch_size)
        (wide,) = unused.widen([state], [steps], learning_rate, weight_decay)
        return wide

    try:
        result = _train(narrow, unused.narrow_source(source), split, **settings)
    except Diverged as error:
        error.state = widen(error.state, error.kept_epoch)
        raise
    state = widen(result.state, result.best_epoch)
    model.load_state_dict(state)
    return replace(result, state=state)


def _train(
    model: NodeClassifier,
    source: GraphSource,
    split: Split,
    *,
    batch_size: int,
    fanout: int | Sequence[int] | None,
    seed: int,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    evaluate_every: int,
    test_curve: bool,
    read_test: bool,
    device: torch.device,
    precision: str,
    checkpoints: Checkpoints | None,
    scratch: Path | None,
    report: Callable[[int], None],
) -> TrainedModel:
    place = device
    check_precision(precision, place)
    group = processes()
    make_batches = partial(
        batches_of,
        model,
        source,
        split.train,
        fanouts=hop_fanouts(fanout, model.propagations),
        folder=scratch,
        num_workers=0 if place.type == "cpu" else 1,
        batch_size=batch_size,
        seed=seed,
    )
    batches = make_batches(rank=group.rank, world_size=group.world_size)
    if not model.is_calibrated:
        # By the same nodes however many processes there are.
        whole = batches if group.world_size == 1 else make_batches()
        first = next(iter(whole.epoch(0)))
        calibrate(model, first.x, first.blocks)
    training = TrainingProgress(model.to(place), group, epochs, checkpoints)
    step = MiniBatchStep(
        model,
        seed=seed,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        device=place,
        precision=precision,
        processes=group,
    )

    def scorer(nodes: Tensor) -> ExactScorer:
        return ExactScorer(model, source, nodes, place, precision, group, scratch)

    validation = scorer(split.validation)
    curve = scorer(split.test) if test_curve else None
    training.resume(step)
    report(training.epoch)
    while training.epoch < epochs:
        number = training.epoch + 1
        step.clear()
        for batch in batches.epoch(number):
            step(batch)
        loss, right = (group.add_up(step.totals) / split.train.numel()).tolist()
        if number % evaluate_every == 0 or number == epochs or not math.isfinite(loss):
            test_accuracy = curve()[1] if curve is not None else None
            training.look(EpochMetrics(number, loss, right, *validation(), test_accuracy))
        training.finish_epoch(step)
        report(1)
    model.load_state_dict(training.best)
    test = (curve or scorer(split.test))()[1] if read_test else None
    best = training.best_metrics
    assert best is not None
    return TrainedModel(
        {name: value.detach().cpu().clone() for name, value in training.best.items()},
        best.epoch,
        best.validation_accuracy,
        test,
        tuple(training.history),
    )


def check_batches(config: RunConfig) -> None:
    """Refuse, before anything is loaded or trained, what cannot be trained in batches.

    Raises:
        BadInput: With the reason.
    """
    if config.batch_size is None:
        return
    model = build_model(config.model, 1, 2, **config.model_settings())
    refuse_batches(model)
    hop_fanouts(config.fanout, model.propagations)


def train_by_config(
    config: RunConfig,
    model: NodeClassifier,
    source: GraphSource,
    split: Split,
    *,
    seed: int,
    read_test: bool,
    device: torch.device,
    checkpoints: Checkpoints | None,
    on_epochs: Callable[[int], None] | None,
) -> TrainedModel | Diverged:
    """Train one run of a configuration that has a batch size.

    Args:
        config: How to train.
        model: Trained in place.
        source: The graph, with its labels.
        split: Which nodes train, select and test.
        seed: Of the run.
        read_test: Look at the test nodes at the end.
        device: Where to train.
        checkpoints: Where resume points go. Beside them, what has a row per node is kept in
            temporary files if the graph is on disk.
        on_epochs: Called with the number of epochs done since.

    Raises:
        WorkFailed: If a batch does not fit into memory, with what to lower.
    """
    assert config.batch_size is not None
    fanouts = hop_fanouts(config.fanout, model.propagations)
    drawn = "all neighbours" if fanouts is None else f"{','.join(map(str, fanouts))} neighbours"
    what = (
        f"a batch of {config.batch_size:,} nodes with {drawn} per hop, {source.num_features:,} "
        f"features and {config.hidden_channels:,} hidden channels"
    )
    scratch = None
    if checkpoints is not None and isinstance(source, StoredSource):
        scratch = _scratch_folder(checkpoints.path.parent)
    try:
        with enough_memory(what, device, "lower --batch-size or --fanout, or use more processes"):
            return train_mini_batch(
                model,
                source,
                split,
                batch_size=config.batch_size,
                fanout=config.fanout,
                seed=seed,
                epochs=config.epochs,
                learning_rate=config.learning_rate,
                weight_decay=config.weight_decay,
                evaluate_every=config.evaluate_every,
                test_curve=config.test_curve,
                read_test=read_test,
                device=device,
                precision=config.precision,
                checkpoints=checkpoints,
                scratch=scratch,
                on_epochs=on_epochs,
            )
    except Diverged as error:
        return error


def _scratch_folder(wanted: Path) -> Path:
    """For temporary files; on a machine that cannot have the run's folder, the system's."""
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir())
    return wanted
