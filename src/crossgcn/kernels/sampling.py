"""The loops of a neighbour sampler in NumPy; :func:`loops` returns the compiled ones if possible.

A graph is two arrays: node ``i`` aggregates over ``neighbours[offsets[i]:offsets[i + 1]]``, in
ascending order. A position in ``neighbours`` is called an entry. Which entries are drawn for a
node depends on a key and the node alone, so any number of processes draws the same.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.kernels.ops import has_numba

Array = NDArray[Any]

ALL = -1
"""The fanout that draws every neighbour."""


class NoRow(ValueError):
    """The offsets of a node point outside of the entries."""

    def __init__(self, node: int) -> None:
        super().__init__(f"the offsets of node {node} point outside of the entries")
        self.node = node


_ODD = 0x9E3779B97F4A7C15
_BITS = 0xFFFFFFFFFFFFFFFF
_MIXING, _LAST_SHIFT = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 31
"""Shifts and factors of SplitMix64."""


def draw_key(*numbers: int) -> int:
    """Hash numbers such as seed, epoch, batch and hop to a 64-bit key, by SplitMix64."""
    key = 0
    for number in numbers:
        key = int(_mix(np.array([(key + (number + 1) * _ODD) & _BITS], np.uint64))[0])
    return key


def shuffle(nodes: Array, key: int) -> Array:
    """Return the nodes in an order that depends on the key alone."""
    # No two numbers have the same bits, so every way to sort gives the same order.
    return nodes[np.argsort(_bits(key, np.arange(nodes.size)))]


def shuffle_on_device(nodes: Tensor, key: int) -> Tensor:
    """Return the order of :func:`shuffle`, computed on the device of the nodes."""
    bits = torch.arange(1, nodes.numel() + 1, device=nodes.device) * _signed(_ODD) + _signed(key)
    for shift, factor in _MIXING:
        bits = (bits ^ _shifted(bits, shift)) * _signed(factor)
    bits = bits ^ _shifted(bits, _LAST_SHIFT)
    # As signed numbers, those with the highest bit come first: swap the halves.
    return nodes[torch.argsort(bits ^ _signed(1 << 63))]


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Shift signed numbers as if they were unsigned."""
    return (bits >> by) & (_BITS >> by)


def _signed(number: int) -> int:
    """Return the signed number of the same 64 bits."""
    return number - (number >> 63 << 64)


def draw_entries(
    offsets: Array, neighbours: Array, nodes: Array, fanout: int, key: int, skip_own: bool
) -> tuple[Array, Array]:
    """Draw neighbours of each node uniformly, without replacement (Floyd's algorithm).

    Args:
        fanout: Neighbours per node, at most; :data:`ALL` for all.
        key: The random bits depend on it and on the node.
        skip_own: Never draw a node for itself.

    Returns:
        Start of each node's draws, ``[nodes + 1]``, and the drawn entries, ascending per node.

    Raises:
        NoRow: If a node's offsets are invalid; likewise in the functions below.
    """
    _check_rows(offsets, neighbours, nodes)
    first = offsets[nodes]
    own = np.full(nodes.size, -1)
    if skip_own:
        own = find_entries(offsets, neighbours, nodes, nodes)
    degrees = offsets[nodes + 1] - first - (own >= 0)
    counts = degrees if fanout == ALL else np.minimum(degrees, fanout)
    starts = np.concatenate([[0], np.cumsum(counts)])
    row = np.repeat(np.arange(nodes.size), counts)
    places = np.arange(starts[-1]) - starts[row]
    if fanout != ALL:
        large = degrees > fanout
        places[large[row]] = _draw(degrees[large], nodes[large], fanout, key).ravel()
    entries = first[row] + places
    after_own = (own[row] >= 0) & (entries >= own[row])
    return starts, entries + after_own


