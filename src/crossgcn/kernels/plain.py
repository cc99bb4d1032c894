"""The kernels in plain PyTorch: the meaning of each, for any device and precision.

The compiled ones in :mod:`crossgcn.kernels.cpu` and :mod:`crossgcn.kernels.gpu` are
faster and equal to these; tests compare them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.pattern import Pattern


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Sum rows of a dense matrix with weights, one sum per sparse row, in storage order.

    Args:
        pattern: Which rows each sum takes.
        values: Their weights, ``[nonzeros]``.
        dense: ``[columns, width]``.

    Returns:
        ``[rows, width]``.
    """
    if dense.is_cuda:
        matrix = torch.sparse_csr_tensor(
            pattern.row_offsets,
            pattern.columns,
            values.to(dense.dtype),
            (pattern.num_rows, dense.size(0)),
            check_invariants=False,
        )
        return matrix @ dense
    # What an embedding bag computes, row by row and in storage order.
    return functional.embedding_bag(
        pattern.columns,
        dense.contiguous(),
        pattern.row_offsets,
        mode="sum",
        per_sample_weights=values.to(dense.dtype),
        include_last_offset=True,
    )


def drop(x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool) -> Tensor:
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        x: Entries of all models, one model's after the other; any shape.
        starts: Where each model's entries start, and where the last one's end,
            ``[models + 1]``; all have equally many when left out.
        draws: Decide which are kept.
        p: Probability of dropping; 0 drops none.
        activate: Apply a ReLU first.
    """
    kept = keep(draws, starts, x.numel(), p).view_as(x).bool()
    return ((torch.relu(x) if activate else x) * (1.0 / (1.0 - p))).masked_fill(~kept, 0.0)


def drop_backward(
    gradient: Tensor, x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    """Gradient of :func:`drop` for ``x``, from that for its result."""
    dropped = ~keep(draws, starts, x.numel(), p).view_as(x).bool()
    if activate:
        dropped = dropped | (x <= 0)
    return (gradient * (1.0 / (1.0 - p))).masked_fill(dropped, 0.0)


def cross(projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
    r"""Cross the projections and add up the orders.

    .. math:: \mathbf{z} = \sum_k \alpha_k \mathbf{h}^k, \qquad
        \mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}

    Args:
        projections: ``[models, rows, order * channels]``, one order after the other.
        order_weights: :math:`\alpha`, ``[models, order]``.
        release: Take the sum of all projections for :math:`\mathbf{h}^1` where it is
            added up (NOTE[D2]).

    Returns:
        ``[models, rows, channels]``.
    """
    parts = _orders(projections, order_weights)
    alpha = order_weights.to(projections.dtype)[..., None, None].unbind(1)
    hidden = parts[0]
    out = alpha[0] * (sum(parts[1:], start=parts[0]) if release else hidden)
    for weight, part in zip(alpha[1:], parts[1:], strict=True):
        hidden = part * hidden
        out = out + weight * hidden
    return out


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    r"""Gradients of :func:`cross`, its products computed anew.

    .. math:: \frac{\partial\mathbf{z}}{\partial\mathbf{p}^j}
        = \mathbf{h}^{j-1} \odot \mathbf{s}^j, \qquad
        \mathbf{s}^j = \alpha_j + \mathbf{p}^{j+1} \odot \mathbf{s}^{j+1}

    Args:
        gradient: For the result, ``[models, rows, channels]``.
        projections: As given to :func:`cross`.
        order_weights: Likewise.
        release: Likewise.
        with_order_weights: Whether their gradient is wanted too.

    Returns:
        For the projections, and for the order weights ``[models, order]`` or ``None``.
    """
    parts = _orders(projections, order_weights)
    alpha = order_weights.to(projections.dtype)[..., None, None].unbind(1)
    before = [torch.ones_like(parts[0])]
    for part in parts[:-1]:
        before.append(before[-1] * part)
    for_parts = list(parts)
    suffix = torch.zeros_like(parts[0])
    for k in reversed(range(len(parts))):
        if k > 0 or not release:
            suffix = suffix + alpha[k]
        slope = before[k] * suffix
        for_parts[k] = gradient * (slope + alpha[0] if release else slope)
        suffix = suffix * parts[k]
    for_projections = torch.cat(for_parts, dim=-1)
    if not with_order_weights:
        return for_projections, None
    hidden = [previous * part for previous, part in zip(before, parts, strict=True)]
    if release:
        hidden[0] = sum(parts[1:], start=parts[0])
    wide = torch.promote_types(gradient.dtype, torch.float32)
    sums = [(gradient.to(wide) * h.to(wide)).sum(dim=(1, 2)) for h in hidden]
    return for_projections, torch.stack(sums, dim=1).to(order_weights.dtype)


def score(
    scores: Tensor, labels: Tensor, counts: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """How well the scores of each model meet its labels.

    Args:
        scores: ``[models, rows, width]``; the first ``num_classes`` are the classes'.
        labels: ``[models, rows]``; a row of a negative one does not count.
        counts: How many rows of each model count, ``[models]``.
        num_classes: How many classes there are.

    Returns:
        The mean cross-entropy ``[models]``, the fraction of rows whose own class scores
        highest ``[models]`` in float64, and the gradient of the cross-entropy for the scores.
    """
    given = scores[..., :num_classes]
    log_chances = given.log_softmax(dim=-1)
    counted = labels >= 0
    own = labels.clamp(min=0)
    losses = -log_chances.gather(-1, own.unsqueeze(-1)).squeeze(-1)
    losses = losses.masked_fill(~counted, 0.0).sum(dim=1) / counts
    right = (given.argmax(dim=-1) == labels) & counted
    slope = log_chances.exp() - functional.one_hot(own, num_classes).to(scores.dtype)
    slope = slope / counts.view(-1, 1, 1)
    gradient = torch.zeros_like(scores)
    gradient[..., :num_classes] = slope.masked_fill(~counted.unsqueeze(-1), 0.0)
    return losses, right.sum(dim=1) / counts.double(), gradient


def _orders(projections: Tensor, order_weights: Tensor) -> list[Tensor]:
    return list(projections.chunk(order_weights.size(1), dim=-1))
