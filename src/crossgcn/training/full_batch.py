"""Train on the whole graph: one model, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import fit, results
from crossgcn.training.selection import Diverged, EpochMetrics, Selection, TrainedModel
from crossgcn.training.steps.full_batch import FullBatchStep


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
        epochs: Steps of the optimiser.
        learning_rate: Of Adam.
        weight_decay: λ of the objective.
        test_curve: Also score the test nodes after every epoch, for a figure; neither the
            weights nor the selection depend on it.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        on_epoch: Called with the metrics of each epoch; an exception raised in it stops the
            training.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    config = RunConfig.create(
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        test_curve=test_curve,
        precision=precision,
    )
    seed = int(torch.randint(2**32, (1,))) if seed is None else seed
    step = FullBatchStep([model], graph, y, [split.train], config, seeds=[seed], device=device)
    selection, done = Selection(step.model, step.shapes, epochs), 0

    def report(count: int) -> None:
        nonlocal done
        if on_epoch is not None:
            for metrics in selection.metrics(0, first=done):
                on_epoch(metrics)
        done += count

    (result,) = _train(step, selection, [split], on_epochs=report)
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
        on_epochs: As for :func:`~crossgcn.training.loop.fit`.
    """
    nodes = [split.train for split in splits]
    step = FullBatchStep(models, graph, y, nodes, config, seeds=seeds, device=device)
    selection = Selection(step.model, step.shapes, config.epochs)
    return _train(step, selection, splits, read_test=read_test, on_epochs=on_epochs)


def _train(
    step: FullBatchStep,
    selection: Selection,
    splits: Sequence[Split],
    *,
    read_test: bool = True,
    on_epochs: Callable[[int], None] | None,
) -> list[TrainedModel | Diverged]:
    test_nodes = [split.test for split in splits]
    curve = step.scorer(test_nodes) if step.config.test_curve else None
    fit(
        step,
        selection,
        validation=step.scorer([split.validation for split in splits]),
        curve=curve,
        on_epochs=on_epochs,
    )
    test = (lambda: curve or step.scorer(test_nodes)) if read_test else None
    return results(step, selection, test)
