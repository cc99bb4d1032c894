"""The loops of :mod:`crossgcn.kernels.sampling`, compiled by Numba; they release the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.kernels.cpu_loops import jit
from crossgcn.kernels.sampling import ALL, NoRow

Array = NDArray[Any]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _ELEVEN = np.uint64(1), np.uint64(11)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
_INSERTION_UNTIL = 48
"""Number of draws up to which a sorted list is the fastest set."""


def shuffle(nodes: Array, key: int) -> Array:
    """See :func:`crossgcn.kernels.sampling.shuffle`."""
    # Buckets of four to eight nodes, by the leading bits of their random numbers.
    shuffled: Array = _shuffle(nodes, np.uint64(key), max(nodes.size.bit_length() - 3, 1))
    return shuffled


def draw_entries(
    offsets: Array, neighbours: Array, nodes: Array, fanout: int, key: int, skip_own: bool
) -> tuple[Array, Array]:
    """See :func:`crossgcn.kernels.sampling.draw_entries`."""
    checked, *drawn = _draw(offsets, neighbours, nodes, fanout, np.uint64(key), skip_own)
    if checked < nodes.size:
        raise NoRow(int(nodes[checked]))
    return drawn[0], drawn[1]


def find_entries(offsets: Array, neighbours: Array, nodes: Array, wanted: Array) -> Array:
    """See :func:`crossgcn.kernels.sampling.find_entries`."""
    entries = np.empty(nodes.size, dtype=np.int64)
    checked = _find_all(offsets, neighbours, nodes, wanted, entries)
    if checked < nodes.size:
        raise NoRow(int(nodes[checked]))
    return entries


def row_weights(
    offsets: Array, neighbours: Array, weights: Array, own: bool, first: int, last: int
) -> Array:
    """See :func:`crossgcn.kernels.sampling.row_weights`."""
    total = np.empty(last - first, dtype=np.float64)
    checked = _add_up(offsets, neighbours, weights, own, first, total)
    if checked < total.size:
        raise NoRow(first + checked)
    return total


@jit(inline="always")
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> _THIRTY)) * _FIRST
    bits = (bits ^ (bits >> _TWENTY_SEVEN)) * _SECOND
    return bits ^ (bits >> _THIRTY_ONE)


@jit(inline="always")
def _bits(key: Any, position: Any) -> Any:
    return _mix((np.uint64(position) + _ONE) * _ODD + key)


@jit()
def _shuffle(nodes: Any, key: Any, leading: Any) -> Any:
    """Sort by random bits: first into buckets by the leading ones, then by insertion."""
    shift = np.uint64(64 - leading)
    ends = np.zeros(1 << leading, dtype=np.int64)
    for i in range(nodes.size):
        ends[_bits(key, i) >> shift] += 1
    ends = np.cumsum(ends)
    order, shuffled = np.empty(nodes.size, dtype=np.uint64), np.empty_like(nodes)
    for i in range(nodes.size):
        bits = _bits(key, i)
        bucket = bits >> shift
        ends[bucket] -= 1
        order[ends[bucket]], shuffled[ends[bucket]] = bits, nodes[i]
    for i in range(1, nodes.size):
        bits, node, at = order[i], shuffled[i], i
        while at > 0 and order[at - 1] > bits:
            order[at], shuffled[at] = order[at - 1], shuffled[at - 1]
            at -= 1
        order[at], shuffled[at] = bits, node
    return shuffled


@jit(inline="always")
def _is_row(offsets: Any, neighbours: Any, node: Any) -> Any:
    """Return whether a node's offsets are valid; check this before reading its entries."""
    return 0 <= offsets[node] <= offsets[node + 1] <= neighbours.size


