"""What is inside a term: its mean contribution for each combination of values of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from crossgcn.explanation.columns import Column
from crossgcn.explanation.polynomial import Floats, Ints

if TYPE_CHECKING:
    from crossgcn.explanation.terms import Explanation, Term

FEW_LEVELS = {1: (8, 24), 2: (4, 12), 3: (2, 6)}
ALL_LEVELS = {1: (24, 30), 2: (8, 12), 3: (4, 6)}
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
    """A term by values of its columns.

    Attributes:
        counts: Number of nodes of each cell, the last axis fastest.
        means: Mean contribution of the nodes of each cell, ``[cells, outputs]``.
        errors: Its standard error, if it is known.
    """

    axes: list[Axis]
    counts: Ints
    means: Floats
    errors: Floats | None

    def cells(self, output: int) -> list[dict[str, Any]]:
        """Return the cells that have nodes: what they are called, and what they add to a score."""
        names = product(*(axis.names for axis in self.axes))
        return [
            {"names": list(name), "contribution": float(mean), "nodes": int(count)}
            for name, mean, count in zip(names, self.means[:, output], self.counts, strict=True)
            if count
        ]


def make_grid(whole: Explanation, term: Term, levels: dict[int, tuple[int, int]]) -> Grid | None:
    """Return a term by values of its columns; ``None`` for more than three, or the rest."""
    columns = [whole.columns[place] for place in term.key]
    if len(columns) not in levels:
        return None
    sizes, single = levels[len(columns)], len(columns) == 1
    known = slice(whole.num_fitted)
    inputs, added = whole.inputs[known], term.contributions[known]
    axes = [_axis(each, inputs[:, each.places], single, added, *sizes) for each in columns]
    masks: Any = np.ones((len(inputs), 1), np.float32)
    for axis in axes:
        masks = (masks[:, :, np.newaxis] * axis.masks[:, np.newaxis]).reshape(len(masks), -1)
    counts = masks.sum(axis=0)
    size = np.maximum(counts, 1)[:, np.newaxis]
    errors = None if term.spread is None else masks.T @ term.spread[known] / size
    return Grid(axes, counts.astype(np.int64), masks.T @ added / size, errors)


def describe(whole: Explanation, term: Term, output: int, top: int) -> dict[str, Any]:
    """Return ``cells``, and ``slope`` if all columns are numbers.

    A cell is a combination of one value per column, with the mean contribution of its nodes. A
    share of neighbours is ``high`` in the upper quarter of nodes. Of one number, the cells are
    its eighths in their order; otherwise those that matter most come first: by contribution
    times the square root of the number of nodes.

    The slope is the change of the score per standard deviation of the number, or of the product
    of the standardised numbers.
    """
    grid = make_grid(whole, term, FEW_LEVELS)
    if grid is None:
        return {"cells": []}
    cells = grid.cells(output)
    matter = sorted(cells, key=lambda cell: -abs(cell["contribution"]) * sqrt(cell["nodes"]))
    if any(axis.at is None for axis in grid.axes):
        return {"cells": matter[:top]}
    known = slice(whole.num_fitted)
    numbers = [whole.inputs[known, whole.columns[place].places[0]] for place in term.key]
    slope = _slope(numbers, term.contributions[known, output])
    return {"slope": slope, "cells": cells if len(numbers) == 1 else matter[:top]}


def _axis(
    column: Column, values: Floats, single: bool, added: Floats, parts: int, most: int
) -> Axis:
    """Return the values of one column; of many categories, those that matter most."""
    flags = bool(((values == 0) | (values == 1)).all())
    if column.is_number and not flags:
        return _number_axis(column, values, parts)
    names = list(column.features)
    if flags and len(names) == 1:
        names = [names[0], f"not {names[0]}"]
        masks = np.concatenate([values, 1 - values], axis=1)
        return Axis(column.name, ["yes", "no"], names, masks)
    if not flags:
        # A share of neighbours is high in the upper quarter of nodes, and above the least.
        high = (values >= np.quantile(values, 0.75, axis=0)) & (values > values.min(axis=0))
        values = high.astype(np.float64)
    counts = values.sum(axis=0)
    if single:
        matters = np.abs(added.T @ values) / np.sqrt(np.maximum(counts, 1))
    else:  # Over the nodes with one value, a cross has the mean 0.
        matters = np.square(added).T @ values
    chosen = np.argsort(-matters.sum(axis=0), kind="stable")[:most]
    kept = chosen[counts[chosen] > 0]
    kept = kept[np.argsort(-counts[kept], kind="stable")]
    labels = [column.value_name(names[each]) for each in kept]
    full = [names[each] + ("" if flags else " high") for each in kept]
    left_out = len(names) - len(kept)
    return Axis(column.name, labels, full, values[:, kept], None, not flags, left_out)


def _number_axis(column: Column, values: Floats, parts: int) -> Axis:
    numbers = column.numbers(values[:, 0])
    missing = column.is_missing(values)
    known = numbers[~missing] if not missing.all() else numbers
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, parts + 1)[1:-1]))
    places = np.searchsorted(cuts, numbers, side="right")
    masks, labels, at = [], [], []
    for place in np.unique(places[~missing]):
        mask = (places == place) & ~missing
        two = float(numbers[mask].min()), float(numbers[mask].max())
        ends = [column.date(end) or _number_text(end) for end in two]
        labels.append(ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}")
        at.append(float(numbers[mask].mean()))
        masks.append(mask)
    if missing.any():
        masks.append(missing)
        labels.append("missing")
    names = [f"{column.name} {label}" for label in labels]
    return Axis(column.name, labels, names, np.stack(masks, axis=1).astype(np.float32), at)


def _number_text(value: float) -> str:
    """Return a number as it stands at an axis: ``1,234``, ``0.0123``, ``5.6M``."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _slope(numbers: Sequence[Floats], contributions: Floats) -> float:
    standard = [(each - each.mean()) / max(float(each.std()), 1e-12) for each in numbers]
    product_of: Floats = reduce(np.multiply, standard)
    product_of = product_of - product_of.mean()
    length = float(product_of @ product_of)
    return float(product_of @ contributions) / length if length > 0 else 0.0
