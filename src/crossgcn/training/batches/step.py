"""Training steps on batches of nodes, in one process or in several that share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossgcn.graph.matrix import ModelInputs, SparseMatrix
from crossgcn.graph.prepared import move_inputs
from crossgcn.graph.sampling.batches import AggregatedRows, Batch, NodeBatches
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.kernels import has_numba
from crossgcn.layers import CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import can_be_recorded, capture, multiplying_in
from crossgcn.training.distributed import Processes
from crossgcn.training.loop import Step
from crossgcn.training.objective import Loss, order_weight_penalty

if TYPE_CHECKING:
    from crossgcn.training.compiled.hops import HopPasses

BAG_SHARE = 0.9
"""Share of the training nodes that each bag of a model is trained on."""

_SEED_STRIDE = 0x9E3779B1  # odd, so that no two processes of a run have the same seed


class MiniBatchStep(Step):
    r"""A model that is trained on batches of nodes; an epoch goes through all of them.

    It minimises the objective of full-batch training with the mean taken over the batch, which
    all processes share. With :math:`P` of them, each takes the sum over its part times
    :math:`P/B`, where :math:`B` is the size of the whole batch. The average over the processes,
    which :class:`~torch.nn.parallel.DistributedDataParallel` takes of the gradients, is then
    that of the whole batch, also where the parts differ in size or one is empty.

    If rows are read from a GPU's memory, a step on a full batch is recorded as a CUDA graph.

    Args:
        batches: This process's part of the batches.
        seed: Decides the dropped entries, together with the process's rank.
        in_bag: Which nodes train which bag of the model, bool ``[bags, nodes]``; all train a
            model without bags.
        class_weights: As for :class:`~crossgcn.training.objective.Loss`.
        node_weights: Weight of each node in the loss, ``[nodes]``.

    Attributes:
        totals: Sums of the loss and of correct predictions over this process's parts of
            the epoch's batches.
    """

    model: NodeClassifier

    def __init__(
        self,
        model: NodeClassifier,
        batches: NodeBatches | AggregatedRows,
        config: RunConfig,
        *,
        seed: int,
        processes: Processes,
        in_bag: Tensor | None = None,
        class_weights: Tensor | None = None,
        node_weights: Tensor | None = None,
    ) -> None:
        own_seed = (seed + _SEED_STRIDE * processes.rank) % 2**32
        super().__init__(model, config, own_seed)
        self.batches, self.processes = batches, processes
        # Rows of nodes, because batches select nodes.
        self._in_bag = None if in_bag is None else in_bag.to(self.device).t().contiguous()
        self._node_weights = None if node_weights is None else node_weights.to(batches.nodes.device)
        self._loss = Loss(model.num_outputs, class_weights, model.target_scale)
        # The same for all batches, so that processes that see parts of a batch agree on it.
        self._bag_share = 1.0 if in_bag is None else BAG_SHARE
        self.steps_per_epoch = len(batches)
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._averaging = processes.wrap(model)
        self._passes: HopPasses | None = None
        if self.device.type == "cpu" and processes.world_size == 1 and has_numba():
            from crossgcn.training.compiled.hops import HopPasses

            self._passes = HopPasses.of(model)
        is_weighted = class_weights is not None or node_weights is not None
        self._scores_bags = (
            self._passes is not None and model.target_scale is None and not is_weighted
        )
        self._settled = processes.world_size == 1
        self._decays_order_weights = order_weight_penalty(model, config.weight_decay) is not None
        self._records = (
            batches.nodes.is_cuda
            and processes.world_size == 1
            and can_be_recorded(model, self.device)
        )
        self._targets = batches.nodes[: batches.batch_size].clone()
        self._replay: Callable[[], None] | None = None

    def run(self) -> None:
        """Train on each batch of the next epoch."""
        self.totals.zero_()
        epoch = int(self.count) // self.steps_per_epoch + 1
        if self._records:
            for targets, everywhere in self.batches.shares(epoch):
                self._train_on_rows(targets, everywhere)
        else:
            for batch in self.batches.epoch(epoch):
                self.train_on(batch)
        means = self.processes.add_up(self.totals) / self.batches.nodes.numel()
        self.loss, self.accuracy = means[0], means[1]

    def _train_on_rows(self, targets: Tensor, everywhere: int) -> None:
        """Do one step, replayed from a CUDA graph if the batch is full."""
        assert isinstance(self.batches, NodeBatches)
        if targets.numel() < self.batches.batch_size:
            self.train_on(self.batches.rows(targets, everywhere))
            return
        self._targets.copy_(targets)
        if self._replay is None:
            self._replay = self._record(self.batches)
        self._replay()

    def _record(self, batches: NodeBatches) -> Callable[[], None]:
        tensors = [self.totals, *self.state().values()]
        before = [tensor.clone() for tensor in tensors]
        return capture(
            lambda: self.train_on(batches.rows(self._targets, batches.batch_size)),
            lambda: torch._foreach_copy_(tensors, before),
            self.device,
        )

    def release(self) -> None:
        """Free the memory of a CUDA graph."""
        super().release()
        self._replay = None

    def train_on(self, batch: Batch) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        if self._passes is not None and self._passes.takes(batch.x):
            self._passes.backward(self._score(self._passes.forward(batch.x), batch))
            self._passes.update(self.optimizer)
            return
        inputs = batch_inputs(batch, self.device)
        if not self._settled:
            # The first pass decides the order in which gradients are sent, and so their
            # rounding. One with gradients of zero makes all later ones send alike.
            self._backward(batch, inputs, share=0.0)
            self.totals.zero_()
            self._settled = True
        self._backward(batch, inputs, share=float(self.processes.world_size))
        self.optimizer.step([weight.grad for weight in self.optimizer.weights])
        self.model.zero_grad(set_to_none=True)

    def _backward(self, batch: Batch, inputs: ModelInputs, share: float) -> None:
        self.model.zero_grad(set_to_none=True)
        if not self.model.training:
            self.model.train()
        with multiplying_in(self.config.precision, self.device):
            scores = self._averaging(*inputs)
            results, slopes = [scores], [self._score(scores, batch) * share]
            decay = None
            if self._decays_order_weights:
                decay = order_weight_penalty(self.model, self.config.weight_decay)
            if decay is not None:
                results.append(decay)
                slopes.append(torch.ones_like(decay))
            torch.autograd.backward(results, slopes)

    def _score(self, scores: Tensor, batch: Batch) -> Tensor:
        """Add up losses and scores over the rows; return the gradient for the scores."""
        labels, weights = batch.labels, None
        if self._node_weights is not None:
            weights = self._node_weights[batch.targets].to(scores.device)
        everywhere = batch.num_targets_everywhere
        if self._in_bag is None:
            loss, right, slope = score_part(self._loss, scores, labels, everywhere, weights)
            self.totals += torch.stack([loss, right])
            return slope
        count = self._bag_share * everywhere
        # Selected first: a loop that also decides waits for memory in every step.
        in_bag = self._in_bag.index_select(0, batch.targets.to(self._in_bag.device))
        if self._passes is not None and self._scores_bags:
            return self._passes.score_bags(scores, labels, in_bag, count, self.totals)
        unknown = torch.nan if labels.is_floating_point() else -1
        of_bags = torch.where(in_bag.t(), labels.to(scores.device), unknown)
        if weights is not None:
            weights = weights.expand(of_bags.shape)
        losses, right, slope = self._loss(scores.detach(), of_bags, count, weights)
        # Each bag's loss has the gradient that it has alone; the reported loss is their mean.
        loss, right = losses.double().mean() * everywhere, right.mean() * everywhere
        if labels.is_floating_point():
            right = labels.numel() - 2 * loss
        self.totals += torch.stack([loss, right])
        return slope


def batch_inputs(batch: Batch, device: torch.device) -> ModelInputs:
    """Return the model's inputs for a batch, on the device."""
    inputs = (batch.x, batch.blocks)
    return inputs if device.type == "cpu" else move_inputs(inputs, device)


