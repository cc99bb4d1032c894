"""Loops for a first layer with very many inputs, compiled by Numba; arrays in, arrays filled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from crossgcn.kernels.cpu_loops import _compiled, _mix

__all__ = ["decay_alone", "drop_ordered"]

_BLOCK = 1024


@_compiled
def drop_ordered(
    values: Any, order: Any, out: Any, seed: Any, step: Any, least: Any, scale: Any
) -> None:
    """Drop entries as :func:`~crossgcn.kernels.cpu_loops.drop` does, in another order.

    Args:
        values: What may be dropped.
        order: The position of each where it is dropped in its own order.
        out: What is left of them.
        seed: Of the model.
        step: Of its training.
        least: The random number from which an entry is kept.
        scale: What those that are kept are multiplied by.
    """
    nothing = np.float32(0.0)
    key = _mix(np.uint32(seed))
    key = _mix(np.uint32(key + np.uint32(step)))
    key = _mix(key)
    stride = np.uint32(key | np.uint32(1))
    for k in numba.prange(values.size):
        bits = _mix(np.uint32(order[k] * stride + key))
        out[k] = values[k] * scale if bits >= least else nothing


@_compiled
def decay_alone(weight: Any, step_sizes: Any, corrections: Any, weight_decay: Any) -> None:
    """Steps of Adam on weights whose gradient is their decay, all of them at once.

    Args:
        weight: Flat; its running means are zero before.
        step_sizes: Of each step, with the first moment's correction.
        corrections: Of each step, the second moment's.
        weight_decay: λ.
    """
    old, new = np.float32(0.9), np.float32(0.1)
    old_square, new_square = np.float32(0.999), np.float32(0.001)
    for block in numba.prange((weight.size + _BLOCK - 1) // _BLOCK):
        own = weight[block * _BLOCK : min((block + 1) * _BLOCK, weight.size)]
        mean = np.zeros(own.size, dtype=np.float32)
        square = np.zeros(own.size, dtype=np.float32)
        for step in range(step_sizes.size):
            size, correction = step_sizes[step], corrections[step]
            for i in range(own.size):
                g = weight_decay * own[i]
                m = old * mean[i] + new * g
                s = old_square * square[i] + new_square * (g * g)
                mean[i], square[i] = m, s
                own[i] -= size * m / (np.sqrt(s) * correction + np.float32(1e-8))
