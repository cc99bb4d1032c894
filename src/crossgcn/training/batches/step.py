"""One step of training on a batch of nodes, in one process or in several that share it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.graph.matrix import ModelInputs, SparseMatrix
from crossgcn.graph.prepared import move_inputs
from crossgcn.graph.sampling.batches import AggregatedRows, Batch, NodeBatches
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.layers import FeatureDropout
from crossgcn.layers.graph_convolution import GraphConvolution
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import multiplying_in
from crossgcn.training.distributed import Processes
from crossgcn.training.objective import make_optimizer, order_weight_penalty

_SEED_STRIDE = 0x9E3779B1  # odd: no two processes of one run drop the same entries

State = dict[str, Tensor]


class MiniBatchStep:
    r"""A model in training; a call is one step on one batch.

    What is minimised is full-batch training's objective with the mean taken over the batch,
    which all processes share. With :math:`P` of them, each takes the sum over its part times
    :math:`P/B`, where :math:`B` is the size of the whole batch: the average of the processes'
    gradients, which :class:`~torch.nn.parallel.DistributedDataParallel` takes, is then the
    whole batch's, however uneven the parts are, even where one is empty.

    Args:
        model: Trained in place, on its device.
        seed: Decides what is dropped, together with the process's number.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        device: Where the model is.
        precision: As for full-batch training.
        processes: Those that share each batch.

    Attributes:
        totals: Sums of the cross-entropy and of nodes scored right over this process's parts,
            since :meth:`clear`.
    """

    def __init__(
        self,
        model: NodeClassifier,
        *,
        seed: int,
        learning_rate: float,
        weight_decay: float,
        device: torch.device,
        precision: str,
        processes: Processes,
    ) -> None:
        self.model, self.device, self.precision = model, device, precision
        self.weight_decay, self.processes = weight_decay, processes
        self.optimizer = make_optimizer(model, learning_rate, weight_decay)
        self.count = torch.zeros((), dtype=torch.long, device=device)
        seeds = torch.tensor([(seed + _SEED_STRIDE * processes.rank) % 2**32], device=device)
        for module in model.modules():
            if isinstance(module, FeatureDropout):
                module.follow(seeds, self.count)
        self.totals = torch.zeros(2, dtype=torch.float64, device=device)
        self._averaging = processes.wrap(model)
        self._settled = processes.world_size == 1

    def __call__(self, batch: Batch) -> None:
        """Forward, backward and Adam."""
        self.count += 1
        inputs = batch_inputs(batch, self.device)
        if not self._settled:
            # The first pass decides in which order gradients are sent, and so how they are
            # rounded; one whose gradients are nothing makes all that count send alike.
            self._backward(batch, inputs, share=0.0)
            self.totals.zero_()
            self._settled = True
        self._backward(batch, inputs, share=float(self.processes.world_size))
        self.optimizer.step([weight.grad for weight in self.optimizer.weights])
        self.model.zero_grad(set_to_none=True)

    def clear(self) -> None:
        """Start new sums."""
        self.totals.zero_()

    def _backward(self, batch: Batch, inputs: ModelInputs, share: float) -> None:
        self.model.zero_grad(set_to_none=True)
        self.model.train()
        with multiplying_in(self.precision, self.device):
            scores = self._averaging(*inputs)
            loss, right, slope = score_part(scores, batch.labels, batch.num_targets_everywhere)
            results, slopes = [scores], [slope * share]
            decay = order_weight_penalty(self.model, self.weight_decay)
            if decay is not None:
                results.append(decay)
                slopes.append(torch.ones_like(decay))
            torch.autograd.backward(results, slopes)
        self.totals += torch.stack([loss, right])

    def state(self) -> State:
        """The optimiser's part of a resume point, by the names of the weights."""
        names = {id(weight): name for name, weight in self.model.named_parameters()}
        tensors = {"step": self.count}
        for group in self.optimizer.groups:
            for weight, *own in zip(
                group.weights, group.means, group.squares, group.steps, strict=True
            ):
                for what, value in zip(("mean", "square", "step"), own, strict=True):
                    tensors[f"{names[id(weight)]}.{what}"] = value
        return tensors

    def load_state(self, tensors: State) -> None:
        """Take over what :meth:`state` gave; weights are the caller's."""
        with torch.no_grad():
            for name, own in self.state().items():
                own.copy_(tensors[name])


