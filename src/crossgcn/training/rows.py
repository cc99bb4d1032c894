"""Train and score cross-hops on rows of its columns.

Neighbourhood columns do not change during training, so a step reads rows and no edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.device import (
    can_be_recorded,
    capture,
    choose_device,
    enough_memory,
    runs_plain_code,
)
from crossgcn.training.loop import Scorer, Step, TrainedModel, fit
from crossgcn.training.objective import compute_loss, training_weights

if TYPE_CHECKING:
    from crossgcn.training.compiled_hops import HopPasses

Batch = tuple[Tensor, Tensor, Tensor]
"""Some nodes, their rows and their labels."""

BAG_SHARE = 0.9
"""Share of the training nodes that each bag of a model is trained on."""

_ENTRIES_AHEAD = 1 << 18
"""Batches with up to this many entries together are read at once."""

_ROWS_AT_ONCE = 4096
"""Rows that are scored at once."""


def train_rows(
    model: CrossHops,
    rows: HopRows,
    split: Split,
    config: RunConfig,
    *,
    seed: int,
    device: str | torch.device = "cpu",
    node_weights: Tensor | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Train a model on batches of rows, and select the epoch of the best validation score.

    Args:
        model: Trained in place; holds the selected weights afterwards.
        split: See :func:`~crossgcn.training.loop.fit`, as for ``on_epochs``.
        seed: Seed of batches, bags and dropout.
        node_weights: Weight of each training node in the loss.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    device = choose_device(device)
    batch_size = config.batch_size or split.train.numel()
    sizes = f"a batch of {batch_size:,} rows of {rows.num_columns:,} columns"
    with enough_memory(sizes, device, "lower batch_size"):
        step = RowStep(
            model.to(device), rows, split.train, config, seed=seed, node_weights=node_weights
        )
        return fit(step, split, on_epochs=on_epochs)


class RowStep(Step):
    """Training on batches of rows; an epoch goes through all training nodes.

    The seed and the number of the epoch determine the order of the nodes. If rows are in a GPU's
    memory, a step on a full batch is recorded as a CUDA graph. ``nodes`` are the training nodes;
    for the other arguments see :func:`train_rows`.
    """

    model: CrossHops

    def __init__(
        self,
        model: CrossHops,
        rows: HopRows,
        nodes: Tensor,
        config: RunConfig,
        *,
        seed: int,
        node_weights: Tensor | None = None,
    ) -> None:
        super().__init__(model, config, seed)
        self.rows, self.nodes = rows, nodes.to(rows.device)
        self._labels = rows.labels.to(rows.device)
        self._batch_size = config.batch_size or nodes.numel()
        self._in_bag = None
        if model.bags > 1:
            self._in_bag = _draw_bags(model.bags, nodes, rows.labels, seed).to(self.device)
        weights = training_weights(
            config.class_weight, node_weights, rows.labels[nodes], model.num_outputs
        )
        if weights is not None:
            weights = torch.zeros(rows.labels.numel()).index_copy(0, nodes, weights)
            weights = weights.to(rows.device)
        self._weights = weights
        self._totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._passes: HopPasses | None = None
        if runs_plain_code(model, (CrossHops,), self.device):
            from crossgcn.training.compiled_hops import HopPasses
            from crossgcn.training.compiled_network import CompiledAdam

            self._passes, self._adam = HopPasses(model), CompiledAdam(self.optimizer)
        self._uses_graph = self.nodes.is_cuda and can_be_recorded(model, self.device)
        self._full_batch = self.nodes[: self._batch_size].clone()
        self._replay: Callable[[], None] | None = None

    def scorer(self, nodes: Tensor) -> RowScorer:
        """Return a scorer of the model on some nodes."""
        return RowScorer(self.model, self.rows, nodes, self.config, self.device)

    def run(self) -> None:
        """Train on each batch of the next epoch."""
        self._totals.zero_()
        num_nodes = self.nodes.numel()
        num_batches = -(-num_nodes // self._batch_size)
        epoch = int(self.count) // num_batches + 1
        batches = torch.split(shuffle(self.nodes, self.seed, epoch), self._batch_size)
        if self._uses_graph:
            for nodes in batches:
                self._train_on_gpu(nodes)
        else:
            for batch in self._read_ahead(batches):
                self._train_on(*batch)
        self.loss, self.accuracy = self._totals / num_nodes

    def release(self) -> None:
        """Free the memory of a CUDA graph."""
        super().release()
        self._replay = None

    def _read(self, nodes: Tensor) -> Batch:
        return nodes, self.rows.rows(nodes), self._labels.index_select(0, nodes)

    def _read_ahead(self, batches: tuple[Tensor, ...]) -> Iterator[Batch]:
        """Yield each batch; several are read together, which is faster."""
        group = max(1, _ENTRIES_AHEAD // (self._batch_size * self.rows.num_columns))
        for first in range(0, len(batches), group):
            together = self._read(torch.cat(batches[first : first + group]))
            yield from zip(*(torch.split(each, self._batch_size) for each in together), strict=True)

    def _train_on_gpu(self, nodes: Tensor) -> None:
        """Do one step, replayed from a CUDA graph if the batch is full."""
        if nodes.numel() < self._batch_size:
            self._train_on(*self._read(nodes))
            return
        self._full_batch.copy_(nodes)
        if self._replay is None:
            self._replay = capture(
                lambda: self._train_on(*self._read(self._full_batch)),
                [self._totals, *self.tensors()],
                self.device,
            )
        self._replay()

    def _train_on(self, nodes: Tensor, x: Tensor, labels: Tensor) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        if self._passes is not None:
            grad = self._add_loss(self._passes.forward(x), nodes, labels)
            self._passes.backward(grad)
            self._adam.step(int(self.count), self._passes.gradients.items())
        else:
            self.descend((x.to(self.device),), lambda s: self._add_loss(s, nodes, labels))
        if self.model.reads is not None:
            self.model.transform.weight.detach().mul_(self.model.reads)

    def _add_loss(self, scores: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
        """Add up losses and correct predictions; return the gradient for the scores."""
        labels, num_nodes, share = labels.to(scores.device), labels.numel(), 1.0
        scale, weights = self.model.target_scale, None
        if self._weights is not None:
            weights = self._weights[nodes].to(scores.device)
        if self._in_bag is not None:
            # Rows are gathered first: a loop that gathers and branches waits for memory.
            in_bag = self._in_bag.index_select(0, nodes.to(self._in_bag.device))
            # The expected share of nodes in a bag; the actual one varies from batch to batch.
            share = BAG_SHARE
            if self._passes is not None and scale is None and weights is None:
                return self._passes.score_bags(labels, in_bag, share * num_nodes, self._totals)
            labels = torch.where(in_bag.t(), labels, -1 if scale is None else torch.nan)
        losses, correct, grad = compute_loss(
            scores, labels, share * num_nodes, weights=weights, target_scale=scale
        )
        # Each bag gets the gradient of its own loss; the reported loss is the mean over bags.
        loss, num_correct = losses.mean() / share, correct.double().mean() / share
        if scale is not None:
            num_correct = num_nodes - 2 * loss
        self._totals += torch.stack([loss, num_correct])
        return grad


class RowScorer(Scorer):
    """Scores nodes from their rows."""

    def __init__(
        self,
        model: CrossHops,
        rows: HopRows,
        nodes: Tensor,
        config: RunConfig,
        device: torch.device,
    ) -> None:
        super().__init__(model, config, rows.labels, rows.labels[nodes].to(device))
        self._rows, self._nodes, self._device = rows, nodes.to(rows.device), device

    def read(self) -> Iterator[tuple[tuple[Tensor], Tensor]]:
        """Yield rows and labels."""
        batches = (torch.split(each, _ROWS_AT_ONCE) for each in (self._nodes, self.labels))
        for nodes, labels in zip(*batches, strict=True):
            yield (self._rows.rows(nodes).to(self._device),), labels


def _draw_bags(bags: int, nodes: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Return which nodes train which bag, ``[nodes, bags]``."""
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
    return drawn.t().contiguous()


_INCREMENT = 0x9E3779B97F4A7C15 - 2**64
"""The increment of SplitMix64 as a signed number; products and sums wrap around."""


def shuffle(nodes: Tensor, *numbers: int) -> Tensor:
    """Shuffle nodes in an order that depends only on numbers such as the seed and the epoch.

    The order is the same on every device: nodes are sorted by distinct 64-bit values of SplitMix64.
    """
    key = torch.zeros((), dtype=torch.long)
    for number in numbers:
        key = _mix(key + torch.tensor(number + 1) * _INCREMENT)
    steps = torch.arange(1, nodes.numel() + 1, device=nodes.device)
    bits = _mix(steps * _INCREMENT + int(key))
    return nodes[torch.argsort(bits ^ -(2**63))]  # as if the bits were unsigned


def _mix(bits: Tensor) -> Tensor:
    """Mix as SplitMix64 does; the masks turn arithmetic shifts into logical ones."""
    bits = (bits ^ ((bits >> 30) & (2**34 - 1))) * (0xBF58476D1CE4E5B9 - 2**64)
    bits = (bits ^ ((bits >> 27) & (2**37 - 1))) * (0x94D049BB133111EB - 2**64)
    return bits ^ ((bits >> 31) & (2**33 - 1))
