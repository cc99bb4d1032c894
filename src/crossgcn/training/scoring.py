"""Score nodes with the weights as they are: to select epochs, and once on the test nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossgcn.graph.sparse_matrix import Features
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.compiled import can_be_compiled
from crossgcn.training.config import RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.metrics import (
    METRICS,
    check_defined,
    compute,
    evaluate,
    positive_class,
    selecting_metric,
)
from crossgcn.training.objective import Loss, Targets, score_rows

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledNetwork

_ROWS_AT_ONCE = 4096
"""Rows that are scored at once."""
_KEPT_BYTES = 256 << 20
"""Rows up to this size are kept from one evaluation to the next."""


class Scorer(ABC):
    """Scores some nodes with the weights as they are at each call.

    Args:
        y: Class or number of every node of the graph.
        labels: Those of the nodes to score.
    """

    def __init__(self, model: NodeClassifier, config: RunConfig, y: Tensor, labels: Tensor) -> None:
        self.model, self.precision, self.labels = model, config.precision, labels
        self.metric = config.metric if model.target_scale is None else config.metric or "r2"
        self.positive = positive_class(y.numpy(force=True)) if model.num_outputs == 2 else None
        self._loss = Loss(model.num_outputs, target_scale=model.target_scale)

    @abstractmethod
    def _score(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the accuracy, and the scores of the nodes."""

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the loss, and the metric that selects, negated if smaller values are better."""
        loss, accuracy, scores = self._score()
        if self.metric is None or self.metric == "accuracy":
            return loss, accuracy
        value = compute(self.metric, *_as_arrays(self.labels, scores), self.positive)
        value *= METRICS[self.metric].sign
        return loss, torch.tensor(value, dtype=torch.float64, device=accuracy.device)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Return every metric of the task; the accuracy alone if no metric was chosen."""
        _, accuracy, scores = self._score()
        if self.metric is None:
            return {"accuracy": float(accuracy)}
        return evaluate(*_as_arrays(self.labels, scores), self.positive)

    def _standardised(self, scores: Tensor) -> Tensor:
        """Convert scores of the model in evaluation from the unit of the target."""
        if self.model.target_scale is None:
            return scores
        return (scores - self.model.target_scale[0]) / self.model.target_scale[1]


def _as_arrays(labels: Tensor, scores: Tensor) -> tuple[Any, Any]:
    return labels.numpy(force=True), scores.double().numpy(force=True)


def check_scoring(config: RunConfig, num_classes: int, validation: Tensor) -> None:
    """Refuse a metric that does not fit the target or the labels of the validation nodes."""
    metric = selecting_metric(config.metric, num_classes)
    if metric != "accuracy":
        check_defined(metric, validation.numpy(), num_classes)


class NodeScorer(Scorer):
    """Scores nodes of a graph in memory."""

    def __init__(
        self, model: NodeClassifier, targets: Targets, config: RunConfig, y: Tensor
    ) -> None:
        super().__init__(model, config, y, targets.labels)
        self.targets = targets
        self._network: CompiledNetwork | None = None
        if self.labels.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    def _score(self) -> tuple[Tensor, Tensor, Tensor]:
        count = self.labels.numel()
        if self._network is not None:
            scores = torch.from_numpy(self._network.forward())
            mean, num_correct = self._network.loss()
            accuracy = torch.tensor(num_correct / count, dtype=torch.float64)
            return torch.tensor(mean), accuracy, scores
        self.model.eval()
        with multiplying_in(self.precision, self.labels.device):
            scores = self.model(*self.targets.inputs)
        loss, accuracy, _ = self._loss(self._standardised(scores), self.labels, count)
        return loss, accuracy, scores


class RowScorer(Scorer):
    """Scores nodes by the rows of their columns."""

    def __init__(
        self,
        model: CrossHops,
        rows: HopRows,
        nodes: Tensor,
        config: RunConfig,
        device: torch.device,
    ) -> None:
        super().__init__(model, config, rows.labels, rows.labels[nodes])
        self._rows, self._nodes, self._device = rows, nodes, device
        self._kept: list[tuple[Features, Tensor]] | None = None

    def _score(self) -> tuple[Tensor, Tensor, Tensor]:
        self.model.eval()
        count, parts = self._nodes.numel(), []
        totals = torch.zeros(2, dtype=torch.float64, device=self._device)
        with multiplying_in(self.precision, self._device):
            for x, labels in self._read() if self._kept is None else self._kept:
                scores = self.model(x.to(self._device))
                loss, num_correct, _ = score_rows(
                    self._loss, self._standardised(scores), labels, count
                )
                totals += torch.stack([loss, num_correct])
                parts.append(scores)
        loss, accuracy = totals / count
        return loss, accuracy, torch.cat(parts)

    def _read(self) -> Iterator[tuple[Features, Tensor]]:
        """Yield rows and labels; keep them for the next time if they are small."""
        kept, size = [], 0
        for nodes in torch.split(self._nodes, _ROWS_AT_ONCE):
            x = self._rows.rows(nodes.to(self._rows.device))
            size += x.nbytes if isinstance(x, Tensor) else 3 * x.values.nbytes
            if size <= _KEPT_BYTES:
                kept.append((x, self._rows.labels[nodes]))
            else:
                kept.clear()
            yield x, self._rows.labels[nodes]
        if size <= _KEPT_BYTES:
            self._kept = kept