def score_part(
    loss_of: Loss,
    scores: Tensor,
    labels: Tensor,
    num_everywhere: int,
    node_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Score one part, which may be empty, of a set of ``num_everywhere`` nodes.

    Returns:
        The sum of the losses and the number of correct predictions (of numbers, what adds up to
        R² times their number), in float64, and the gradient, for the scores, of the loss divided
        by ``num_everywhere``.
    """
    mean, accuracy, slope = loss_of(
        scores.detach(), labels.to(scores.device), num_everywhere, node_weights
    )
    loss, right = mean.double() * num_everywhere, (accuracy * num_everywhere).round()
    if labels.is_floating_point():
        right = labels.numel() - 2 * loss  # so that the sum over the parts is that of the whole
    return loss, right, slope


def batches_of(
    model: NodeClassifier,
    source: GraphSource,
    nodes: Tensor,
    *,
    fanouts: Sequence[int] | None,
    folder: Path | None = None,
    num_workers: int = 0,
    **settings: Any,
) -> NodeBatches | AggregatedRows:
    """Return batches of nodes for a model.

    The batches of a model of one hop have all neighbours, whatever ``fanouts`` say. If it also
    aggregates before it transforms, without dropout, and the features are dense, their sums over
    neighbours are computed once and batches hold the sums
    (:class:`~crossgcn.graph.sampling.batches.AggregatedRows`).

    Args:
        fanouts: See :class:`~crossgcn.graph.sampling.batches.NodeBatches`; likewise
            ``num_workers``.
        folder: Keep such sums in a temporary file there instead of in memory.
        **settings: As for :class:`~crossgcn.graph.sampling.batches.BatchShares`.
    """
    if len(model.propagations) == 1:
        fanouts, layer = None, model.layers[0]
        if (
            isinstance(layer, CrossGCNConv)
            and layer.aggregate_first
            and layer.sums_neighbours
            and model.dropout.p == 0.0
            and not isinstance(source.features(torch.zeros(1, dtype=torch.long)), SparseMatrix)
        ):
            (kind,) = model.propagations
            return AggregatedRows(source, nodes, kind, folder=folder, **settings)
    rescaled = [
        getattr(layer, "sums_neighbours", True)
        for layer in model.layers
        for _ in getattr(layer, "propagations", ("gcn",))
    ]
    return NodeBatches(
        source,
        nodes,
        model.propagations,
        fanouts=fanouts,
        num_workers=num_workers,
        rescaled=rescaled,
        **settings,
    )
