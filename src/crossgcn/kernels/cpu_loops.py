"""Loops of the CPU kernels, compiled by Numba; they fill arrays that the caller gives.

Each is compiled for one thread and for several. The number of threads does not change results:
sums over rows are made per chunk of rows, and the chunks are added in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from platformdirs import user_cache_path

ROWS_PER_CHUNK = 64
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_FIFTEEN, _SIXTEEN = np.uint32(15), np.uint32(16)
_SHARED_FROM = 1 << 18
"""Number of entries from which several threads are used."""

Kernel = tuple[Callable[..., None], Callable[..., None]]


def call(kernel: Kernel, size: int, *arguments: Any) -> None:
    """Run a kernel on one thread or, if the work is large, on PyTorch's number of threads."""
    serial, shared = kernel
    threads = torch.get_num_threads()
    if threads == 1 or size < _SHARED_FROM:
        serial(*arguments)
        return
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
    shared(*arguments)


def jit(**settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile with Numba, with a cache on disk where that is possible.

    Numba unpickles its cache, so it lies in the user's own cache folder, or in the one that
    ``NUMBA_CACHE_DIR`` names; if that cannot be written, beside the code.
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


@compiled
def drop(
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
    """Mask and scale ``values``; with ``activate``, also zero it where ``x`` is not positive."""
    zero = np.float32(0.0)
    key = _key(seed, step, site)
    stride = np.uint32(key | np.uint32(1))
    if activate:
        for i in numba.prange(values.size):
            bits = _mix(np.uint32(np.uint32(i) * stride + key))
            kept = values[i] * scale if bits >= threshold else zero
            out[i] = zero if x[i] <= zero else kept
    else:
        for i in numba.prange(values.size):
            bits = _mix(np.uint32(np.uint32(i) * stride + key))
            out[i] = values[i] * scale if bits >= threshold else zero


@compiled
def cross(projections: Any, order_weights: Any, release: Any, out: Any) -> None:
    """See :func:`crossgcn.kernels.reference.cross`."""
    rows, channels = out.shape
    order = order_weights.size
    direct = order_weights[0] if release else np.float32(0.0)
    for chunk in numba.prange((rows + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        hidden = np.empty(channels, dtype=out.dtype)
        first = chunk * ROWS_PER_CHUNK
        for row in range(first, min(first + ROWS_PER_CHUNK, rows)):
            given, result = projections[row], out[row]
            part = given[:channels]
            if order == 2:
                _pair(part, given[channels:], order_weights[0], order_weights[1], direct, result)
                continue
            _start(part, order_weights[0], hidden, result)
            for k in range(1, order):
                part = given[k * channels : (k + 1) * channels]
                _multiply_on(part, order_weights[k], hidden, result)
                if release:
                    add_scaled(part, order_weights[0], result)


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

    ``sums`` are the gradients of the order weights for each chunk and channel,
    ``[chunks, order, channels]``; of ``[chunks, 0, channels]``, none are computed.
    """
    rows, channels = gradient.shape
    order = order_weights.size
    with_sums = sums.shape[1] > 0
    zero = np.float32(0.0)
    direct = order_weights[0] if release else zero
    for chunk in numba.prange((rows + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        suffix = np.empty(channels, dtype=gradient.dtype)
        first = chunk * ROWS_PER_CHUNK
        for row in range(first, min(first + ROWS_PER_CHUNK, rows)):
            g = gradient[row]
            given, result = projections[row], grad_projections[row]
            if order == 2:
                p, q = given[:channels], given[channels:]
                _pair_backward(
                    *(g, p, q, order_weights[0], order_weights[1], direct),
                    *(result[:channels], result[channels:]),
                )
                if with_sums:
                    _add_product(g, p, sums[chunk, 0])
                    _add_triple(g, p, q, sums[chunk, 1])
                if with_sums and release:
                    _add_product(g, q, sums[chunk, 0])
                continue
            result[:channels] = 1.0
            for k in range(1, order):
                before = slice((k - 1) * channels, k * channels)
                _product(given[before], result[before], result[k * channels :])
            suffix[:] = 0.0
            for k in range(order - 1, -1, -1):
                here = slice(k * channels, (k + 1) * channels)
                if with_sums and not (release and k == 0):
                    _add_triple(g, result[here], given[here], sums[chunk, k])
                if with_sums and release:
                    _add_product(g, given[here], sums[chunk, 0])
                alpha = zero if release and k == 0 else order_weights[k]
                _order_backward(g, alpha, direct, suffix, result[here])
                if k > 0:
                    _scale(given[here], suffix)


# Loops over channels, simple enough for the compiler to vectorise. In the authors' release the
# projections after the first are added, too, with the weight ``direct``.


@jit()
def _pair(p: Any, q: Any, first: Any, second: Any, direct: Any, result: Any) -> None:
    for e in range(result.size):
        result[e] = first * p[e] + direct * q[e] + second * (p[e] * q[e])


@jit()
def _pair_backward(
    g: Any, p: Any, q: Any, first: Any, second: Any, direct: Any, grad_p: Any, grad_q: Any
) -> None:
    for e in range(g.size):
        grad_p[e] = g[e] * (first + second * q[e])
        grad_q[e] = g[e] * (direct + second * p[e])


@jit()
def _start(part: Any, alpha: Any, hidden: Any, result: Any) -> None:
    for e in range(hidden.size):
        hidden[e] = part[e]
        result[e] = alpha * part[e]


@jit()
def _multiply_on(part: Any, alpha: Any, hidden: Any, result: Any) -> None:
    for e in range(hidden.size):
        hidden[e] *= part[e]
        result[e] += alpha * hidden[e]


@jit()
def add_scaled(part: Any, alpha: Any, result: Any) -> None:
    """Add a multiple of a vector to another."""
    for e in range(result.size):
        result[e] += alpha * part[e]


@jit()
def _product(left: Any, right: Any, result: Any) -> None:
    for e in range(left.size):
        result[e] = left[e] * right[e]


@jit()
def _add_product(left: Any, right: Any, total: Any) -> None:
    for e in range(total.size):
        total[e] += left[e] * right[e]


@jit()
def _add_triple(first: Any, second: Any, third: Any, total: Any) -> None:
    for e in range(total.size):
        total[e] += first[e] * second[e] * third[e]


@jit()
def _order_backward(gradient: Any, alpha: Any, direct: Any, suffix: Any, result: Any) -> None:
    for e in range(suffix.size):
        suffix[e] += alpha
        result[e] = gradient[e] * (result[e] * suffix[e] + direct)


@jit()
def _scale(part: Any, suffix: Any) -> None:
    for e in range(suffix.size):
        suffix[e] *= part[e]


@compiled
def row_sums(row_offsets: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """Multiply a sparse and a dense matrix."""
    for row in numba.prange(out.shape[0]):
        total = out[row]
        total[:] = 0.0
        for k in range(row_offsets[row], row_offsets[row + 1]):
            add_scaled(dense[columns[k]], values[k], total)


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


@jit()
def add_bias(bias: Any, out: Any) -> None:
    """Add a bias to every row, in a third of NumPy's time."""
    for row in range(out.shape[0]):
        add_scaled(bias, np.float32(1.0), out[row])


@jit()
def column_sums(matrix: Any, out: Any) -> None:
    """Sum all rows, in a quarter of NumPy's time."""
    out[:] = 0.0
    for row in range(matrix.shape[0]):
        add_scaled(matrix[row], np.float32(1.0), out)


@jit(error_model="numpy")
def cross_entropy(scores: Any, labels: Any, gradient: Any) -> tuple[float, int]:
    """Return mean cross-entropy and number of correct rows; fill the gradient."""
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
    """Make one step of Adam; the step size includes the first moment's correction."""
    old, new = np.float32(0.9), np.float32(0.1)
    old_square, new_square = np.float32(0.999), np.float32(0.001)
    for i in numba.prange(weight.size):
        g = gradient[i] + weight_decay * weight[i]
        m = old * mean[i] + new * g
        s = old_square * square[i] + new_square * (g * g)
        mean[i], square[i] = m, s
        weight[i] -= step_size * m / (np.sqrt(s) * correction + np.float32(1e-8))
