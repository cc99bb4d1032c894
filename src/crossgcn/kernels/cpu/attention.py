"""Loops of :func:`crossgcn.kernels.plain.attend` and of its gradient, compiled by Numba.

Indices are unsigned, which avoids Numba's test for negative ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossgcn.kernels.cpu.loops import _jit

_FAST = {"contract", "reassoc", "nsz"}


@_jit(error_model="numpy", fastmath=_FAST)
def score_edges(
    row_offsets: Any, columns: Any, x: Any, own: Any, attention: Any, slope: Any, scores: Any
) -> None:
    """Fill the logit of each edge and head, minus the highest of its row."""
    heads = scores.shape[1]
    width = x.shape[1] // heads
    highest = np.empty(heads, dtype=np.float32)
    for row in range(row_offsets.size - 1):
        first, last = np.uint64(row_offsets[row]), np.uint64(row_offsets[row + 1])
        highest[:] = -np.inf
        for k in range(first, last):
            j = np.uint64(columns[k])
            for head in range(heads):
                total = np.float32(0.0)
                for c in range(head * width, head * width + width):
                    both = x[j, c] + own[row, c]
                    total += attention[c] * max(both, slope * both)
                scores[k, head] = total
                highest[head] = max(highest[head], total)
        for k in range(first, last):
            for head in range(heads):
                scores[k, head] -= highest[head]


@_jit(error_model="numpy", fastmath=_FAST)
def average(row_offsets: Any, columns: Any, values: Any, x: Any, shares: Any, out: Any) -> None:
    """Divide the shares of each row by their sum, in place, and fill the averages."""
    heads = shares.shape[1]
    width = x.shape[1] // heads
    nothing, one = np.float32(0.0), np.float32(1.0)
    whole = np.empty(heads, dtype=np.float32)
    for row in range(out.shape[0]):
        first, last = np.uint64(row_offsets[row]), np.uint64(row_offsets[row + 1])
        whole[:] = nothing
        for k in range(first, last):
            for head in range(heads):
                whole[head] += shares[k, head] * abs(values[k])
        for head in range(heads):
            whole[head] = one / whole[head] if whole[head] != nothing else one
        out[row] = nothing
        for k in range(first, last):
            j = np.uint64(columns[k])
            for head in range(heads):
                share = shares[k, head] * values[k] * whole[head]
                shares[k, head] = share
                for c in range(head * width, head * width + width):
                    out[row, c] += share * x[j, c]


@_jit(error_model="numpy", fastmath=_FAST)
def attend_backward(
    gradient: Any,
    row_offsets: Any,
    columns: Any,
    x: Any,
    own: Any,
    attention: Any,
    slope: Any,
    shares: Any,
    out: Any,
    grad_x: Any,
    grad_own: Any,
    grad_attention: Any,
) -> None:
    """Add the gradients to three arrays of zeros; that of ``attention`` is in float64.

    The logit of an edge has the gradient ``share * g @ x_j - abs(share) * g @ z_i``.
    """
    channels, heads = x.shape[1], shares.shape[1]
    width = channels // heads
    nothing, one = np.float32(0.0), np.float32(1.0)
    mean, of_row = np.empty(heads, dtype=np.float32), np.empty(channels, dtype=np.float32)
    for row in range(out.shape[0]):
        of_row[:] = nothing
        for head in range(heads):
            mean[head] = nothing
            for c in range(head * width, head * width + width):
                mean[head] += gradient[row, c] * out[row, c]
        for k in range(np.uint64(row_offsets[row]), np.uint64(row_offsets[row + 1])):
            j = np.uint64(columns[k])
            for head in range(heads):
                share, alike = shares[k, head], nothing
                for c in range(head * width, head * width + width):
                    alike += gradient[row, c] * x[j, c]
                logit = share * alike - abs(share) * mean[head]
                for c in range(head * width, head * width + width):
                    both = x[j, c] + own[row, c]
                    rate = logit * (one if both > nothing else slope)
                    of_row[c] += rate * both
                    through = rate * attention[c]
                    grad_x[j, c] += share * gradient[row, c] + through
                    grad_own[row, c] += through
        for c in range(channels):
            grad_attention[c] += of_row[c]
