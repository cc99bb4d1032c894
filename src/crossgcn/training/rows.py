"""Train cross-hops on rows of its columns: steps on batches of rows, and scores of rows.

The columns of neighbourhoods do not change during training, so a step reads some rows of them and
no edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.sparse_matrix import Features, SparseMatrix
from crossgcn.graph.standardise import HopRows
from crossgcn.kernels import has_numba
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.device import (
    can_be_recorded,
    capture,
    check_precision,
    choose_device,
    enough_memory,
    multiplying_in,
)
from crossgcn.training.loop import Scorer, Step, TrainedModel, fit
from crossgcn.training.objective import compute_loss, training_weights

if TYPE_CHECKING:
    from crossgcn.training.compiled_hops import HopPasses

BAG_SHARE = 0.9
"""Share of the training nodes that each bag of a model is trained on."""

_ENTRIES_AHEAD = 1 << 18
"""Entries of several batches that are read at once."""

_ROWS_AT_ONCE = 4096
"""Rows that are scored at once."""
_KEPT_BYTES = 256 << 20
"""Rows up to this size are kept from one evaluation to the next."""


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
        split: As for :func:`~crossgcn.training.loop.fit`, like ``on_epochs``.
        seed: Decides the batches, the bags and the dropped entries.
        node_weights: Weight of each training node in the loss.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    device = choose_device(device)
    check_precision(config.precision, device)
    batch_size = config.batch_size or split.train.numel()
    sizes = f"a batch of {batch_size:,} rows of {rows.num_columns:,} columns"
    with enough_memory(sizes, device, "lower batch_size"):
        step = RowStep(
            model.to(device), rows, split.train, config, seed=seed, node_weights=node_weights
        )
        return fit(step, split, on_epochs=on_epochs)


class Batch(NamedTuple):
    """Some nodes, their rows and their labels."""

    nodes: Tensor
    x: Features
    labels: Tensor


class RowStep(Step):
    """A model that is trained on batches of rows; an epoch goes through all training nodes.

    Nodes are shuffled anew in each epoch, by the seed and the number of the epoch alone. If rows
    are read from a GPU's memory, a step on a full batch is recorded as a CUDA graph.

    Args:
        nodes: The training nodes.
        seed: Decides the batches, the bags and the dropped entries.
        node_weights: Weight of each training node in the loss.
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
        self.rows, self.nodes, self._seed = rows, nodes.to(rows.device), seed
        self._labels = rows.labels.to(rows.device)
        self._batch_size = config.batch_size or nodes.numel()
        self._in_bag = _draw_bags(model.bags, nodes, rows.labels, seed)
        if self._in_bag is not None:
            # Rows of nodes, because batches select nodes.
            self._in_bag = self._in_bag.to(self.device).t().contiguous()
        weights = training_weights(
            config.class_weight, node_weights, rows.labels[nodes], model.num_outputs
        )
        if weights is not None:
            of_all = torch.zeros(rows.labels.numel()).index_copy(0, nodes, weights)
            weights = of_all.to(rows.device)
        self._weights = weights
        self._totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._passes: HopPasses | None = None
        if self.device.type == "cpu" and has_numba() and not rows.are_sparse:
            from crossgcn.training.compiled_hops import HopPasses
            from crossgcn.training.compiled_network import CompiledAdam

            self._passes, self._adam = HopPasses.of(model), CompiledAdam(self.optimizer)
        self._records = self.nodes.is_cuda and can_be_recorded(model, self.device)
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
        batches = torch.split(shuffle(self.nodes, self._seed, epoch), self._batch_size)
        if self._records:
            for nodes in batches:
                self._train_on_gpu(nodes)
        else:
            for batch in self._read_ahead(batches):
                self._train_on(batch)
        means = self._totals / num_nodes
        self.loss, self.accuracy = means[0], means[1]

    def _read(self, nodes: Tensor) -> Batch:
        return Batch(nodes, self.rows.rows(nodes), self._labels.index_select(0, nodes))

    def _read_ahead(self, batches: tuple[Tensor, ...]) -> Iterator[Batch]:
        """Yield each batch; several are read at once, which takes less time."""
        several = max(1, _ENTRIES_AHEAD // (self._batch_size * self.rows.num_columns))
        several = 1 if self.rows.are_sparse else several
        for first in range(0, len(batches), several):
            nodes = batches[first : first + several]
            read = self._read(torch.cat(nodes))
            if isinstance(read.x, SparseMatrix):
                yield read
            else:
                sizes = [each.numel() for each in nodes]
                parts = (torch.split(each, sizes) for each in (read.x, read.labels))
                yield from map(Batch, nodes, *parts)

    def _train_on_gpu(self, nodes: Tensor) -> None:
        """Do one step, replayed from a CUDA graph if the batch is full."""
        if nodes.numel() < self._batch_size:
            self._train_on(self._read(nodes))
            return
        self._full_batch.copy_(nodes)
        if self._replay is None:
            self._replay = capture(
                lambda: self._train_on(self._read(self._full_batch)),
                [self._totals, *self.tensors()],
                self.device,
            )
        self._replay()

    def release(self) -> None:
        """Free the memory of a CUDA graph."""
        super().release()
        self._replay = None

    def _train_on(self, batch: Batch) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        if self._passes is not None:
            assert isinstance(batch.x, Tensor)
            self._passes.backward(self._add_loss(self._passes.forward(batch.x), batch))
            self._adam.step(int(self.count), self._passes.gradients.items())
            return
        if not self.model.training:
            self.model.train()
        self.model.zero_grad(set_to_none=True)
        with multiplying_in(self.config.precision, self.device):
            scores = self.model(batch.x.to(self.device))
            scores.backward(self._add_loss(scores, batch))
        self.optimizer.step([weight.grad for weight in self.optimizer.weights])
        self.model.zero_grad(set_to_none=True)

    def _add_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        """Add up losses and correct predictions; return the gradient for the scores."""
        labels, count, weights = batch.labels.to(scores.device), batch.labels.numel(), None
        target_scale = self.model.target_scale
        if self._weights is not None:
            weights = self._weights[batch.nodes].to(scores.device)
        if self._in_bag is None:
            loss, num_correct, grad = compute_loss(
                scores.detach(), labels, count, weights=weights, target_scale=target_scale
            )
            self._totals += torch.stack([loss, num_correct])
            return grad
        # Selected first: a loop that also decides waits for memory in every step.
        in_bag = self._in_bag.index_select(0, batch.nodes.to(self._in_bag.device))
        # Not the number of the batch's nodes in the bag, which varies from batch to batch.
        of_bag = BAG_SHARE * count
        if self._passes is not None and target_scale is None and weights is None:
            return self._passes.score_bags(labels, in_bag, of_bag, self._totals)
        unknown = -1 if target_scale is None else torch.nan
        of_bags = torch.where(in_bag.t(), labels, unknown)
        if weights is not None:
            weights = weights.expand(of_bags.shape)
        losses, correct, grad = compute_loss(
            scores.detach(), of_bags, of_bag, weights=weights, target_scale=target_scale
        )
        # Each bag's loss has the gradient that it has alone; the reported loss is their mean.
        loss, num_correct = losses.mean() / BAG_SHARE, correct.mean() / BAG_SHARE
        if target_scale is not None:
            num_correct = count - 2 * loss
        self._totals += torch.stack([loss, num_correct])
        return grad


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

    def score(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the accuracy, and the scores of the nodes."""
        self.model.eval()
        count, parts = self._nodes.numel(), []
        totals = torch.zeros(2, dtype=torch.float64, device=self._device)
        with multiplying_in(self.precision, self._device):
            for x, labels in self._read() if self._kept is None else self._kept:
                scores = self.model(x.to(self._device))
                loss, num_correct, _ = compute_loss(
                    self._standardised(scores),
                    labels.to(self._device),
                    count,
                    target_scale=self.model.target_scale,
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


def _draw_bags(bags: int, nodes: Tensor, labels: Tensor, seed: int) -> Tensor | None:
    """Return which nodes train which bag, ``[bags, nodes]``; ``None`` for a model without bags."""
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


_INCREMENT = 0x9E3779B97F4A7C15 - 2**64
"""Of SplitMix64, as a signed number: products and sums wrap around."""


def shuffle(nodes: Tensor, *numbers: int) -> Tensor:
    """Return the nodes in an order that depends on numbers such as seed and epoch alone.

    The order is the same on every device: nodes are sorted by 64 bits of SplitMix64, of which no
    two are the same.
    """
    key = torch.zeros((), dtype=torch.long)
    for number in numbers:
        key = _mix(key + torch.tensor(number + 1) * _INCREMENT)
    steps = torch.arange(1, nodes.numel() + 1, device=nodes.device)
    bits = _mix(steps * _INCREMENT + int(key))
    return nodes[torch.argsort(bits ^ -(2**63))]  # as if the bits were unsigned


def _mix(bits: Tensor) -> Tensor:
    """Mix as SplitMix64 does; the masks make shifts those of unsigned numbers."""
    bits = (bits ^ ((bits >> 30) & (2**34 - 1))) * (0xBF58476D1CE4E5B9 - 2**64)
    bits = (bits ^ ((bits >> 27) & (2**37 - 1))) * (0x94D049BB133111EB - 2**64)
    return bits ^ ((bits >> 31) & (2**33 - 1))
