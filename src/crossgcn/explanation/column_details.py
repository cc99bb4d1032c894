"""What is inside a term of columns: its largest cells, or the slope of a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from crossgcn.explanation.columns import CROSS, WHOSE, ColumnGroup, ColumnTerm, ColumnTerms
from crossgcn.explanation.reading import Bools, Floats

_CELLS = 5
_MOST_COMBINATIONS = 2000


def describe_term(
    terms: ColumnTerms, term: ColumnTerm, output: int = 0, top: int = _CELLS
) -> dict[str, Any]:
    """Return ``slope`` if all columns are numbers, else ``cells``.

    The slope is the change of the score per standard deviation of the number, or of the product
    of the standardised numbers. A cell is a combination of one value per column, with the mean
    contribution of its nodes; a number, or a share of neighbours, is ``high`` in the upper
    quarter of nodes and ``low`` in the lower one. The cells that matter most come first: those
    of the largest contribution times the square root of the number of nodes.
    """
    groups = [terms.groups[group] for group in term.groups]
    values = [terms.values[:, group.columns] for group in groups]
    contributions = term.contributions[:, output]
    is_number = [
        group.is_number and not _are_flags(each) for group, each in zip(groups, values, strict=True)
    ]
    if all(is_number):
        return {"slope": _slope([each[:, 0] for each in values], contributions)}
    most = int(_MOST_COMBINATIONS ** (1 / len(groups)))
    levels = [
        sorted(_levels(group, each), key=lambda level: -level[1].sum())[:most]
        for group, each in zip(groups, values, strict=True)
    ]
    cells: list[dict[str, Any]] = []
    for combination in product(*levels):
        inside = np.logical_and.reduce([mask for _, mask in combination])
        count = int(inside.sum())
        if count:
            mean = float(contributions[inside].mean())
            names = [name for name, _ in combination]
            cells.append({"names": names, "contribution": mean, "nodes": count})
    cells.sort(key=lambda cell: -abs(cell["contribution"]) * cell["nodes"] ** 0.5)
    return {"cells": cells[:top]}


def term_records(
    terms: ColumnTerms, output: int, top: int, order: int | None = None
) -> list[dict[str, Any]]:
    """Return the most important terms of one score, as ``explain --json`` lists them."""
    strongest = [t for t in terms.strongest(output) if order is None or len(t.columns) == order]
    return [
        {
            "class": terms.outputs[output],
            "columns": list(term.columns),
            "whose": terms.whose(term),
            "importance": float(term.importance[output]),
            "error": None if term.error is None else float(term.error[output]),
            **describe_term(terms, term, output),
        }
        for term in strongest[:top]
    ]


def predicted_output(terms: ColumnTerms, node: int) -> int:
    """Return the score to explain of a node: that of its predicted class."""
    return int(terms.scores[_row_of(terms, node)].argmax())


def terms_frame(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the terms of :func:`term_records` as a table, one row per term."""
    names = ["class", "term", "whose", "importance", "error", "slope", "cells"]
    rows = [
        row
        | {
            "term": CROSS.join(row["columns"]),
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
    """

    output: str
    unit: str
    average: float
    score: float
    frame: pd.DataFrame

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


def node_sum(terms: ColumnTerms, node: int, output: int) -> NodeSum:
    """Return one score of one node as a sum."""
    row = _row_of(terms, node)
    listed = [*terms.terms, *([] if terms.rest is None else [terms.rest])]
    frame = pd.DataFrame(
        {
            "term": [term.name for term in listed],
            "columns": [term.columns for term in listed],
            "whose": [terms.whose(term) for term in listed],
            "contribution": [float(term.contributions[row, output]) for term in listed],
        }
    ).sort_values("contribution", key=lambda values: -values.abs(), ignore_index=True)
    score, average = float(terms.scores[row, output]), float(terms.average[output])
    return NodeSum(terms.outputs[output], terms.unit, average, score, frame)


def _row_of(terms: ColumnTerms, node: int) -> int:
    return int(np.flatnonzero(terms.nodes == node)[0])


def _slope(numbers: Sequence[Floats], contributions: Floats) -> float:
    product_of = np.ones(len(contributions))
    for number in numbers:
        centered = number - number.mean()
        product_of = product_of * (centered / max(float(centered.std()), 1e-12))
    product_of = product_of - product_of.mean()
    length = float(product_of @ product_of)
    return float(product_of @ contributions) / length if length > 0 else 0.0


def _are_flags(values: Floats) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _levels(group: ColumnGroup, values: Floats) -> list[tuple[str, Bools]]:
    """Return the values of a column by name, and which nodes have each."""
    if _are_flags(values):
        levels = [(name, values[:, i] == 1) for i, name in enumerate(group.features)]
        if len(levels) == 1:
            levels.append((f"not {group.features[0]}", values[:, 0] == 0))
        return levels
    if group.is_number:
        low, high = np.quantile(values[:, 0], [0.25, 0.75])
        name = group.features[0]
        return [(f"{name} low", values[:, 0] <= low), (f"{name} high", values[:, 0] >= high)]
    lower, upper = values.min(axis=0), np.quantile(values, 0.75, axis=0)
    return [
        (f"{name} high", (values[:, i] >= upper[i]) & (values[:, i] > lower[i]))
        for i, name in enumerate(group.features)
    ]
