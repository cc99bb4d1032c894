"""Training passes of cross-hops by the CPU's compiled kernels, without autograd.

A batch is a few hundred rows, so PyTorch spends more time between its operations than in them.
Matrix products, sums and exponentials are PyTorch's, in the layout that autograd would give them,
so results are the same to the last bit. Tests compare them.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.source import Features
from crossgcn.kernels import has_numba
from crossgcn.kernels.cpu import hop_loops
from crossgcn.kernels.cpu.loops import call
from crossgcn.layers.orders import WeightsPerUnit
from crossgcn.models.cross_hops import BagReadout, CrossHops

__all__ = ["HopPasses"]


class HopPasses:
    """The forward and the backward pass of a model in training.

    Args:
        model: Its weights are read; gradients are set as its parameters' ``grad``.
    """

    def __init__(self, model: CrossHops) -> None:
        self.model, self.readout = model, model.readout
        self.order, self.units = model.order, model.transform.out_channels
        self._seen: tuple[Tensor, Tensor, Tensor] | None = None

    @classmethod
    def of(cls, model: torch.nn.Module) -> HopPasses | None:
        """Return the passes of a model; ``None`` if it is another, or has foreign code in it."""
        if type(model) is not CrossHops or not has_numba():
            return None
        aggregator = model.transform.aggregator
        usual = (
            (aggregator is None if model.order == 1 else type(aggregator) is WeightsPerUnit)
            and type(model.readout) is BagReadout
            and model.transform.projection_scale is None
            and model.transform.first_order != "release"
            and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
            and all(
                p.requires_grad and p.dtype == torch.float32 and p.is_contiguous()
                for p in model.parameters()
            )
        )
        return cls(model) if usual else None

    @staticmethod
    def takes(x: Features) -> TypeGuard[Tensor]:
        """Whether these rows can be computed: dense ones in float32."""
        return not isinstance(x, SparseMatrix) and x.dtype == torch.float32

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Return what the model returns in training mode."""
        self.model.input_dropout.training = True
        x = self.model.input_dropout(x)
        projections = functional.linear(x, self.model.transform.weight.flatten(0, 1))
        hidden = projections
        if self.order > 1:
            hidden = projections.new_empty(len(x), self.units)
            arguments = (projections.numpy(), self._gates, hidden.numpy())
            call(hop_loops.cross_units, projections.numel(), *arguments)
        self._seen = x, projections, hidden
        scores: Tensor = self.readout(hidden)
        return scores if self.model.bags > 1 else scores[0]

    @torch.no_grad()
    def backward(self, slope: Tensor) -> None:
        """Set the gradients, given that of the scores of the last forward pass."""
        assert self._seen is not None
        x, projections, hidden = self._seen
        readout, bags = self.readout, self.readout.bags
        slope = slope.reshape(bags, len(x), readout.out_channels)
        weight = readout.weight.view(readout.out_channels, bags, readout.in_channels)
        rows = hidden.view(-1, bags, readout.in_channels).transpose(0, 1)
        readout.bias.grad = slope.sum(dim=1, keepdim=True).view(-1)
        grad_weight = rows.transpose(1, 2).bmm(slope)
        readout.weight.grad = grad_weight.permute(2, 0, 1).reshape(readout.weight.shape)
        gradient = slope.bmm(weight.permute(1, 2, 0).transpose(1, 2))
        transform = self.model.transform
        if self.order == 1:
            grad_projections = gradient.transpose(0, 1).reshape(len(x), self.units)
        else:
            grad_projections = torch.empty_like(projections)
            grad_gates = torch.empty(self.order - 1, *hidden.shape)
            given = (gradient.numpy(), projections.numpy(), self._gates)
            arguments = (*given, grad_projections.numpy(), grad_gates.numpy())
            call(hop_loops.cross_units_backward, projections.numel(), *arguments)
            assert isinstance(transform.aggregator, WeightsPerUnit)
            sums = [each.sum(dim=0, keepdim=True) for each in grad_gates]
            transform.aggregator.gates.grad = torch.cat(sums).view(-1)
        transform.weight.grad = grad_projections.t().mm(x).view(transform.weight.shape)
        self._seen = None

    @property
    def _gates(self) -> Any:
        assert isinstance(self.model.transform.aggregator, WeightsPerUnit)
        gates = self.model.transform.aggregator.gates.detach()
        return gates.view(self.order - 1, self.units).numpy()


def score_bags(
    scores: Tensor, labels: Tensor, in_bag: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Score the rows of each bag, as :func:`crossgcn.kernels.score` does.

    Args:
        scores: ``[bags, rows, classes]``.
        labels: Class of each row.
        in_bag: Which rows count, ``[rows, bags]``.
        counts: Rows of each bag that count.
    """
    log_chances = scores.log_softmax(dim=-1)
    slope, losses = torch.empty_like(scores), scores.new_empty(scores.shape[:2])
    right = torch.empty(len(scores), dtype=torch.long)
    given = (log_chances, log_chances.exp(), labels, in_bag, counts, slope, losses, right)
    hop_loops.score_bags(*(each.numpy() for each in given))
    return losses.sum(dim=1) / counts, right / counts.double(), slope
