"""From the hidden vectors of the K orders to one vector (the paper's ``a(·)``)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.errors import BadInput, unknown_name
from crossgcn.kernels import plain
from crossgcn.layers.feature_dropout import may_use_kernels

NamedOrderWeights = Literal[
    "fixed", "learned", "gated", "mean", "per-unit", "attention", "concat", "lstm"
]
OrderWeights = NamedOrderWeights | Sequence[float]
FirstOrder = Literal["paper", "release"]


def check_order(order: object) -> int:
    """An order that makes sense, or an error that says which do."""
    try:
        number = 0 if isinstance(order, bool) else operator.index(order)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise BadInput(
            f"order must be a whole number of at least 1 (1 is a plain linear map, "
            f"2 adds products of two features); got {order!r}"
        )
    return number


def initial_order_weights(spec: OrderWeights, order: int) -> tuple[Tensor | None, bool]:
    """Read the ``order_weights`` argument of the layers.

    Args:
        spec: ``"fixed"`` (all 1), ``"mean"`` (all 1/K), ``"learned"`` (from
            1), ``"gated"`` (α₁ = 1, the others from 0), K floats, or the name of one of
            :mod:`~crossgcn.layers.orders.trained`.
        order: K.

    Returns:
        The starting weights ``[order]`` and whether they train; none where orders are not
        summed with a number each.
    """
    if isinstance(spec, str):
        named = get_args(NamedOrderWeights)
        if spec not in named:
            raise unknown_name("order_weights", spec, (*named, f"a list of {order} numbers"))
        match spec:
            case "fixed":
                return torch.ones(order), False
            case "mean":
                return torch.full((order,), 1.0 / order), False
            case "learned":
                return torch.ones(order), order > 1
            case "gated":
                return torch.eye(order)[0].clone(), order > 1
            case "lstm":
                return None, False
            case "per-unit" | "attention" | "concat":
                return (torch.ones(1) if order == 1 else None), False
    try:
        weights = torch.tensor([float(weight) for weight in spec])
    except (TypeError, ValueError):
        weights = torch.empty(0)
    if weights.numel() != order or not torch.isfinite(weights).all():
        raise BadInput(
            f"order_weights of a layer of order {order} is a name or {order} finite "
            f"number{'s' if order > 1 else ''}, one per order; got {spec!r}"
        )
    return weights, False


def cross_orders(projections: Tensor) -> list[Tensor]:
    r"""Multiply the projections up: :math:`\mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}`.

    Args:
        projections: :math:`\mathbf{p}^k = \mathbf{W}^k\mathbf{x}`,
            ``[..., nodes, order, channels]``.

    Returns:
        :math:`\mathbf{h}^1, \dots, \mathbf{h}^K`, each ``[..., nodes, channels]``.
    """
    first, *others = projections.unbind(-2)
    hidden = [first]
    for projection in others:
        hidden.append(projection * hidden[-1])
    return hidden


def cross_and_sum(projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
    r"""Multiply the projections up and aggregate the orders, :math:`\sum_k \alpha_k \mathbf{h}^k`.

    One pass over memory forward and one backward, which computes the products anew
    instead of keeping them.

    Args:
        projections: ``[..., order * channels]``, one order after the other; with order
            weights per model, ``[models, rows, order * channels]``.
        order_weights: :math:`\alpha`, ``[order]`` or ``[models, order]``.
        release: Take the sum of all projections for the first order (NOTE[D2]).

    Returns:
        ``[..., channels]``.
    """
    shape = projections.shape
    if order_weights.dim() == 1:
        order_weights = order_weights.unsqueeze(0)
        projections = projections.reshape(1, -1, shape[-1])
    if may_use_kernels(projections, order_weights):
        out = _CrossAndSum.apply(projections, order_weights, release)  # type: ignore[no-untyped-call]
    else:
        out = plain.cross(projections, order_weights, release)
    result: Tensor = out.view(*shape[:-1], out.size(-1))
    return result


class _CrossAndSum(torch.autograd.Function):
    """:func:`crossgcn.kernels.cross` with its gradients."""

    @staticmethod
    def forward(ctx: Any, projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
        ctx.save_for_backward(projections, order_weights)
        ctx.release = release
        return kernels.cross(projections, order_weights, release)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        projections, order_weights = ctx.saved_tensors
        # A backward pass that is differentiated again must consist of PyTorch's operations.
        implementation = plain if torch.is_grad_enabled() else kernels
        return *implementation.cross_backward(
            gradient, projections, order_weights, ctx.release, ctx.needs_input_grad[1]
        ), None
