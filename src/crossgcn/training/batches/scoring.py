"""Exact losses and accuracies on nodes of a graph of any size, without sampling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.source import Features, GraphSource
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.layerwise import infer
from crossgcn.training.batches.step import batch_inputs, score_part
from crossgcn.training.config import RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.distributed import Processes
from crossgcn.training.objective import Loss
from crossgcn.training.scoring import Predicted, Scorer, standardised

_NODES_AT_ONCE = 1024
_KEPT_BYTES = 256 << 20
"""Receptive fields up to this size are kept from one evaluation to the next, per process."""


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
            batch_size=_NODES_AT_ONCE * processes.world_size,
            shuffle=False,
            rank=processes.rank,
            world_size=processes.world_size,
        )

    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted]:
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
            return means[:1], means[1:], iter(())
        gathered = torch.zeros(count, self.model.num_outputs, dtype=torch.float64).to(self.device)
        for targets, scores in parts:
            places = self._order[torch.searchsorted(self._sorted, targets)]
            gathered[places.to(self.device)] = scores
        gathered = self.processes.add_up(gathered)
        labels = self.source.labels[self.nodes]
        return means[:1], means[1:], iter([(labels.numpy(), gathered.cpu().numpy())])

    def _predict(self) -> Predicted:
        return self._score(keep=True)[2]

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
