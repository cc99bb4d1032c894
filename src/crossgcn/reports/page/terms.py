"""The terms of a model as content of a page: how important they are, and what is inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crossgcn.explanation.inside import make_grid
from crossgcn.explanation.polynomial import Floats
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation, Term
from crossgcn.reports.format import round4, shorten


def pack_terms(whole: Explanation, most: int) -> dict[str, Any]:
    """Return the terms for the page.

    Args:
        most: How many terms of two columns, and of three, are listed for each score; three
            times as many of one column.
    """
    listed: dict[int, list[int]] = {}
    every = {id(term): term for term in whole.terms}
    for output in range(len(whole.outputs)):
        seen: dict[int, int] = {}
        for term in whole.strongest(output):
            size = len(term.key)
            seen[size] = seen.get(size, 0) + 1
            if seen[size] <= (3 * most if size == 1 else most):
                listed.setdefault(id(term), []).append(output)
    items = [_pack_term(whole, every[each], outputs) for each, outputs in listed.items()]
    return {
        "outputs": [shorten(name) for name in whole.outputs],
        "unit": shorten(whole.unit),
        "items": items,
        "count": len(whole.terms),
    }


def pack_products(found: Products, most: int) -> dict[str, Any]:
    """Return products of features as terms that have one cell each, or none."""
    items = []
    for row in found.to_json(most):
        output = found.outputs.index(row["class"])
        items.append(
            {
                "columns": [shorten(name) for name in row["columns"]],
                "whose": row["scope"],
                "importance": {output: round4(row["importance"])},
                "error": None if row["error"] is None else {output: round4(row["error"])},
            }
        )
    return {
        "outputs": [shorten(name) for name in found.outputs],
        "unit": found.unit,
        "items": items,
        "count": len(items),
        "reason": found.reason,
    }


def _pack_term(whole: Explanation, term: Term, outputs: Sequence[int]) -> dict[str, Any]:
    def by_output(values: Any) -> dict[int, Any]:
        return {
            output: round4(values[..., output]) if np.ndim(values) > 1 else round4(values[output])
            for output in outputs
        }

    packed: dict[str, Any] = {
        "columns": [shorten(name) for name in term.columns],
        "whose": term.scope,
        "importance": by_output(term.importance),
        "error": None if term.error is None else by_output(term.error),
    }
    grid = make_grid(whole, term)
    if grid is None:
        return packed
    columns = [whole.columns[place] for place in term.key]
    neighbours_seen = term.scope != "own" and whole.neighbours is not None and len(columns) > 1
    packed["axes"] = [
        {
            "name": shorten(axis.name),
            "labels": [shorten(label, 60) for label in axis.labels],
            "at": None if axis.at is None else round4(axis.at),
            "share": axis.is_share or neighbours_seen,
            "left_out": axis.left_out,
        }
        for axis in grid.axes
    ]
    packed["counts"] = grid.counts.tolist()
    packed["means"] = by_output(grid.means)
    if grid.errors is not None:
        packed["errors"] = by_output(grid.errors)
    if len(columns) == 1 and grid.axes[0].at is not None:
        numbers = columns[0].numbers(whole.inputs[:, columns[0].places[0]])
        packed["histogram"] = _histogram(numbers)
    return packed


def _histogram(numbers: Floats) -> dict[str, list[Any]]:
    low, high = np.quantile(numbers, [0.002, 0.998])
    counts, edges = np.histogram(np.clip(numbers, low, high), bins=30)
    return {"edges": round4(edges), "counts": counts.tolist()}
