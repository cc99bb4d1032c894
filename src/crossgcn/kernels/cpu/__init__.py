"""The kernels of :mod:`crossgcn.kernels.plain` for the CPU, compiled by Numba.

They pass over memory once, where PyTorch passes once per operation. Sparse products use PyTorch's
embedding bag, which is faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu.loops import ROWS_PER_CHUNK, call
from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.plain import row_sums, score

__all__ = [
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


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()
