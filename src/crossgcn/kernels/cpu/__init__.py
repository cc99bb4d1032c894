"""The kernels of :mod:`crossgcn.kernels.plain` for the CPU, compiled by Numba.

They pass over memory once, where PyTorch passes once per operation. Sparse products use PyTorch's
embedding bag, which is faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.kernels.cpu import attention as attention_loops
from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu.loops import ROWS_PER_CHUNK, call
from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.pattern import Pattern
from crossgcn.kernels.plain import row_sums, score

__all__ = [
    "attend",
    "attend_backward",
    "cross",
    "cross_backward",
    "drop",
    "drop_backward",
    "row_sums",
    "score",
]


def drop(x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool) -> Tensor:
    """See :func:`crossgcn.kernels.plain.drop`; the loop of the gradient also computes this."""
    return drop_backward(x, x, starts, draws, p, activate)


def drop_backward(
    gradient: Tensor, x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    """See :func:`crossgcn.kernels.plain.drop_backward`."""
    gradient = gradient.contiguous()
    out, taken = torch.empty_like(gradient), _array(gradient).reshape(-1)
    models = draws.seeds.numel()
    each = taken.size // models
    call(
        cpu_loops.drop,
        taken.size,
        taken,
        _array(x.contiguous()).reshape(-1) if activate else taken,
        _array(out).reshape(-1),
        np.array([each * model for model in range(models + 1)])
        if starts is None
        else _array(starts),
        _array(draws.seeds),
        draws.step.item(),
        draws.site,
        np.uint32(threshold(p)),
        np.float32(1.0 / (1.0 - p)),
        activate,
    )
    return out


def cross(projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
    """See :func:`crossgcn.kernels.plain.cross`."""
    projections = projections.contiguous()
    models, rows, width = projections.shape
    out = projections.new_empty(models, rows, width // order_weights.size(1))
    call(
        cpu_loops.cross,
        projections.numel(),
        _array(projections),
        _array(order_weights.to(projections.dtype)),
        release,
        _array(out),
    )
    return out


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """See :func:`crossgcn.kernels.plain.cross_backward`."""
    gradient, projections = gradient.contiguous(), projections.contiguous()
    models, rows, width = projections.shape
    order = order_weights.size(1)
    chunks = -(-rows // ROWS_PER_CHUNK)
    grad_projections = torch.empty_like(projections)
    sums = np.zeros((models, chunks, order, width // order), dtype=np.float32)
    call(
        cpu_loops.cross_backward,
        projections.numel(),
        _array(gradient),
        _array(projections),
        _array(order_weights.to(projections.dtype)),
        release,
        _array(grad_projections),
        sums if with_order_weights else sums[:, :, :0],
    )
    if not with_order_weights:
        return grad_projections, None
    totals = sums.sum(axis=(1, 3), dtype=np.float64)
    return grad_projections, torch.from_numpy(totals).to(order_weights.dtype)


def attend(
    pattern: Pattern, values: Tensor, x: Tensor, own: Tensor, attention: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """See :func:`crossgcn.kernels.plain.attend`; also return the weight of each edge and head."""
    x = x.contiguous()
    shares = x.new_empty(pattern.columns.numel(), attention.size(0))
    out = x.new_empty(pattern.num_rows, x.size(1))
    edges, rows = (_array(pattern.row_offsets), _array(pattern.columns)), _array(x)
    attention_loops.score_edges(
        *edges,
        rows,
        _array(own.contiguous()),
        _array(attention).reshape(-1),
        np.float32(slope),
        _array(shares),
    )
    shares.exp_()
    attention_loops.average(*edges, _array(values.to(x.dtype)), rows, _array(shares), _array(out))
    return out, shares


def attend_backward(
    gradient: Tensor,
    pattern: Pattern,
    x: Tensor,
    own: Tensor,
    attention: Tensor,
    slope: float,
    shares: Tensor,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of ``x``, ``own`` and ``attention``."""
    x, own = x.contiguous(), own.contiguous()
    grad_x, grad_own = torch.zeros_like(x), torch.zeros_like(own)
    grad_attention = torch.zeros(attention.shape, dtype=torch.float64)
    attention_loops.attend_backward(
        _array(gradient.contiguous()),
        _array(pattern.row_offsets),
        _array(pattern.columns),
        _array(x),
        _array(own),
        _array(attention).reshape(-1),
        np.float32(slope),
        *map(_array, (shares, out, grad_x, grad_own)),
        _array(grad_attention).reshape(-1),
    )
    return grad_x, grad_own, grad_attention.to(attention.dtype)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()
