"""Training in batches as a configuration says it, with what can go wrong said in its words."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from crossgcn.data.splits import Split
from crossgcn.graph.graph_source import GraphSource, StoredSource
from crossgcn.models.registry import build_model
from crossgcn.models.stack import Stack
from crossgcn.training.config import RunConfig
from crossgcn.training.device_memory import enough_memory
from crossgcn.training.full_batch import Diverged, TrainedModel
from crossgcn.training.mini_batch import (
    hop_fanouts,
    refuse_batches,
    train_mini_batch,
)
from crossgcn.training.mini_batch_progress import Checkpoints

__all__ = ["check_batches", "train_by_config"]


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
    model: Stack,
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
