"""What is inside a term: its mean contribution for each combination of values of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import ceil
from typing import Any

import numpy as np

from crossgcn.explanation.reading import Floats, Ints
from crossgcn.explanation.terms import Column, Explanation, Term

_MOST_NODES = 20_000
"""Of more nodes, an even sample is drawn."""
_LEVELS = {1: (8, 24), 2: (4, 12), 3: (2, 6)}
PAGE_LEVELS = {1: (24, 30), 2: (8, 12), 3: (4, 6)}
"""Into how many parts a number is cut, and how many categories are shown, by size of the term."""


@dataclass(frozen=True)
class Axis:
    """The values of one column.

    Attributes:
        labels: What each value is called, and in ``names`` with its column.
        masks: Which nodes have each, ``[nodes, values]``.
        at: Of a number, its mean at the nodes of each value; one entry less if some have none.
        is_share: Whether a node has a share of the value, and those with much of it are meant.
        left_out: How many values are not shown.
    """

    name: str
    labels: list[str]
    names: list[str]
    masks: Floats
    at: list[float] | None = None
    is_share: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class Grid:
    """A term by values of its columns; of a sample of many nodes.

    Attributes:
        counts: Number of nodes of each cell, the last axis fastest.
        means: Mean contribution of the nodes of each cell, ``[cells, outputs]``.
        errors: Its standard error, if it is known.
        nodes: The rows that are looked at.
    """

    axes: list[Axis]
    counts: Ints
    means: Floats
    errors: Floats | None
    nodes: slice


def make_grid(
    whole: Explanation, term: Term, levels: dict[int, tuple[int, int]] = PAGE_LEVELS
) -> Grid | None:
    """Return a term by values of its columns; ``None`` if the columns have no values."""
    columns = [whole.columns[place] for place in term.key]
    if not columns or len(columns) > max(levels) or not all(len(c.places) for c in columns):
        return None
    every = slice(None, None, ceil(len(whole.nodes) / _MOST_NODES))
    around = None if term.whose == "own" else whole.neighbours
    inputs = whole.inputs
    if around is not None and len(columns) == 1:
        total = np.maximum(np.asarray(around.sum(axis=1)).reshape(-1, 1), 1e-12)
        inputs, around = (around @ inputs) / total, None
    sizes = levels[len(columns)]
    axes = [_axis(c, inputs[:, c.places], len(columns) == 1, term, *sizes) for c in columns]
    masks: Any = np.ones((len(inputs), 1), np.float32)
    for axis in axes:
        masks = (masks[:, :, np.newaxis] * axis.masks[:, np.newaxis]).reshape(len(masks), -1)
    if around is not None:
        masks = are_high(np.asarray(around @ masks)).astype(np.float32)
    masks = masks[every]
    counts = masks.sum(axis=0)
    size = np.maximum(counts, 1)[:, np.newaxis]
    errors = None if term.spread is None else masks.T @ term.spread[every] / size
    means = masks.T @ term.contributions[every] / size
    return Grid(axes, counts.astype(np.int64), means, errors, every)


def describe(whole: Explanation, term: Term, output: int, top: int) -> dict[str, Any]:
    """Return ``cells``, and ``slope`` if all columns are numbers.

    A cell is a combination of one value per column, with the mean contribution of its nodes. A
    share of neighbours is ``high`` in the upper quarter of nodes. Of one number, the cells are
    its eighths in their order; otherwise those that matter most come first: by contribution
    times the square root of the number of nodes.

    The slope is the change of the score per standard deviation of the number, or of the product
    of the standardised numbers.
    """
    grid = make_grid(whole, term, _LEVELS)
    if grid is None:
        return {"cells": []}
    means = grid.means[:, output]
    order = np.argsort(-np.abs(means) * np.sqrt(grid.counts), kind="stable")[:top]
    inside: dict[str, Any] = {}
    columns = [whole.columns[place] for place in term.key]
    values = [whole.inputs[:, column.places] for column in columns]
    if all(c.is_number and not are_flags(v) for c, v in zip(columns, values, strict=True)):
        around = None if term.whose == "own" else whole.neighbours
        inside["slope"] = _slope([v[:, 0] for v in values], term.contributions[:, output], around)
        if len(columns) == 1:
            order = np.arange(len(means))
    names = list(product(*(axis.names for axis in grid.axes)))
    inside["cells"] = [
        {
            "names": list(names[cell]),
            "contribution": float(means[cell]),
            "nodes": int(grid.counts[cell]),
        }
        for cell in order
        if grid.counts[cell]
    ]
    return inside


def are_flags(values: Floats) -> bool:
    """Return whether a column holds nothing but 0 and 1."""
    return bool(((values == 0) | (values == 1)).all())


def are_high(shares: Floats) -> Any:
    """Return which nodes are in the upper quarter, and above the least."""
    return (shares >= np.quantile(shares, 0.75, axis=0)) & (shares > shares.min(axis=0))


def number_text(value: float) -> str:
    """Return a number as it stands at an axis: ``1,234``, ``0.0123``, ``5.6M``."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def value_text(column: Column, values: Floats) -> str:
    """Return what a node has in a column, as ``female`` or ``34``."""
    if len(values) == 1 and values[0] in (0.0, 1.0) and column.scale == (0.0, 1.0):
        return "yes" if values[0] else "no"
    flags = [name for name, value in zip(column.features, values, strict=True) if value == 1]
    if column.is_number and f"{column.name}=(missing)" not in flags:
        if column.is_log:
            return f"{float(column.numbers(values[:1])[0]):,.0f}"
        number = float(column.numbers(values[:1])[0])
        if column.features[0].startswith(f"{column.name}="):  # the share of a class
            return f"{number:.0%} {column.features[0].removeprefix(f'{column.name}=')}"
        slack = 1e-4 * abs(column.scale[1])
        number = number if abs(number) > 1e-6 * abs(column.scale[1]) else 0.0
        sign = "≥ " if number > column.limits[1] - slack else ""
        sign = "≤ " if number < column.limits[0] + slack else sign
        return sign + (f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}")
    return ", ".join(value_name(name, column.name) for name in flags) or "none"