@jit()
def _find(offsets: Any, neighbours: Any, node: Any, wanted: Any) -> Any:
    """Return the entry of a neighbour of a node, -1 if it is none."""
    low, end = offsets[node], offsets[node + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if neighbours[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and neighbours[low] == wanted else -1


@jit()
def _find_all(offsets: Any, neighbours: Any, nodes: Any, wanted: Any, entries: Any) -> Any:
    """Return the number of nodes before the first with invalid offsets."""
    for i in range(nodes.size):
        if not _is_row(offsets, neighbours, nodes[i]):
            return i
        entries[i] = _find(offsets, neighbours, nodes[i], wanted[i])
    return nodes.size


@jit()
def _draw(
    offsets: Any, neighbours: Any, nodes: Any, fanout: Any, key: Any, skip_own: Any
) -> tuple[Any, Any, Any]:
    """Return what :func:`_find_all` returns, and starts and entries of the draws."""
    starts = np.zeros(nodes.size + 1, dtype=np.int64)
    own = np.empty(nodes.size, dtype=np.int64)
    for i in range(nodes.size):
        if not _is_row(offsets, neighbours, nodes[i]):
            return i, starts, own
        own[i] = _find(offsets, neighbours, nodes[i], nodes[i]) if skip_own else -1
        degree = offsets[nodes[i] + 1] - offsets[nodes[i]] - (own[i] >= 0)
        starts[i + 1] = starts[i] + (degree if fanout == ALL or degree < fanout else fanout)
    entries = np.empty(starts[-1], dtype=np.int64)
    size = 1
    while size < 2 * fanout:
        size *= 2
    slots, stamps = np.empty(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    for i in range(nodes.size):
        node = nodes[i]
        first = offsets[node]
        degree = offsets[node + 1] - first - (own[i] >= 0)
        places = entries[starts[i] : starts[i + 1]]
        if places.size == degree:
            for k in range(degree):
                places[k] = k
        elif fanout <= _INSERTION_UNTIL:
            _draw_few(_bits(key, node), degree, places)
        else:
            _draw_many(_bits(key, node), degree, places, i, slots, stamps)
        for k in range(places.size):
            entry = first + places[k]
            places[k] = entry + 1 if own[i] >= 0 and entry >= own[i] else entry
    return nodes.size, starts, entries


@jit(inline="always")
def _place(key: Any, step: Any, last: Any) -> Any:
    """Draw a number from 0 to ``last``."""
    return np.int64(np.float64(_bits(key, step) >> _ELEVEN) * 2.0**-53 * np.float64(last + 1))


@jit()
def _draw_few(key: Any, degree: Any, places: Any) -> None:
    """Draw distinct numbers below ``degree`` by insertion into a sorted list."""
    fanout = places.size
    for step in range(fanout):
        last = degree - fanout + step
        place = _place(key, step, last)
        at = 0
        while at < step and places[at] < place:
            at += 1
        if at < step and places[at] == place:
            place, at = last, step  # larger than all draws before
        for k in range(step, at, -1):
            places[k] = places[k - 1]
        places[at] = place


@jit()
def _draw_many(key: Any, degree: Any, places: Any, stamp: Any, slots: Any, stamps: Any) -> None:
    """Draw by a hash table; its entries of other stamps count as empty."""
    fanout = places.size
    for step in range(fanout):
        last = degree - fanout + step
        place = _place(key, step, last)
        if not _add(place, stamp, slots, stamps):
            place = last
            _add(place, stamp, slots, stamps)
        places[step] = place
    places.sort()


@jit()
def _add(place: Any, stamp: Any, slots: Any, stamps: Any) -> Any:
    """Add a number to the table; return whether it is new."""
    mask = np.uint64(slots.size - 1)
    slot = _mix(np.uint64(place)) & mask
    while stamps[slot] == stamp:
        if slots[slot] == place:
            return False
        slot = (slot + _ONE) & mask
    slots[slot], stamps[slot] = place, stamp
    return True


@jit()
def number(known: Any, found: Any) -> tuple[Any, Any]:
    """See :func:`crossgcn.kernels.sampling.number`; a hash table holds positions in ``nodes``."""
    nodes = np.empty(known.size + found.size, dtype=np.int64)
    nodes[: known.size] = known
    numbers = np.empty(found.size, dtype=np.int64)
    size = 1  # a power of two, at least twice the number of nodes
    while size <= 2 * nodes.size + 1:
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)
    for i in range(known.size):
        _look_up(nodes[i], i, nodes, slots)
    count = known.size
    for i in range(found.size):
        place = _look_up(np.int64(found[i]), count, nodes, slots)
        if place == count:
            nodes[count] = found[i]
            count += 1
        numbers[i] = place
    return nodes[:count].copy(), numbers


@jit()
def _look_up(node: Any, count: Any, nodes: Any, slots: Any) -> Any:
    """Return a node's position, which is ``count`` if it is new."""
    mask = np.uint64(slots.size - 1)
    slot = _mix(np.uint64(node)) & mask
    while slots[slot] >= 0:
        if nodes[slots[slot]] == node:
            return slots[slot]
        slot = (slot + _ONE) & mask
    slots[slot] = count
    return count


@jit()
def insert_own(
    starts: Any,
    nodes: Any,
    columns: Any,
    values: Any,
    own_nodes: Any,
    own_columns: Any,
    own_values: Any,
) -> tuple[Any, Any, Any]:
    """See :func:`crossgcn.kernels.sampling.insert_own`."""
    rows = own_nodes.size
    more = np.empty(columns.size + rows, dtype=columns.dtype)
    merged = np.empty(columns.size + rows, dtype=values.dtype)
    to = 0
    for row in range(rows):
        waiting = True
        for k in range(starts[row], starts[row + 1]):
            if waiting and nodes[k] > own_nodes[row]:
                more[to], merged[to], waiting = own_columns[row], own_values[row], False
                to += 1
            more[to], merged[to] = columns[k], values[k]
            to += 1
        if waiting:
            more[to], merged[to] = own_columns[row], own_values[row]
            to += 1
    return starts + np.arange(rows + 1), more, merged


@jit()
def _add_up(offsets: Any, neighbours: Any, weights: Any, own: Any, first: Any, total: Any) -> Any:
    """Return what :func:`_find_all` returns."""
    weighted = weights.size > 0
    for i in range(total.size):
        if not _is_row(offsets, neighbours, first + i):
            return i
        sum_, loop = 0.0, False
        for k in range(offsets[first + i], offsets[first + i + 1]):
            weight = np.float64(weights[k]) if weighted else 1.0
            if neighbours[k] == first + i:
                loop = True
                weight = weight if own else 0.0
            sum_ += weight
        total[i] = sum_ + 1.0 if own and not loop else sum_
    return total.size
