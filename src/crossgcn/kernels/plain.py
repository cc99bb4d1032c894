"""The kernels in plain PyTorch, for any device and precision.

They define what the compiled kernels of :mod:`crossgcn.kernels.cpu` and
:mod:`crossgcn.kernels.gpu` compute; tests compare them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.pattern import Pattern


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Multiply a sparse matrix by a dense one ``[columns, width]``, summing in storage order."""
    if dense.is_cuda:
        matrix = torch.sparse_csr_tensor(
            pattern.row_offsets,
            pattern.columns,
            values.to(dense.dtype),
            (pattern.num_rows, dense.size(0)),
            check_invariants=False,
        )
        return matrix @ dense
    # An embedding bag sums row by row in storage order, and is faster than torch.sparse.
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
        x: Entries of all models, one model after the other; any shape.
        starts: Offsets of each model's entries, ``[models + 1]``; ``None`` if all models have
            the same number.
        activate: Apply a ReLU first.
    """
    kept = keep(draws, starts, x.numel(), p).view_as(x).bool()
    return ((torch.relu(x) if activate else x) * (1.0 / (1.0 - p))).masked_fill(~kept, 0.0)


def drop_backward(
    gradient: Tensor, x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    """Compute the gradient of :func:`drop` with respect to ``x``."""
    dropped = ~keep(draws, starts, x.numel(), p).view_as(x).bool()
    if activate:
        dropped = dropped | (x <= 0)
    return (gradient * (1.0 / (1.0 - p))).masked_fill(dropped, 0.0)


def with_one_first(order_weights: Tensor) -> Tensor:
    r"""Return order weights ``[..., order]`` with :math:`\alpha_1 = 1`."""
    first = torch.ones_like(order_weights[..., :1])
    return torch.cat([first, order_weights[..., 1:]], dim=-1)


def cross(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor:
    r"""Multiply up projections and sum the orders.

    .. math:: \mathbf{z} = \sum_k \alpha_k \mathbf{h}^k, \qquad
        \mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}

    Args:
        projections: ``[models, rows, order * channels]``, one order after the other.
        order_weights: :math:`\alpha`, ``[models, order]``.
        release: Use the sum of all projections as :math:`\mathbf{h}^1` in the sum (NOTE[D2]).
        first_is_one: Use 1 as :math:`\alpha_1`, whatever it is given as.
    """
    if first_is_one:
        order_weights = with_one_first(order_weights)
    parts = projections.chunk(order_weights.size(1), dim=-1)
    alpha = order_weights.to(projections.dtype)[..., None, None].unbind(1)
    hidden = multiply_up(parts)
    if release:
        hidden[0] = sum(parts[1:], start=parts[0])
    out = alpha[0] * hidden[0]
    for weight, crossed in zip(alpha[1:], hidden[1:], strict=True):
        out = out + weight * crossed
    return out


def multiply_up(parts: Sequence[Tensor]) -> list[Tensor]:
    r"""Return :math:`\mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}` for every order."""
    hidden = [parts[0]]
    for part in parts[1:]:
        hidden.append(part * hidden[-1])
    return hidden


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
    first_is_one: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Compute the gradients of :func:`cross`, recomputing its products.

    .. math:: \frac{\partial\mathbf{z}}{\partial\mathbf{p}^j}
        = \mathbf{h}^{j-1} \odot \mathbf{s}^j, \qquad
        \mathbf{s}^j = \alpha_j + \mathbf{p}^{j+1} \odot \mathbf{s}^{j+1}

    The second is that of the order weights, ``None`` unless ``with_order_weights``.
    """
    if first_is_one:
        order_weights = with_one_first(order_weights)
    parts = projections.chunk(order_weights.size(1), dim=-1)
    alpha = order_weights.to(projections.dtype)[..., None, None].unbind(1)
    hidden = multiply_up(parts)
    before = [torch.ones_like(parts[0]), *hidden[:-1]]
    grad_parts = list(parts)
    suffix = torch.zeros_like(parts[0])
    for k in reversed(range(len(parts))):
        if k > 0 or not release:
            suffix = suffix + alpha[k]
        slope = before[k] * suffix
        grad_parts[k] = gradient * (slope + alpha[0] if release else slope)
        suffix = suffix * parts[k]
    grad_projections = torch.cat(grad_parts, dim=-1)
    if not with_order_weights:
        return grad_projections, None
    if release:
        hidden[0] = sum(parts[1:], start=parts[0])
    wide = torch.promote_types(gradient.dtype, torch.float32)
    sums = [(gradient.to(wide) * h.to(wide)).sum(dim=(1, 2)) for h in hidden]
    if first_is_one:
        sums[0] = torch.zeros_like(sums[0])
    return grad_projections, torch.stack(sums, dim=1).to(order_weights.dtype)


def score(
    scores: Tensor, labels: Tensor, counts: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute cross-entropy, accuracy and gradient of each model.

    Args:
        scores: ``[models, rows, width]``; the first ``num_classes`` columns are class scores.
        labels: ``[models, rows]``; rows of a negative label do not count.
        counts: Number of rows of each model that count, ``[models]``.

    Returns:
        The mean cross-entropy ``[models]``, the accuracy ``[models]`` in float64, and the
        gradient of the cross-entropy with respect to the scores.
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
