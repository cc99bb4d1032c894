"""What is inside a term of columns: its largest cells, the slope or the shape of a number.

Also the sum of the terms of one node, and figures of both with matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crossgcn.explanation.columns import CROSS, WHOSE, ColumnGroup, ColumnTerm, ColumnTerms
from crossgcn.explanation.reading import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"own": "#1b6ca8", "neighbourhood": "#c46a1b", "both": "#6b8e23"}
_CELLS = 5
_MOST_CELLS = 400
_BINS = {1: 8, 2: 4}
"""Equal parts of the nodes in which the mean of one number, or of two, is shown."""


def describe_term(
    terms: ColumnTerms, term: ColumnTerm, output: int = 0, top: int = _CELLS
) -> dict[str, Any]:
    """Return ``slope`` if all columns are numbers, else ``cells``.

    The slope is the change of the score per standard deviation of the number, or of the product
    of the standardised numbers. ``shape`` is the mean contribution by value of one number, and
    ``surface`` by values of two.

    A cell is a combination of one value per column, with the mean contribution of its nodes; a
    number, or a share of neighbours, is ``high`` in the upper quarter of nodes and ``low`` in the
    lower one. The cells that matter most come first: those of the largest contribution times
    the square root of the number of nodes.
    """
    groups = [terms.groups[group] for group in term.groups]
    if not groups or not all(len(group.columns) for group in groups):
        return {"cells": []}
    values = [terms.inputs[:, group.columns] for group in groups]
    contributions = term.contributions[:, output]
    around = None if terms.whose(term) == "own" else terms.neighbours
    if all(g.is_number and not are_flags(v) for g, v in zip(groups, values, strict=True)):
        numbers = [each[:, 0] for each in values]
        slope = _slope(numbers, contributions, around)
        if around is not None or len(groups) > max(_BINS):
            return {"slope": slope}
        scaled = [g.scale[0] + g.scale[1] * n for g, n in zip(groups, numbers, strict=True)]
        name = "shape" if len(groups) == 1 else "surface"
        return {"slope": slope, name: _shape(scaled, contributions)}
    most = int(_MOST_CELLS ** (1 / len(groups)))
    names: list[list[str]] = []
    inside = np.ones((len(contributions), 1))
    for group, each in zip(groups, values, strict=True):
        labels, masks = _levels(group, each)
        largest = np.argsort(-masks.sum(axis=0), kind="stable")[:most]
        names.append([labels[level] for level in largest])
        inside = (inside[:, :, np.newaxis] * masks[:, np.newaxis, largest]).reshape(len(inside), -1)
    if around is not None:
        inside = are_high(np.asarray(around @ inside)).astype(np.float64)
    counts = inside.sum(axis=0)
    means = contributions @ inside / np.maximum(counts, 1)
    order = np.argsort(-np.abs(means) * np.sqrt(counts), kind="stable")
    every = list(product(*names))
    cells = [
        {
            "names": list(every[cell]),
            "contribution": float(means[cell]),
            "nodes": int(counts[cell]),
        }
        for cell in order[:top]
        if counts[cell]
    ]
    return {"cells": cells}


def term_records(
    terms: ColumnTerms, output: int, top: int | None = None, order: int | None = None
) -> list[dict[str, Any]]:
    """Return the terms of one score, as ``explain --json`` lists them.

    Args:
        top: How many terms of one column, of two, and so on; all by default.
        order: Terms of this many columns only.
    """
    sizes = sorted({len(term.columns) for term in terms.terms})
    chosen = {
        id(term)
        for size in sizes
        if order in (None, size)
        for term in terms.strongest(output, size)[:top]
    }
    return [
        {
            "class": terms.outputs[output],
            "columns": list(term.columns),
            "whose": terms.whose(term),
            "importance": float(term.importance[output]),
            "error": None if term.error is None else float(term.error[output]),
            **describe_term(terms, term, output),
        }
        for term in terms.strongest(output)
        if id(term) in chosen
    ]


def predicted_output(terms: ColumnTerms, node: int) -> int:
    """Return the score to explain of a node: that of its predicted class."""
    return int(terms.scores[row_of(terms, node)].argmax())


def terms_frame(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the terms of :func:`term_records` as a table, one row per term."""
    names = ["class", "term", "columns", "whose", "importance", "error", "slope", "cells"]
    rows = [
        row
        | {
            "term": CROSS.join(row["columns"]),
            "columns": tuple(row["columns"]),
            "cells": "; ".join(map(cell_text, row.get("cells", ()))),
        }
        for row in records
    ]
    return pd.DataFrame(rows, columns=names)


