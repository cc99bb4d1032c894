"""Train on batches of nodes with sampled neighbours, and evaluate on whole neighbourhoods.

Training sees a sample of each neighbourhood. Validation and test nodes are scored with all
their neighbours (:class:`~crossgcn.training.scoring.ExactScorer`). Several processes share every
batch and give the result of one, up to rounding and to which entries are dropped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
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
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.step import BAG_SHARE, MiniBatchStep, batches_of
from crossgcn.training.checkpoints import Checkpoint
from crossgcn.training.config import RunConfig, training_config
from crossgcn.training.device import check_precision, enough_memory
from crossgcn.training.distributed import processes
from crossgcn.training.objective import class_weights, scale_node_weights
from crossgcn.training.scoring import ExactScorer, check_scoring, fit_and_test
from crossgcn.training.selection import Diverged, TrainedModel

FANOUT = 50
"""Neighbours sampled for each node in each hop by default."""


def train_mini_batch(
    model: NodeClassifier,
    source: GraphSource,
    split: Split,
    *,
    seed: int = 0,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    checkpoints: Checkpoint | None = None,
    scratch: Path | None = None,
    on_epochs: Callable[[int], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    """Minimise the objective of full-batch training on batches of nodes.

    Args:
        model: Trained in place; holds the selected weights afterwards.
        source: The graph, in memory or on disk, with its labels.
        seed: Decides the batches, the sampled neighbours and the dropped entries.
        read_test: Score the test nodes at the end.
        checkpoints: Where checkpoints are written; training continues from one that exists.
        scratch: Keep matrices with a row per node (hidden values, sums of features) in temporary
            files in this folder instead of in memory.
        on_epochs: As for :func:`~crossgcn.training.loop.fit`.
        **settings: ``batch_size``; and ``fanout``, ``epochs``, ``learning_rate``,
            ``weight_decay``, ``evaluate_every``, ``test_curve`` and ``precision``, see
            :class:`~crossgcn.RunConfig`.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
        BadInput: If the model cannot be trained in batches.
    """
    config = training_config(**settings)
    if config.batch_size is None:
        raise BadInput("train_mini_batch needs batch_size, the training nodes of a step")
    result = train_in_batches(
        *(model, source, split, config),
        seed=seed,
        read_test=read_test,
        device=device,
        checkpoint=checkpoints,
        scratch=scratch,
        on_epochs=on_epochs,
    )
    if isinstance(result, Diverged):
        raise result
    return result


def train_in_batches(
    model: NodeClassifier,
    source: GraphSource,
    split: Split,
    config: RunConfig,
    *,
    seed: int,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    checkpoint: Checkpoint | None = None,
    scratch: Path | None = None,
    on_epochs: Callable[[int], None] | None = None,
    node_weights: Tensor | None = None,
) -> TrainedModel | Diverged:
    """Train as :func:`train_mini_batch` does, by a configuration that has a batch size.

    Without validation nodes, the last epoch is kept. Where there is a checkpoint and the graph is
    on disk, matrices with a row per node are kept in temporary files beside the checkpoint.
    ``node_weights`` are those of the training nodes in the loss.
    """
    check_scoring(config, model.num_outputs, source.labels[split.validation])
    device = choose_device(device)
    check_precision(config.precision, device)
    fanouts = hop_fanouts(config.fanout, model.propagations)
    if scratch is None and checkpoint is not None and isinstance(source, StoredSource):
        scratch = _scratch_folder(checkpoint.path.parent)
    sampled = "all neighbours" if fanouts is None else f"{','.join(map(str, fanouts))} neighbours"
    width = max(int(layer.out_channels) for layer in model.layers)  # type: ignore[arg-type]
    sizes = (
        f"a batch of {config.batch_size:,} nodes with {sampled} per hop, {source.num_features:,} "
        f"features and layers of up to {width:,} channels"
    )
    with enough_memory(sizes, device, "lower --batch-size or --fanout, or use more processes"):
        trained = model
        group = processes()
        make_batches = partial(
            batches_of,
            trained,
            source,
            split.train,
            fanouts=fanouts,
            folder=scratch,
            num_workers=0 if device.type == source.device.type else 1,
            batch_size=config.batch_size,
            seed=seed,
        )
        batches = make_batches(rank=group.rank, world_size=group.world_size)
        own = source.labels[split.train]
        weights = class_weights(config.class_weight, own, model.num_outputs)
        of_nodes = scale_node_weights(node_weights, split.train.numel())
        if of_nodes is not None:
            of_nodes = torch.zeros(source.labels.numel()).index_copy(0, split.train, of_nodes)
        step = MiniBatchStep(
            trained.to(device),
            batches,
            config,
            seed=seed,
            processes=group,
            in_bag=_draw_bags(model, split.train, source.labels, seed),
            class_weights=None if weights is None else weights.to(device),
            node_weights=of_nodes,
        )

        def scorer(nodes: Tensor) -> ExactScorer:
            return ExactScorer(trained, source, nodes, config, device, group, scratch)

        return fit_and_test(
            step,
            scorer,
            split.validation if split.validation.numel() else None,
            split.test,
            read_test=read_test,
            checkpoint=checkpoint,
            on_epochs=on_epochs,
        )


def _draw_bags(model: NodeClassifier, nodes: Tensor, labels: Tensor, seed: int) -> Tensor | None:
    """Return which nodes train which bag, ``[bags, nodes]``; ``None`` for a model without bags."""
    bags = getattr(model, "bags", 1)
    if bags == 1:
        return None
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.zeros(bags, labels.numel(), dtype=torch.bool)
    drawn[:, nodes] = torch.rand(bags, nodes.numel(), generator=generator) < BAG_SHARE
    if not labels.is_floating_point():
        counts = torch.bincount(labels[nodes])
        for bag in drawn:
            of_bag = torch.bincount(labels[bag], minlength=counts.numel())
            missing = ((counts > 0) & (of_bag == 0)).nonzero()
            if missing.numel():
                raise BadInput(
                    f"a bag of {BAG_SHARE:.0%} of the training nodes has none of class "
                    f"{int(missing[0])}: give --bags 1, or join rare classes"
                )
    return drawn


def _scratch_folder(wanted: Path) -> Path:
    """Return a folder for temporary files: the system's where the wanted one cannot be made."""
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir())
    return wanted


def hop_fanouts(
    fanout: int | Sequence[int] | None, propagations: Sequence[Any]
) -> tuple[int, ...] | None:
    """Return the neighbours to sample in each hop, nearest first; ``None`` for all of them.

    ``fanout`` is one number for all hops or one per hop, -1 for all neighbours, and 50 when left
    out. A model of one hop always takes all neighbours.
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


def check_batches(config: RunConfig) -> None:
    """Refuse, before anything is loaded, a configuration that cannot be trained in batches."""
    if config.batch_size is None:
        return
    model = build_model(config.model, 1, 2, **config.model_settings())
    hop_fanouts(config.fanout, model.propagations)
