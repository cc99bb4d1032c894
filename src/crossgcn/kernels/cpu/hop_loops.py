"""The loops of a training step of cross-hops: crosses with a weight per unit, and their loss.

Every rounding is the one of PyTorch's own operations, one after the other.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from crossgcn.kernels.cpu.loops import _compiled, _jit


@_compiled
def cross_units(projections: Any, gates: Any, out: Any) -> None:
    """Multiply up projections ``[rows, order * units]`` and sum the orders.

    ``gates [order - 1, units]`` are the weights of the orders from the second on.
    """
    rows, units = out.shape
    order = gates.shape[0] + 1
    for row in numba.prange(rows):
        given, result = projections[row], out[row]
        if order == 2:
            _pair_of_units(given[:units], given[units:], gates[0], result)
            continue
        hidden = given[:units].copy()
        result[:] = hidden
        for k in range(1, order):
            _multiply_units(given[k * units : (k + 1) * units], gates[k - 1], hidden, result)


@_compiled
def cross_units_backward(
    gradient: Any, projections: Any, gates: Any, grad_projections: Any, grad_gates: Any
) -> None:
    """Compute the gradients of :func:`cross_units`.

    Args:
        gradient: Of the output, ``[bags, rows, units of a bag]``.
        grad_gates: For each row, ``[order - 1, rows, units]``.
    """
    bags, rows, width = gradient.shape
    units = bags * width
    order = gates.shape[0] + 1
    for row in numba.prange(rows):
        given, result = projections[row], grad_projections[row]
        g = np.empty(units, dtype=gradient.dtype)
        for bag in range(bags):
            g[bag * width : (bag + 1) * width] = gradient[bag, row]
        if order == 2:
            _pair_of_units_slopes(
                g,
                given[:units],
                given[units:],
                gates[0],
                result[:units],
                result[units:],
                grad_gates[0, row],
            )
            continue
        hidden = np.empty((order, units), dtype=gradient.dtype)
        hidden[0] = given[:units]
        for k in range(1, order):
            _multiply(given[k * units : (k + 1) * units], hidden[k - 1], hidden[k])
            _multiply(g, hidden[k], grad_gates[k - 1, row])
        carried = np.zeros(units, dtype=gradient.dtype)
        for k in range(order - 1, 0, -1):
            here = slice(k * units, (k + 1) * units)
            _unit_slopes(
                g, gates[k - 1], given[here], hidden[k - 1], k < order - 1, carried, result[here]
            )
        for e in range(units):
            result[e] = g[e] + carried[e]


@_jit()
def _pair_of_units(p: Any, q: Any, gate: Any, result: Any) -> None:
    for e in range(result.size):
        result[e] = p[e] + gate[e] * (q[e] * p[e])


@_jit()
def _pair_of_units_slopes(
    g: Any, p: Any, q: Any, gate: Any, grad_p: Any, grad_q: Any, grad_gate: Any
) -> None:
    for e in range(g.size):
        crossed = g[e] * gate[e]
        grad_p[e] = g[e] + crossed * q[e]
        grad_q[e] = crossed * p[e]
        grad_gate[e] = g[e] * (q[e] * p[e])


@_jit()
def _multiply(left: Any, right: Any, result: Any) -> None:
    for e in range(result.size):
        result[e] = left[e] * right[e]


@_jit()
def _multiply_units(part: Any, gate: Any, hidden: Any, result: Any) -> None:
    for e in range(hidden.size):
        hidden[e] = part[e] * hidden[e]
        result[e] += gate[e] * hidden[e]


@_jit()
def _unit_slopes(
    g: Any, gate: Any, part: Any, before: Any, adds: Any, carried: Any, result: Any
) -> None:
    for e in range(g.size):
        slope = g[e] * gate[e]
        if adds:
            slope += carried[e]
        result[e] = slope * before[e]
        carried[e] = slope * part[e]


@_jit(error_model="numpy")
def score_bags(
    log_chances: Any,
    chances: Any,
    labels: Any,
    in_bag: Any,
    counts: Any,
    slope: Any,
    losses: Any,
    right: Any,
) -> None:
    """Compute the cross-entropy of each row, its gradient, and the correct rows of each bag.

    Args:
        log_chances: Logarithms of ``chances``, ``[bags, rows, classes]``.
        labels: ``[rows]``.
        in_bag: Which rows count, ``[rows, bags]``.
        counts: By which the gradient is divided, ``[bags]``.
        slope: Filled with the gradient for the scores.
        losses: Filled, ``[bags, rows]``.
        right: Filled, ``[bags]``.
    """
    bags, rows, classes = chances.shape
    nothing, one = np.float32(0.0), np.float32(1.0)
    for bag in range(bags):
        right[bag] = 0
        for row in range(rows):
            own, result = chances[bag, row], slope[bag, row]
            label = labels[row]
            if not in_bag[row, bag] or label < 0:
                losses[bag, row] = nothing
                result[:] = nothing
                continue
            losses[bag, row] = -log_chances[bag, row, label]
            best = 0
            for c in range(classes):
                if log_chances[bag, row, c] > log_chances[bag, row, best]:
                    best = c
                wanted = one if c == label else nothing
                result[c] = (own[c] - wanted) / counts[bag]
            right[bag] += best == label
