"""The loops of a training step of cross-hops: crosses with a weight per unit, and the loss.

Arrays have a row per unit or class and a column per node, so that every loop reads contiguous
memory. One thread computes a bag, so the number of threads does not change results.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from crossgcn.kernels.cpu_loops import compiled, jit


@compiled
def score_units(projections: Any, gates: Any, weight: Any, bias: Any, scores: Any) -> None:
    """Cross the projections, sum the orders, and compute the class scores of each bag.

    Args:
        projections: ``[order, units, nodes]``.
        gates: Weights of the orders from the second on, ``[order - 1, units]``.
        weight: Weight of the readout, ``[classes, units]``.
        bias: Bias of the readout, ``[bags, classes]``.
        scores: Output, ``[bags, classes, nodes]``.
    """
    bags, classes, nodes = scores.shape
    order, units, _ = projections.shape
    width = units // bags
    for bag in numba.prange(bags):
        products, unit = np.empty((order, nodes), np.float32), np.empty(nodes, np.float32)
        for c in range(classes):
            scores[bag, c] = bias[bag, c]
        for u in range(bag * width, (bag + 1) * width):
            _combine(projections, gates, u, products, unit)
            for c in range(classes):
                _add_scaled(unit, weight[c, u], scores[bag, c])


@compiled
def score_units_backward(
    grad_scores: Any,
    projections: Any,
    gates: Any,
    weight: Any,
    grad_projections: Any,
    grad_gates: Any,
    grad_weight: Any,
    grad_bias: Any,
) -> None:
    """Compute the gradients of :func:`score_units` from ``grad_scores``."""
    bags, classes, nodes = grad_scores.shape
    order, units, _ = projections.shape
    width = units // bags
    for bag in numba.prange(bags):
        products, unit = np.empty((order, nodes), np.float32), np.empty(nodes, np.float32)
        carried = np.empty(nodes, np.float32)
        for c in range(classes):
            grad_bias[bag, c] = _sum(grad_scores[bag, c])
        for u in range(bag * width, (bag + 1) * width):
            _combine(projections, gates, u, products, unit)
            for c in range(classes):
                grad_weight[c, u] = _dot(grad_scores[bag, c], unit)
            unit[:] = np.float32(0.0)  # from here on the gradient of the unit
            for c in range(classes):
                _add_scaled(grad_scores[bag, c], weight[c, u], unit)
            carried[:] = np.float32(0.0)
            for k in range(order - 1, 0, -1):
                grad_gates[k - 1, u] = _dot(unit, products[k])
                _carry(
                    *(unit, gates[k - 1, u], projections[k, u], products[k - 1]),
                    *(carried, grad_projections[k, u]),
                )
            _add(unit, carried, grad_projections[0, u])


@jit()
def _combine(projections: Any, gates: Any, u: Any, products: Any, total: Any) -> None:
    """Cross the projections of a unit, and sum the orders with their weights."""
    products[0] = projections[0, u]
    before = products[0]
    for k in range(1, len(products)):
        _cross(products[k - 1], projections[k, u], gates[k - 1, u], before, products[k], total)
        before = total
    if len(products) == 1:
        total[:] = before


@jit()
def _cross(left: Any, right: Any, gate: Any, before: Any, product: Any, total: Any) -> None:
    for i in range(total.size):
        product[i] = left[i] * right[i]
        total[i] = before[i] + gate * product[i]


@jit()
def _add_scaled(part: Any, scale: Any, total: Any) -> None:
    for i in range(total.size):
        total[i] += scale * part[i]


@jit()
def _add(left: Any, right: Any, result: Any) -> None:
    for i in range(result.size):
        result[i] = left[i] + right[i]


@jit()
def _carry(gradient: Any, gate: Any, factor: Any, before: Any, carried: Any, result: Any) -> None:
    for i in range(result.size):
        grad = gradient[i] * gate + carried[i]
        result[i] = grad * before[i]
        carried[i] = grad * factor[i]


# Sums use vector instructions, which add in another order than a loop.
_vectorised = jit(fastmath={"reassoc", "nsz"})


@_vectorised
def _sum(values: Any) -> Any:
    total = np.float32(0.0)
    for i in range(values.size):
        total += values[i]
    return total


@_vectorised
def _dot(left: Any, right: Any) -> Any:
    total = np.float32(0.0)
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@jit(error_model="numpy")
def score_bags(
    log_probabilities: Any, probabilities: Any, labels: Any, in_bag: Any, count: Any, totals: Any
) -> None:
    """Compute the gradient of the cross-entropy of each bag, and add up loss and correct nodes.

    Args:
        log_probabilities: ``[bags, classes, nodes]``.
        probabilities: ``[bags, classes, nodes]``; replaced by the gradient of the scores.
        labels: Class of each node; nodes with negative labels are ignored.
        in_bag: Which nodes belong to which bag, ``[nodes, bags]``.
        count: Number by which the gradient is divided.
        totals: ``[2]``; the loss and the number of correct nodes, each times
            ``nodes / (bags * count)``, are added to it.
    """
    bags, classes, nodes = probabilities.shape
    counted, best = np.empty(nodes, np.float32), np.empty(nodes, np.float32)
    top = np.empty(nodes, np.float32)
    loss, num_correct = 0.0, 0.0
    for bag in range(bags):
        for i in range(nodes):
            counted[i] = in_bag[i, bag] & (labels[i] >= 0)
        top[:], best[:] = log_probabilities[bag, 0], np.float32(0.0)
        for c in range(1, classes):
            _update_best(log_probabilities[bag, c], np.float32(c), top, best)
        for c in range(classes):
            added, hits = _score_class(
                *(log_probabilities[bag, c], probabilities[bag, c], labels, c, counted, best, count)
            )
            loss -= added
            num_correct += hits
    share = nodes / (bags * count)
    totals[0] += loss * share
    totals[1] += num_correct * share


@jit()
def _update_best(values: Any, c: Any, top: Any, best: Any) -> None:
    """Update the best class of each node, and its value, with class ``c``."""
    for i in range(top.size):
        larger = values[i] > top[i]
        best[i] = c if larger else best[i]
        top[i] = values[i] if larger else top[i]


@jit(error_model="numpy", fastmath={"reassoc", "nsz"})
def _score_class(
    logs: Any, probabilities: Any, labels: Any, c: Any, counted: Any, best: Any, count: Any
) -> Any:
    """Replace the probabilities of a class by the gradient; return log-likelihood and hits."""
    total, hits = np.float32(0.0), np.float32(0.0)
    zero, this_class = np.float32(0.0), np.float32(c)
    for i in range(logs.size):
        here = counted[i] if labels[i] == c else zero
        total += logs[i] if here > zero else zero
        hits += here if best[i] == this_class else zero
        value = probabilities[i] - here
        probabilities[i] = value / count if counted[i] > zero else zero
    return total, hits