def value_name(feature: str, column: str) -> str:
    """Return the value that a feature stands for: ``female`` of ``gender=female``."""
    own = column.partition(": ")[2]  # Features of neighbours may be called as their own.
    for start in (f"{column}=", f"{column}:", f"{own}=", f"{own}:"):
        if feature.startswith(start) and len(start) > 1:
            return feature.removeprefix(start)
    return feature


def _axis(column: Column, values: Floats, single: bool, term: Term, parts: int, most: int) -> Axis:
    """Return the values of one column; of many categories, those that matter most."""
    flags = are_flags(values)
    if column.is_number and not flags:
        return _number_axis(column, values, parts)
    names = list(column.features)
    if flags and len(names) == 1:
        names = [names[0], f"not {names[0]}"]
        masks = np.concatenate([values, 1 - values], axis=1)
        return Axis(column.name, ["yes", "no"], names, masks)
    if not flags:
        values = are_high(values).astype(np.float64)
    counts = values.sum(axis=0)
    if single:
        matters = np.abs(term.contributions.T @ values) / np.sqrt(np.maximum(counts, 1))
    else:  # Over the nodes with one value, a cross has the mean 0.
        matters = np.square(term.contributions).T @ values
    chosen = np.argsort(-matters.sum(axis=0), kind="stable")[:most]
    kept = chosen[counts[chosen] > 0]
    kept = kept[np.argsort(-counts[kept], kind="stable")]
    labels = [value_name(names[each], column.name) for each in kept]
    full = [names[each] + ("" if flags else " high") for each in kept]
    left_out = len(names) - len(kept)
    return Axis(column.name, labels, full, values[:, kept], None, not flags, left_out)


def _number_axis(column: Column, values: Floats, parts: int) -> Axis:
    numbers = column.numbers(values[:, 0])
    numbers = np.where(np.abs(numbers) < 1e-6 * abs(column.scale[1]), 0.0, numbers)
    gone = [at for at, name in enumerate(column.features) if name == f"{column.name}=(missing)"]
    missing = values[:, gone].sum(axis=1) == 1 if gone else np.zeros(len(numbers), bool)
    known = numbers[~missing] if not missing.all() else numbers
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, parts + 1)[1:-1]))
    places = np.searchsorted(cuts, numbers, side="right")
    masks, labels, at = [], [], []
    for place in np.unique(places[~missing]):
        mask = (places == place) & ~missing
        ends = [number_text(numbers[mask].min()), number_text(numbers[mask].max())]
        labels.append(ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}")
        at.append(float(numbers[mask].mean()))
        masks.append(mask)
    if missing.any():
        masks.append(missing)
        labels.append("missing")
    names = [f"{column.name} {label}" for label in labels]
    return Axis(column.name, labels, names, np.stack(masks, axis=1).astype(np.float32), at)


def _slope(numbers: Sequence[Floats], contributions: Floats, around: Any) -> float:
    standard = [(each - each.mean()) / max(float(each.std()), 1e-12) for each in numbers]
    product_of: Floats = reduce(np.multiply, standard)
    if around is not None:
        product_of = around @ product_of
    product_of = product_of - product_of.mean()
    length = float(product_of @ product_of)
    return float(product_of @ contributions) / length if length > 0 else 0.0
