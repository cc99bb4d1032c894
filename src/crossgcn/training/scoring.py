"""Score nodes with the weights as they are: to select epochs, and once on the test nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.source import Features, GraphSource
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.layerwise import infer
from crossgcn.training.batches.step import batch_inputs, score_part
from crossgcn.training.checkpoints import Checkpoint
from crossgcn.training.compiled import can_be_compiled
from crossgcn.training.config import RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.distributed import Processes
from crossgcn.training.loop import Step, fit
from crossgcn.training.metrics import (
    METRICS,
    check_defined,
    check_threshold,
    choose_threshold,
    compute,
    evaluate,
    positive_class,
    selecting_metric,
)
from crossgcn.training.objective import Loss, Targets
from crossgcn.training.selection import Diverged, EpochMetrics, TrainedModel

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledNetwork

_NODES_AT_ONCE = 1024
_ROWS_AT_ONCE = 4096
"""Nodes at once of a model that reads no neighbours."""
_KEPT_BYTES = 256 << 20
"""Receptive fields up to this size are kept from one evaluation to the next, per process."""

Predicted = tuple[NDArray[Any], NDArray[Any]]
"""Labels and scores of the nodes."""


class Scorer(ABC):
    """Scores nodes with the weights as they are at each call.

    Args:
        y: Class or number of every node of the graph.
    """

    def __init__(self, model: NodeClassifier, config: RunConfig, y: Tensor) -> None:
        self.model, self.precision = model, config.precision
        self.metric = config.metric if model.target_scale is None else config.metric or "r2"
        self.positive = positive_class(y.numpy(force=True)) if model.num_outputs == 2 else None

    @abstractmethod
    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted | None]:
        """Return loss and accuracy, and the predictions, if kept."""

    @abstractmethod
    def _predict(self) -> Predicted:
        """Return what is predicted."""

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the loss, and the metric, negated if it should shrink."""
        if self.metric is None or self.metric == "accuracy":
            return self._score(keep=False)[:2]
        loss, accuracy, predicted = self._score(keep=True)
        assert predicted is not None
        sign = 1 if METRICS[self.metric].grows else -1
        value = sign * compute(self.metric, *predicted, self.positive)
        return loss, torch.tensor(value, dtype=torch.float64, device=accuracy.device)

    @torch.no_grad()
    def evaluate(self, threshold: float | None = None) -> dict[str, float]:
        """Return every metric of the task; the accuracy alone by default."""
        if threshold is not None:
            found = evaluate(*self._predict(), self.positive, threshold)
            return found | {"threshold": threshold}
        if self.metric is None:
            return {"accuracy": float(self()[1])}
        return evaluate(*self._predict(), self.positive)

    @torch.no_grad()
    def choose_threshold(self) -> float:
        """Return the best decision threshold on these nodes."""
        assert self.positive is not None
        return choose_threshold(*self._predict(), self.positive, self.metric)


def fit_and_test(
    step: Step,
    scorer: Callable[[Tensor], Scorer],
    validation: Tensor | None,
    test: Tensor,
    *,
    read_test: bool = True,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel | Diverged:
    """Train for all epochs, select one on validation nodes, and only then score the test nodes.

    Args:
        scorer: Makes a scorer of some nodes.
        validation: Without it, the last epoch is selected.
        read_test: Score the test nodes.
        checkpoint: As for :func:`~crossgcn.training.loop.fit`, like ``on_epochs`` and
            ``on_metrics``.
    """
    config = step.config
    curve = scorer(test) if config.test_curve else None
    selector = None if validation is None else scorer(validation)

    def read() -> dict[str, float]:
        threshold = None
        if config.threshold is not None and selector is not None:
            threshold = selector.choose_threshold()
        return (curve or scorer(test)).evaluate(threshold)

    return fit(
        step,
        validation=selector,
        curve=curve,
        test=read if read_test else None,
        checkpoint=checkpoint,
        on_epochs=on_epochs,
        on_metrics=on_metrics,
    )


def check_scoring(config: RunConfig, num_classes: int, *validation: Tensor) -> None:
    """Refuse a metric or a threshold that does not fit the target or the validation labels."""
    metric = selecting_metric(config.metric, num_classes)
    check_threshold(config.threshold, num_classes)
    for labels in validation if metric != "accuracy" else ():
        check_defined(metric, labels.numpy(), num_classes)


class NodeScorer(Scorer):
    """Scores nodes of a graph in memory."""

    def __init__(
        self, model: NodeClassifier, targets: Targets, config: RunConfig, y: Tensor
    ) -> None:
        super().__init__(model, config, y)
        self.targets, self.device = targets, targets.labels.device
        self._loss = Loss(model.num_outputs, target_scale=model.target_scale)
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted | None]:
        labels = self.targets.labels
        if self._network is None:
            scores = self._scores()
            loss, accuracy, _ = self._loss(standardised(self.model, scores), labels, labels.numel())
        else:
            scores = torch.from_numpy(self._network.forward())
            mean, correct = self._network.loss()
            loss = torch.tensor(mean)
            accuracy = torch.tensor(correct / labels.numel(), dtype=torch.float64)
        return loss, accuracy, self._with_labels(scores) if keep else None

    def _predict(self) -> Predicted:
        return self._with_labels(self._scores())

    def _scores(self) -> Tensor:
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores: Tensor = self.model(*self.targets.inputs)
        return scores

    def _with_labels(self, scores: Tensor) -> Predicted:
        return self.targets.labels.numpy(force=True), scores.float().numpy(force=True)


