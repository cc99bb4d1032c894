"""Exact losses and accuracies on nodes of a graph of any size, without sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.source import Features, GraphSource
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.layerwise import infer
from crossgcn.training.batches.step import batch_inputs, score_part
from crossgcn.training.device import multiplying_in
from crossgcn.training.distributed import Processes
from crossgcn.training.metrics import METRICS, choose_threshold, compute, evaluate
from crossgcn.training.steps.targets import standardised

if TYPE_CHECKING:
    from crossgcn.training.metrics import Array

_NODES_AT_ONCE = 1024
_KEPT_BYTES = 256 << 20
"""Receptive fields up to this size are kept from one evaluation to the next, per process."""


class ExactScorer:
    """Scores nodes with all their neighbours, with the weights as they are at each call.

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
        device: torch.device,
        precision: str,
        processes: Processes,
        folder: Path | None = None,
        metric: str | None = None,
        positive: int | None = None,
    ) -> None:
        self.positive = positive
        self.metric = metric if metric or model.target_scale is None else "r2"
        self.model, self.source, self.nodes = model, source, nodes
        self.device, self.precision, self.processes = device, precision, processes
        self.folder = folder
        self.by_fields = _fields_are_small(source, nodes, len(model.propagations))
        self._kept: list[Batch] | None = None
        self._sorted, self._order = nodes.sort()
        self._batches = NodeBatches(
            source,
            nodes,
            model.propagations,
            fanouts=None,
            batch_size=_NODES_AT_ONCE * processes.world_size,
            shuffle=False,
            rank=processes.rank,
            world_size=processes.world_size,
        )

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the mean loss and the metric, negated if it should shrink, ``[1]`` each."""
        losses, accuracies, predicted = self._score(keep=self.metric not in (None, "accuracy"))
        if predicted is None or self.metric is None:
            return losses, accuracies
        sign = 1 if METRICS[self.metric].grows else -1
        value = sign * compute(self.metric, *predicted, self.positive)
        return losses, torch.full_like(accuracies, value)

    @torch.no_grad()
    def evaluate(self, thresholds: Sequence[float] | None = None) -> list[dict[str, float]]:
        """Return every metric of the task; the accuracy alone if no metric was asked for."""
        if self.metric is None and thresholds is None:
            return [{"accuracy": float(self()[1])}]
        predicted = self._score(keep=True)[2]
        assert predicted is not None
        if thresholds is None:
            return [evaluate(*predicted, self.positive)]
        (threshold,) = thresholds
        return [evaluate(*predicted, self.positive, threshold) | {"threshold": threshold}]

    @torch.no_grad()
    def choose_thresholds(self) -> list[float]:
        """Return the best decision threshold on these nodes."""
        predicted = self._score(keep=True)[2]
        assert predicted is not None and self.positive is not None
        return [choose_threshold(*predicted, self.positive, self.metric)]

    def _score(self, keep: bool) -> tuple[Tensor, Tensor, tuple[Array, Array] | None]:
        """Return the loss and the accuracy; if asked for, also all labels and scores."""
        self.model.eval()
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        parts = []
        with multiplying_in(self.precision, self.device):
            for targets, scores, labels in self._scores():
                loss, right, _ = score_part(
                    standardised(self.model, scores),
                    labels,
                    self.nodes.numel(),
                    target_scale=self.model.target_scale,
                )
                totals += torch.stack([loss, right])
                if keep:
                    parts.append((targets, scores.double()))
        means = self.processes.add_up(totals) / self.nodes.numel()
        if not keep:
            return means[:1], means[1:], None
        gathered = torch.zeros(
            self.nodes.numel(), self.model.num_outputs, dtype=torch.float64, device=self.device
        )
        for targets, scores in parts:
            places = self._order[torch.searchsorted(self._sorted, targets)]
            gathered[places.to(self.device)] = scores
        gathered = self.processes.add_up(gathered)
        predicted = (self.source.labels[self.nodes].numpy(), gathered.cpu().numpy())
        return means[:1], means[1:], predicted

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