def batch_inputs(batch: Batch, device: torch.device) -> ModelInputs:
    """What the model takes for a batch, on its device."""
    inputs = (batch.x, batch.blocks)
    return inputs if device.type == "cpu" else move_inputs(inputs, device)


def score_part(
    scores: Tensor, labels: Tensor, num_everywhere: int
) -> tuple[Tensor, Tensor, Tensor]:
    """How well a model does on a part of some nodes.

    Args:
        scores: Of the part, ``[nodes, classes]``; there may be none.
        labels: Their classes.
        num_everywhere: How many nodes all parts have.

    Returns:
        The sum of the cross-entropy and how many are scored right, in float64, and the
        gradient, for the scores, of that sum divided by ``num_everywhere``.
    """
    count = torch.tensor([num_everywhere], device=scores.device)
    exact = scores.detach().to(torch.promote_types(scores.dtype, torch.float32))
    losses, accuracies, slope = kernels.score(
        exact.unsqueeze(0), labels.to(scores.device).unsqueeze(0), count, scores.size(-1)
    )
    loss, right = losses[0].double() * count[0], (accuracies[0] * count[0]).round()
    return loss, right, slope[0].to(scores.dtype)


def batches_of(
    model: NodeClassifier,
    source: GraphSource,
    nodes: Tensor,
    *,
    fanouts: Sequence[int] | None,
    aggregate_once: bool | None = None,
    folder: Path | None = None,
    num_workers: int = 0,
    **settings: Any,
) -> NodeBatches | AggregatedRows:
    """Batches of nodes for a model.

    A model that looks one hop far needs no sampling, whatever ``fanouts`` say: its batches have
    all neighbours. If it also aggregates before it transforms, and the features are dense, these
    are summed once and batches hold the sums
    (:class:`~crossgcn.graph.sampling.batches.AggregatedRows`).

    Args:
        model: The model.
        source: The graph.
        nodes: The nodes to go through.
        fanouts: See :class:`~crossgcn.graph.sampling.batches.NodeBatches`.
        aggregate_once: ``True`` sums features once also where dropout then drops entries of the
            sums instead of the features'; ``False`` never does. When left out, they are where it
            changes nothing.
        folder: Keep such sums in a temporary file there instead of in memory.
        num_workers: Threads that prepare batches ahead of time.
        **settings: ``batch_size``, ``seed``, ``shuffle``, ``rank`` and ``world_size``.
    """
    if len(model.propagations) == 1:
        fanouts = None
        if aggregate_once is None:
            aggregate_once = model.input_dropout.p == 0.0
        if aggregate_once and _may_aggregate_once(model, source):
            (kind,) = model.propagations
            return AggregatedRows(source, nodes, kind, folder=folder, **settings)
    rescaled = [not _weighs_messages(layer) for layer in model.layers for _ in _hops(layer)]
    return NodeBatches(
        source,
        nodes,
        model.propagations,
        fanouts=fanouts,
        num_workers=num_workers,
        rescaled=rescaled,
        **settings,
    )


def _may_aggregate_once(model: NodeClassifier, source: GraphSource) -> bool:
    """Whether the first layer needs of the graph no more than sums of dense features."""
    layer = model.layers[0]
    return (
        isinstance(layer, GraphConvolution)
        and layer.aggregate_first
        and layer.sums_neighbours
        and not isinstance(source.features(torch.zeros(1, dtype=torch.long)), SparseMatrix)
    )


def _weighs_messages(layer: nn.Module) -> bool:
    return bool(getattr(getattr(layer, "aggregation", None), "weighs_messages", False))


def _hops(layer: nn.Module) -> Sequence[Any]:
    hops: Sequence[Any] = getattr(layer, "propagations", ("gcn",))
    return hops