def standardised(model: NodeClassifier, scores: Tensor) -> Tensor:
    """Convert scores of a model in evaluation from the unit of the target."""
    if model.target_scale is None:
        return scores
    return (scores - model.target_scale[0]) / model.target_scale[1]


class ExactScorer(Scorer):
    """Scores nodes with all their neighbours.

    If the nodes' receptive fields are far smaller than the graph, only these are computed; they
    are cut out once and kept, unless they are large. Otherwise all nodes are scored, layer by
    layer, with hidden values in temporary files if there is a folder for them. Either way the
    processes share the work.
    """

    def __init__(
        self,
        model: NodeClassifier,
        source: GraphSource,
        nodes: Tensor,
        config: RunConfig,
        device: torch.device,
        processes: Processes,
        folder: Path | None = None,
    ) -> None:
        super().__init__(model, config, source.labels)
        self.source, self.nodes, self.device = source, nodes, device
        self.processes, self.folder = processes, folder
        self._loss = Loss(model.num_outputs, target_scale=model.target_scale)
        self.by_fields = _fields_are_small(source, nodes, len(model.propagations))
        self._kept: list[Batch] | None = None
        self._sorted, self._order = nodes.sort()
        self._batches = NodeBatches(
            source,
            nodes,
            model.propagations,
            fanouts=None,
            batch_size=(_NODES_AT_ONCE if model.propagations else _ROWS_AT_ONCE)
            * processes.world_size,
            shuffle=False,
            rank=processes.rank,
            world_size=processes.world_size,
        )

    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted | None]:
        self.model.eval()
        count = self.nodes.numel()
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        parts = []
        with multiplying_in(self.precision, self.device):
            for targets, scores, labels in self._scores():
                own = standardised(self.model, scores)
                totals += torch.stack(score_part(self._loss, own, labels, count)[:2])
                if keep:
                    parts.append((targets, scores.double()))
        means = self.processes.add_up(totals) / count
        if not keep:
            return means[0], means[1], None
        gathered = torch.zeros(count, self.model.num_outputs, dtype=torch.float64).to(self.device)
        for targets, scores in parts:
            places = self._order[torch.searchsorted(self._sorted, targets.cpu())]
            gathered[places.to(self.device)] = scores
        gathered = self.processes.add_up(gathered)
        labels = self.source.labels[self.nodes]
        return means[0], means[1], (labels.numpy(), gathered.cpu().numpy())

    def _predict(self) -> Predicted:
        predicted = self._score(keep=True)[2]
        assert predicted is not None
        return predicted

    def _scores(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        if not self.by_fields:
            yield self._layer_by_layer()
            return
        for batch in self._kept if self._kept is not None else self._cut_out():
            scores = self.model(*batch_inputs(batch, self.device))
            yield batch.targets, scores, batch.labels

    def _layer_by_layer(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return nodes, scores and labels of this process's share of the nodes."""
        rank, world_size = self.processes.rank, self.processes.world_size
        scores = infer(
            self.model,
            self.source,
            nodes=self.nodes,
            folder=self.folder,
            device=self.device,
            rank=rank,
            world_size=world_size,
        )
        nodes, own_scores = (all_.tensor_split(world_size)[rank] for all_ in (self.nodes, scores))
        return nodes, own_scores.to(self.device), self.source.labels[nodes]

    def _cut_out(self) -> Iterator[Batch]:
        """Yield receptive fields of this process's share; keep them if they are small."""
        kept, size = [], 0
        for batch in self._batches.epoch(0):
            size += sum(_bytes_of(part) for part in (batch.x, *batch.blocks))
            if size <= _KEPT_BYTES:
                kept.append(batch)
            else:
                kept.clear()
            yield batch
        if size <= _KEPT_BYTES:
            self._kept = kept


def _bytes_of(matrix: Features) -> int:
    if not isinstance(matrix, SparseMatrix):
        return matrix.nbytes
    return sum(part.nbytes for part in (matrix.row_offsets, matrix.columns, matrix.values))


def _fields_are_small(source: GraphSource, nodes: Tensor, hops: int) -> bool:
    """Whether the receptive fields are likely a small part of the graph."""
    if hops <= 1:
        return True
    entries = source.neighbours.numel()
    neighbours = int((source.offsets[nodes + 1] - source.offsets[nodes]).sum()) + nodes.numel()
    growth = (entries / max(source.num_nodes, 1) + 1) ** (hops - 1)
    return bool(neighbours * growth <= (entries + source.num_nodes) / 4)
