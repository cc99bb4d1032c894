"""Train on the whole graph: one model, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig, training_config
from crossgcn.training.loop import fit
from crossgcn.training.metrics import check_defined, check_threshold, selecting_metric
from crossgcn.training.selection import Diverged, EpochMetrics, TrainedModel
from crossgcn.training.steps.full_batch import FullBatchStep


def train_full_batch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    *,
    seed: int | None = None,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[EpochMetrics], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    """Minimise the objective over the whole graph and keep the best validation epoch.

    Each pass computes only the rows that it needs (see
    :func:`~crossgcn.graph.receptive_field`). The selected epoch is the first with the strictly
    best validation accuracy (NOTE[D6]). Test nodes enter no loss, and without ``test_curve`` no
    computation, before the epoch is selected. (A model with a loss over all nodes predicts them
    too; no test label is read.)

    Args:
        model: Trained in place; holds the selected weights afterwards.
        y: Class of each node, ``-1`` where unknown.
        split: The nodes that train, select and test.
        seed: Decides the dropped entries; drawn by torch's generator when left out.
        device: ``cpu``, ``cuda``, or ``auto``.
        on_epoch: Called with the metrics of each epoch; an exception raised in it stops the
            training.
        **settings: ``epochs``, ``learning_rate``, ``weight_decay``, ``test_curve`` and
            ``precision``, see :class:`~crossgcn.RunConfig`.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    config = training_config(**settings)
    seed = int(torch.randint(2**32, (1,))) if seed is None else seed
    (result,) = train_model_batch(
        [model], graph, y, [split], config, [seed], device=device, on_metrics=on_epoch
    )
    if isinstance(result, Diverged):
        raise result
    model.load_state_dict(result.state)
    return result


def train_model_batch(
    models: Sequence[NodeClassifier],
    graph: PreparedGraph,
    y: Tensor,
    splits: Sequence[Split],
    config: RunConfig,
    seeds: Sequence[int],
    *,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> list[TrainedModel | Diverged]:
    """Train several models of one architecture, each on its own split, in the same steps.

    Each model is trained as :func:`train_full_batch` would train it alone with the same seed.
    Models that diverge do not stop the others.

    Args:
        models: Their weights are the start; they are not changed.
        y: Class of each node, ``-1`` where unknown.
        seeds: One per model; decides the dropped entries.
        read_test: Score the test nodes at the end.
        device: ``cpu``, ``cuda``, or ``auto``.
        on_epochs: As for :func:`~crossgcn.training.loop.fit`; likewise ``on_metrics``.
    """
    train, validation, test = (
        [getattr(split, role) for split in splits] for role in ("train", "validation", "test")
    )
    num_classes = models[0].num_outputs
    metric = selecting_metric(config.metric, num_classes)
    check_threshold(config.threshold, num_classes)
    for nodes in validation:
        check_defined(metric, y[nodes].numpy(), num_classes)
    step = FullBatchStep(models, graph, y, train, config, seeds=seeds, device=device)
    curve, selector = step.scorer(test) if config.test_curve else None, step.scorer(validation)

    def read() -> list[dict[str, float]]:
        thresholds = None if config.threshold is None else selector.choose_thresholds()
        return (curve or step.scorer(test)).evaluate(thresholds)

    return fit(
        step,
        validation=selector,
        curve=curve,
        test=read if read_test else None,
        on_epochs=on_epochs,
        on_metrics=on_metrics,
    )
