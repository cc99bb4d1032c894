"""Loops of the CPU kernels, compiled by Numba; they write into arrays of the caller.

Each is compiled for one thread and for several. The number of threads does not change results:
rows are summed in chunks, and the sums of the chunks are added in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from platformdirs import user_cache_path

from crossgcn.kernels.reference import threshold

ROWS_PER_CHUNK = 64
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_FIFTEEN, _SIXTEEN = np.uint32(15), np.uint32(16)
_PARALLEL_FROM = 1 << 18
"""Number of entries from which several threads are used."""

Kernel = tuple[Callable[..., None], Callable[..., None]]


def call(kernel: Kernel, size: int, *arguments: Any) -> None:
    """Run a kernel on one thread or, if the work is large, on PyTorch's number of threads."""
    serial, parallel = kernel
    threads = torch.get_num_threads()
    if threads == 1 or size < _PARALLEL_FROM:
        serial(*arguments)
        return
    limit = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, limit))
    parallel(*arguments)


def jit(**settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile with Numba, with a cache on disk if possible.

    Numba unpickles its cache, so the cache must be private: it is in the user's cache folder or
    in ``NUMBA_CACHE_DIR``. If that folder cannot be written, Numba puts it beside the code.
    """

    def compile_one(function: Callable[..., Any]) -> Callable[..., Any]:
        config: Any = numba.config
        chosen = config.CACHE_DIR
        config.CACHE_DIR = chosen or str(user_cache_path("crossgcn") / "numba")
        try:
            return numba.njit(cache=True, nogil=True, **settings)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # no folder can be written
            return numba.njit(nogil=True, **settings)(function)  # type: ignore[no-any-return]
        finally:
            config.CACHE_DIR = chosen

    return compile_one


def compiled(function: Callable[..., None]) -> Kernel:
    """Compile a loop for one thread and for several; see :func:`call`."""
    serial = jit(error_model="numpy")
    return serial(function), jit(error_model="numpy", parallel=True)(function)


@jit(inline="always")
def _mix(bits: Any) -> Any:
    bits = np.uint32(bits ^ (bits >> _SIXTEEN))
    bits = np.uint32(bits * _FIRST)
    bits = np.uint32(bits ^ (bits >> _FIFTEEN))
    bits = np.uint32(bits * _SECOND)
    return np.uint32(bits ^ (bits >> _SIXTEEN))


@jit(inline="always")
def _key(seed: Any, step: Any, site: Any) -> Any:
    key = _mix(np.uint32(seed))
    key = _mix(np.uint32(key + np.uint32(step)))
    return _mix(np.uint32(key + np.uint32(site)))


def drop(
    values: Any,
    x: Any,
    out: Any,
    key: tuple[int, int],
    p: float,
    *,
    site: int = 0,
    activate: bool = False,
) -> None:
    """Apply dropout to ``values``; ``activate`` also zeroes entries where ``x`` is not positive.

    Args:
        values: A vector, as ``x`` and the output ``out``.
        key: Seed and step, which select the dropped entries together with ``site``.
        p: Probability of dropping an entry.
    """
    least, scale = np.uint32(threshold(p)), np.float32(1.0 / (1.0 - p))
    call(_drop, out.size, values, x, out, *key, site, least, scale, activate)


@compiled
def _drop(
    values: Any,
    x: Any,
    out: Any,
    seed: Any,
    step: Any,
    site: Any,
    threshold: Any,
    scale: Any,
    activate: Any,
) -> None:
    zero = np.float32(0.0)
    key = _key(seed, step, site)
    stride = np.uint32(key | np.uint32(1))
    for i in numba.prange(values.size):
        bits = _mix(np.uint32(np.uint32(i) * stride + key))
        kept = values[i] * scale if bits >= threshold else zero
        out[i] = zero if activate and x[i] <= zero else kept


@compiled
def cross(projections: Any, order_weights: Any, release: Any, out: Any) -> None:
    """See :func:`crossgcn.kernels.reference.cross`."""
    (rows, channels), order = out.shape, order_weights.size
    direct = order_weights[0] if release else np.float32(0.0)
    parts = projections.reshape((rows, order, channels))
    for chunk in numba.prange((rows + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        hidden = np.empty(channels, dtype=out.dtype)
        first = chunk * ROWS_PER_CHUNK
        for row in range(first, min(first + ROWS_PER_CHUNK, rows)):
            for e in range(channels):
                hidden[e] = parts[row, 0, e]
                out[row, e] = order_weights[0] * hidden[e]
            for k in range(1, order):
                for e in range(channels):
                    hidden[e] *= parts[row, k, e]
                    out[row, e] += direct * parts[row, k, e]
                    out[row, e] += order_weights[k] * hidden[e]


@compiled
def cross_backward(
    gradient: Any,
    projections: Any,
    order_weights: Any,
    release: Any,
    grad_projections: Any,
    sums: Any,
) -> None:
    r"""Compute the gradients of :func:`cross`, recomputing its products.

    .. math:: \frac{\partial\mathbf{z}}{\partial\mathbf{p}^j}
        = \mathbf{h}^{j-1} \odot \mathbf{s}^j, \qquad
        \mathbf{s}^j = \alpha_j + \mathbf{p}^{j+1} \odot \mathbf{s}^{j+1}

    The gradients of the order weights of each chunk and channel are added to ``sums``,
    ``[chunks, order, channels]``, except those of the first order, which is never trained. They
    are not computed if ``sums`` is ``[chunks, 0, channels]``.
    """
    (rows, channels), order = gradient.shape, order_weights.size
    with_sums, zero = sums.shape[1] > 0, np.float32(0.0)
    direct = order_weights[0] if release else zero
    parts = projections.reshape((rows, order, channels))
    result = grad_projections.reshape((rows, order, channels))
    for chunk in numba.prange((rows + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        suffix = np.empty(channels, dtype=gradient.dtype)
        first = chunk * ROWS_PER_CHUNK
        for row in range(first, min(first + ROWS_PER_CHUNK, rows)):
            for e in range(channels):
                suffix[e], result[row, 0, e] = 0.0, 1.0
            for k in range(1, order):
                for e in range(channels):
                    result[row, k, e] = parts[row, k - 1, e] * result[row, k - 1, e]
            for k in range(order - 1, -1, -1):
                alpha = zero if release and k == 0 else order_weights[k]
                if with_sums and k > 0:
                    for e in range(channels):
                        sums[chunk, k, e] += gradient[row, e] * result[row, k, e] * parts[row, k, e]
                for e in range(channels):
                    suffix[e] += alpha
                    result[row, k, e] = gradient[row, e] * (result[row, k, e] * suffix[e] + direct)
                    suffix[e] *= parts[row, k, e]


@compiled
def row_sums(row_offsets: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """Multiply a sparse and a dense matrix."""
    rows, width = out.shape
    for row in numba.prange(rows):
        for e in range(width):
            out[row, e] = 0.0
        for k in range(row_offsets[row], row_offsets[row + 1]):
            column, value = columns[k], values[k]
            for e in range(width):
                out[row, e] += value * dense[column, e]


@jit()
def compact(
    row_offsets: Any,
    columns: Any,
    values: Any,
    order: Any,
    kept_offsets: Any,
    kept_columns: Any,
    kept_values: Any,
) -> None:
    """Copy the entries that are not zero; entry k is ``values[order[k]]``.

    Indices are unsigned, which avoids Numba's test for negative ones.
    """
    count, one, none = np.uint64(0), np.uint64(1), np.uint64(0)
    ordered = order.size > 0
    for row in range(row_offsets.size - 1):
        kept_offsets[row] = count
        for k in range(np.uint64(row_offsets[row]), np.uint64(row_offsets[row + 1])):
            value = values[order[k]] if ordered else values[k]
            kept_columns[count] = columns[k]
            kept_values[count] = value
            count += one if value != 0.0 else none
    kept_offsets[row_offsets.size - 1] = count


@jit(error_model="numpy")
def cross_entropy(scores: Any, labels: Any, gradient: Any) -> tuple[float, int]:
    """Return mean cross-entropy and number of correct rows; write the gradient."""
    rows, classes = scores.shape
    loss, num_correct = 0.0, 0
    for row in range(rows):
        logits = scores[row]
        best = 0
        for c in range(1, classes):
            if logits[c] > logits[best]:
                best = c
        num_correct += best == labels[row]
        total = np.float32(0.0)
        for c in range(classes):
            gradient[row, c] = np.exp(logits[c] - logits[best])
            total += gradient[row, c]
        loss += np.log(total) - (logits[labels[row]] - logits[best])
        for c in range(classes):
            gradient[row, c] /= total * np.float32(rows)
        gradient[row, labels[row]] -= np.float32(1.0) / np.float32(rows)
    return loss / rows, num_correct


@compiled
def adam(
    weight: Any,
    gradient: Any,
    mean: Any,
    square: Any,
    step_size: Any,
    correction: Any,
    weight_decay: Any,
) -> None:
    """Make one step of Adam; ``step_size`` includes the bias correction of the first moment."""
    old, new = np.float32(0.9), np.float32(0.1)
    old_square, new_square = np.float32(0.999), np.float32(0.001)
    for i in numba.prange(weight.size):
        g = gradient[i] + weight_decay * weight[i]
        m = old * mean[i] + new * g
        s = old_square * square[i] + new_square * (g * g)
        mean[i], square[i] = m, s
        weight[i] -= step_size * m / (np.sqrt(s) * correction + np.float32(1e-8))