def find_entries(offsets: Array, neighbours: Array, nodes: Array, wanted: Array) -> Array:
    """Return the entry of one wanted neighbour of each node, -1 if it is none."""
    _check_rows(offsets, neighbours, nodes)
    low, end = offsets[nodes], offsets[nodes + 1]
    high = end
    while (low < high).any():
        middle = (low + high) // 2
        open_ = low < high
        below = np.zeros(nodes.size, dtype=bool)
        below[open_] = neighbours[middle[open_]] < wanted[open_]
        low = np.where(open_ & below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    found = low < end
    found[found] = neighbours[low[found]] == wanted[found]
    return np.where(found, low, -1)


def number(known: Array, found: Array) -> tuple[Array, Array]:
    """Number nodes consecutively, in the order in which they occur.

    ``known`` nodes are distinct, ``found`` nodes may repeat. Return the distinct nodes, ``known``
    first, and the number of each of ``found``.
    """
    everything = np.concatenate([known, found]).astype(np.int64)
    nodes, first, inverse = np.unique(everything, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return nodes[order], rank[inverse][known.size :]


def insert_own(
    starts: Array,
    nodes: Array,
    columns: Array,
    values: Array,
    own_nodes: Array,
    own_columns: Array,
    own_values: Array,
) -> tuple[Array, Array, Array]:
    """Insert a self-loop into every row of a block, so that rows stay sorted by node.

    ``nodes``, ``columns`` and ``values`` are those of each entry, the others those of each row's
    self-loop. Return starts, columns and values.
    """
    rows = own_nodes.size
    row = np.concatenate([np.repeat(np.arange(rows), np.diff(starts)), np.arange(rows)])
    order = np.lexsort((np.concatenate([nodes, own_nodes]), row))
    merged = np.concatenate([columns, own_columns])[order]
    return starts + np.arange(rows + 1), merged, np.concatenate([values, own_values])[order]


def row_weights(
    offsets: Array, neighbours: Array, weights: Array, own: bool, first: int, last: int
) -> Array:
    """Sum the edge weights of each node from ``first`` to before ``last``, in 64 bits.

    Args:
        weights: One per entry; empty if all are one.
        own: Count self-loops, with weight 1 if a node has none; otherwise leave them out.
    """
    _check_rows(offsets, neighbours, np.arange(first, last))
    start, end = int(offsets[first]), int(offsets[last])
    row = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
    weight = weights[start:end].astype(np.float64) if weights.size else np.ones(end - start)
    loop = neighbours[start:end] == row + first
    counted = np.where(loop & (not own), 0.0, weight)
    total = np.bincount(row, counted, minlength=last - first)
    if own:
        total += np.bincount(row[loop], minlength=last - first) == 0
    return total


def _check_rows(offsets: Array, neighbours: Array, nodes: Array) -> None:
    first, end = offsets[nodes], offsets[nodes + 1]
    wrong = (first < 0) | (end < first) | (end > neighbours.size)
    if wrong.any():
        raise NoRow(int(nodes[wrong.argmax()]))


def _draw(degrees: Array, nodes: Array, fanout: int, key: int) -> Array:
    """Draw distinct numbers below each degree, ascending, ``[nodes, fanout]``."""
    chosen = np.empty((degrees.size, fanout), dtype=np.int64)
    node_keys = _bits(key, nodes)
    for step in range(fanout):
        last = degrees - fanout + step
        bits = _bits(node_keys, np.full(degrees.size, step))
        place = ((bits >> np.uint64(11)) * 2.0**-53 * (last + 1)).astype(np.int64)
        taken = (chosen[:, :step] == place[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, last, place)
    return np.sort(chosen, axis=1)


def _bits(key: int | Array, numbers: Array) -> Array:
    """Return 64 random bits per number."""
    steps = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_ODD)
    return _mix(steps + np.asarray(key, dtype=np.uint64))


def _mix(bits: Array) -> Array:
    for shift, factor in _MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    mixed: Array = bits ^ (bits >> np.uint64(_LAST_SHIFT))
    return mixed


def loops() -> Any:
    """Return the module of compiled loops if Numba is installed, otherwise this module."""
    if not has_numba():
        return sys.modules[__name__]
    from crossgcn.kernels.cpu import sampling as cpu_sampling

    return cpu_sampling