def cell_text(cell: dict[str, Any]) -> str:
    """Return a cell as text, as ``gender=female & age high +0.31``."""
    return f"{' & '.join(cell['names'])} {cell['contribution']:+.3g}"


@dataclass(frozen=True)
class NodeSum:
    """One score of one node: ``score = average + sum of the contributions``.

    Attributes:
        output: The class, or the target that is a number.
        frame: All terms (``term``, ``columns``, ``whose``, ``contribution``), the largest first.
        held: What the node has, by column: ``{"gender": "female", "neighbours: age": "34.2"}``.
            Of the neighbourhood: means of numbers, and the share of the second of two classes.
        start: What ``average`` is.
    """

    output: str
    unit: str
    average: float
    score: float
    frame: pd.DataFrame
    held: dict[str, str]
    start: str = "average"

    def sum_of(self, whose: str) -> float:
        """Return what the terms of ``own``, ``neighbourhood`` or ``both`` contribute in all."""
        return float(self.frame["contribution"][self.frame["whose"] == whose].sum())

    def to_json(self, top: int) -> dict[str, Any]:
        """Return the sum with the ``top`` largest terms, as ``explain --node --json`` does."""
        listed = self.frame.head(top)[["columns", "whose", "contribution"]]
        return {
            "class": self.output,
            "score": self.score,
            "average": self.average,
            "terms": [row | {"columns": list(row["columns"])} for row in listed.to_dict("records")],
            "other_terms": float(self.frame["contribution"].iloc[top:].sum()),
            **{whose: self.sum_of(whose) for whose in WHOSE},
        }

    def plot(self, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the way from the average to the score: the largest terms, and the rest summed."""
        return draw_waterfall(self, top, ax)


def node_sum(terms: ColumnTerms, node: int, output: int) -> NodeSum:
    """Return one score of one node as a sum."""
    row = row_of(terms, node)
    listed = terms.all_terms
    frame = pd.DataFrame(
        {
            "term": [term.name for term in listed],
            "columns": [term.columns for term in listed],
            "whose": [terms.whose(term) for term in listed],
            "contribution": [float(term.contributions[row, output]) for term in listed],
        }
    ).sort_values("contribution", key=lambda values: -values.abs(), ignore_index=True)
    score, average = float(terms.scores[row, output]), float(terms.average[output])
    held = {
        group.name: value_text(group, terms.inputs[row, group.columns])
        for group in terms.groups
        if len(group.columns) and (group.own or (group.is_number and group.scale != (0.0, 1.0)))
        if group.own or terms.neighbours is None
    }
    return NodeSum(terms.outputs[output], terms.unit, average, score, frame, held)


def row_of(terms: ColumnTerms, node: int) -> int:
    """Return the row of a node."""
    return int(np.flatnonzero(terms.nodes == node)[0])


def value_text(group: ColumnGroup, values: Floats) -> str:
    """Return what a node has in one of its own columns, as ``female`` or ``34``."""
    if len(values) == 1 and values[0] in (0.0, 1.0) and group.scale == (0.0, 1.0):
        return "yes" if values[0] else "no"
    flags = [name for name, value in zip(group.features, values, strict=True) if value == 1]
    if group.is_number and f"{group.name}=(missing)" not in flags:
        number = group.scale[0] + group.scale[1] * float(values[0])
        if group.is_log:
            return f"{np.expm1(number):,.0f}"
        if group.features[0].startswith(f"{group.name}="):  # the share of a class
            return f"{number:.0%} {group.features[0].removeprefix(f'{group.name}=')}"
        slack = 1e-4 * abs(group.scale[1])
        number = number if abs(number) > 1e-6 * abs(group.scale[1]) else 0.0
        sign = "≥ " if number > group.limits[1] - slack else ""
        sign = "≤ " if number < group.limits[0] + slack else sign
        return sign + (f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}")
    words = [name.removeprefix(f"{group.name}=").removeprefix(f"{group.name}:") for name in flags]
    return ", ".join(words) or "none"


def _slope(numbers: Sequence[Floats], contributions: Floats, around: Any) -> float:
    standard = [(each - each.mean()) / max(float(each.std()), 1e-12) for each in numbers]
    product_of: Floats = reduce(np.multiply, standard)
    if around is not None:
        product_of = around @ product_of
    product_of = product_of - product_of.mean()
    length = float(product_of @ product_of)
    return float(product_of @ contributions) / length if length > 0 else 0.0


def _shape(numbers: Sequence[Floats], contributions: Floats) -> list[dict[str, Any]]:
    """Return the mean contribution in parts of the nodes, by the mean of each number there."""
    places = []
    for number in numbers:
        cuts = np.quantile(number, np.linspace(0, 1, _BINS[len(numbers)] + 1)[1:-1])
        places.append(np.searchsorted(np.unique(cuts), number, side="right"))
    parts = []
    for part in np.unique(np.stack(places, axis=1), axis=0):
        inside = np.logical_and.reduce([p == at for p, at in zip(places, part, strict=True)])
        parts.append(
            {
                "at": [float(number[inside].mean()) for number in numbers],
                "contribution": float(contributions[inside].mean()),
                "nodes": int(inside.sum()),
            }
        )
    return parts


def are_flags(values: Floats) -> bool:
    """Return whether a column holds nothing but 0 and 1."""
    return bool(((values == 0) | (values == 1)).all())


def are_high(shares: Floats) -> Any:
    """Return which nodes are in the upper quarter, and above the least."""
    return (shares >= np.quantile(shares, 0.75, axis=0)) & (shares > shares.min(axis=0))


def _levels(group: ColumnGroup, values: Floats) -> tuple[list[str], Floats]:
    """Return the values of a column by name, and which nodes have each, ``[nodes, levels]``."""
    names: list[str] = list(group.features)
    if are_flags(values):
        if len(names) > 1:
            return names, values
        return [names[0], f"not {names[0]}"], np.concatenate([values, 1 - values], axis=1)
    if group.is_number:
        ranges = np.flatnonzero(((values == 0) | (values == 1)).all(axis=0))
        if len(ranges) > 1:
            return [names[place] for place in ranges], values[:, ranges]
        low, high = np.quantile(values[:, 0], [0.25, 0.75])
        masks = np.stack([values[:, 0] <= low, values[:, 0] >= high], axis=1)
        return [f"{names[0]} low", f"{names[0]} high"], masks.astype(np.float64)
    return [f"{name} high" for name in names], are_high(values).astype(np.float64)


def _axes(ax: Axes | None, rows: int) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7, 1 + 0.35 * rows), layout="constrained")[1]


def draw_importance(terms: ColumnTerms, output: int, top: int, ax: Axes | None) -> Axes:
    """Draw the strongest terms as bars with error bars, coloured by whose they are."""
    listed = terms.strongest(output)[:top][::-1]
    ax = _axes(ax, len(listed))
    for whose, colour in _COLOURS.items():
        rows = [row for row, term in enumerate(listed) if terms.whose(term) == whose]
        if rows:
            errors = [listed[row].error for row in rows]
            ax.barh(
                rows,
                [float(listed[row].importance[output]) for row in rows],
                xerr=[0.0 if error is None else float(error[output]) for error in errors],
                color=colour,
                label=whose,
            )
    ax.set_yticks(range(len(listed)), [term.name for term in listed])
    ax.set_xlabel(f"importance ({terms.unit})")
    ax.set_title(terms.outputs[output])
    ax.legend()
    return ax


def draw_waterfall(explained: NodeSum, top: int, ax: Axes | None) -> Axes:
    """Draw the way from the average to the score of a node."""
    frame, others = explained.frame.head(top), explained.frame.iloc[top:]
    names, steps = list(frame["term"]), frame["contribution"].tolist()
    if len(others):
        names.append(f"{len(others):,} other terms")
        steps.append(float(others["contribution"].sum()))
    starts = explained.average + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    ax = _axes(ax, len(steps))
    colours = ["#2a7f3f" if step > 0 else "#b3372f" for step in steps]
    rows = range(len(steps))[::-1]
    ax.barh(rows, steps, left=starts, color=colours)
    ax.axvline(explained.average, color="grey", linestyle=":", label="average")
    ax.axvline(explained.score, color="black", label="score")
    ax.set_yticks(rows, names)
    ax.set_xlabel(explained.unit)
    ax.set_title(explained.output)
    ax.legend()
    return ax
