"""The terms of a model as content of a page: how important they are, and what is inside."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from crossgcn.explanation.column_details import are_flags, are_high, describe_term
from crossgcn.explanation.columns import ColumnGroup, ColumnTerm, ColumnTerms
from crossgcn.explanation.reading import Floats
from crossgcn.reports.format import shorten

_MOST_NODES = 20_000
"""Of more nodes, an even sample is drawn."""
_LEVELS = {1: (24, 30), 2: (8, 12), 3: (4, 6)}
"""Into how many parts a number is cut, and how many categories are shown, by size of the term."""


class _Axis(NamedTuple):
    """The values of one column: their names, which nodes have each, and, of numbers, the means."""

    labels: list[str]
    masks: Floats
    at: list[float] | None = None
    is_share: bool = False
    left_out: int = 0


def brief(value: float) -> float:
    """Round a number to four digits, for small JSON."""
    return float(f"{value:.4g}") + 0.0


def briefs(values: Any) -> list[float]:
    """Round numbers to four digits."""
    return [brief(value) for value in np.asarray(values, np.float64).tolist()]


def pack_terms(terms: ColumnTerms, most: int) -> dict[str, Any]:
    """Return the terms for the page.

    Args:
        most: How many terms of two columns, and of three, are listed for each score; three
            times as many of one column.
    """
    listed: dict[int, list[int]] = {}
    every = {id(term): term for term in terms.terms}
    sizes = sorted({len(term.groups) for term in terms.terms})
    for output in range(len(terms.outputs)):
        for size in sizes:
            found = [t for t in terms.strongest(output) if len(t.groups) == size]
            for term in found[: 3 * most if size == 1 else most]:
                listed.setdefault(id(term), []).append(output)
    items = [_pack_term(terms, every[each], outputs) for each, outputs in listed.items()]
    rest = None if terms.rest is None else briefs(terms.rest.importance)
    return {
        "outputs": [shorten(name) for name in terms.outputs],
        "unit": shorten(terms.unit),
        "items": items,
        "count": len(terms.terms),
        "unlisted": sum(terms.num_unlisted.values()),
        "rest": rest,
        "nodes": len(terms.nodes),
    }


def together(terms: ColumnTerms, chosen: Sequence[ColumnTerm]) -> Floats:
    """Return the importance of some terms together, ``[outputs]``."""
    if not chosen:
        return np.zeros(len(terms.outputs))
    return np.asarray(sum(term.contributions for term in chosen).std(axis=0))  # type: ignore[union-attr]


def describe_in_words(terms: ColumnTerms, term: ColumnTerm, output: int) -> str:
    """Return in a few words what a term does to a score."""
    inside = describe_term(terms, term, output, top=2)
    name = shorten(terms.outputs[output], 60)
    more, less = f"more likely {name}", f"less likely {name}"
    if terms.unit == terms.outputs[output]:
        more, less = f"larger {name}", f"smaller {name}"
    if "slope" in inside:
        words = more if inside["slope"] > 0 else less
        if len(term.columns) == 1:
            return f"the higher, the {words}"
        return (
            f"both high or both low: {words} than each alone says" if len(term.columns) == 2 else ""
        )
    return "; ".join(
        f"{shorten(' and '.join(cell['names']), 80)}: {more if cell['contribution'] > 0 else less} "
        f"({cell['contribution']:+.2g})"
        for cell in inside["cells"]
    )


def _pack_term(terms: ColumnTerms, term: ColumnTerm, outputs: Sequence[int]) -> dict[str, Any]:
    packed: dict[str, Any] = {
        "columns": [shorten(name) for name in term.columns],
        "whose": terms.whose(term),
        "importance": {output: brief(float(term.importance[output])) for output in outputs},
        "error": None
        if term.error is None
        else {output: brief(float(term.error[output])) for output in outputs},
    }
    groups = [terms.groups[group] for group in term.groups]
    if not groups or len(groups) > max(_LEVELS) or not all(len(g.columns) for g in groups):
        return packed
    every = slice(None, None, ceil(len(terms.nodes) / _MOST_NODES))
    around = None if terms.whose(term) == "own" else terms.neighbours
    inputs = terms.inputs
    if around is not None and len(groups) == 1:
        total = np.maximum(np.asarray(around.sum(axis=1)).reshape(-1, 1), 1e-12)
        inputs, around = (around @ inputs) / total, None
    contributions = term.contributions[:, outputs]
    axes = [_axis(group, inputs[:, group.columns], len(groups), contributions) for group in groups]
    inside: Any = np.ones((len(inputs), 1), np.float32)
    for axis in axes:
        inside = (inside[:, :, np.newaxis] * axis.masks[:, np.newaxis]).reshape(len(inside), -1)
    if around is not None:
        inside = are_high(np.asarray(around @ inside)).astype(np.float32)
    inside = inside[every]
    counts = inside.sum(axis=0)
    size = np.maximum(counts, 1)
    packed["axes"] = [
        {
            "name": shorten(group.name),
            "labels": axis.labels,
            "at": axis.at,
            "share": axis.is_share or around is not None,
            "left_out": axis.left_out,
        }
        for group, axis in zip(groups, axes, strict=True)
    ]
    packed["counts"] = counts.astype(int).tolist()
    packed["means"] = {
        output: briefs(term.contributions[every, output] @ inside / size) for output in outputs
    }
    if term.spread is not None:
        packed["errors"] = {
            output: briefs(term.spread[every, output] @ inside / size) for output in outputs
        }
    if len(groups) == 1 and axes[0].at is not None:
        packed["histogram"] = _histogram(_numbers(groups[0], inputs[every, groups[0].columns[0]]))
    return packed


def _axis(group: ColumnGroup, values: Floats, size: int, contributions: Floats) -> _Axis:
    """Return the values of one column; of many categories, those that matter most.

    Args:
        size: Number of columns of the term.
        contributions: Of the term, ``[nodes, outputs]``.
    """
    parts, most = _LEVELS[size]
    names = [shorten(_value(name, group.name), 60) for name in group.features]
    flags = are_flags(values)
    if group.is_number and not flags:
        return _number_axis(group, values, parts)
    if flags and len(names) == 1:
        return _Axis(["yes", "no"], np.concatenate([values, 1 - values], axis=1))
    if not flags:
        values = are_high(values).astype(np.float64)
    counts = values.sum(axis=0)
    if size == 1:
        matters = np.abs(contributions.T @ values) / np.sqrt(np.maximum(counts, 1))
    else:  # Over the nodes with one value, a cross has the mean 0.
        matters = np.square(contributions).T @ values
    chosen = np.argsort(-matters.sum(axis=0), kind="stable")[:most]
    kept = chosen[counts[chosen] > 0]
    kept = kept[np.argsort(-counts[kept], kind="stable")]
    return _Axis(
        [names[each] for each in kept],
        values[:, kept],
        is_share=not flags,
        left_out=len(names) - len(kept),
    )


def _value(feature: str, column: str) -> str:
    """Return the value that a feature stands for: ``female`` of ``gender=female``."""
    own = column.partition(": ")[2]  # Features of neighbours may be called as their own.
    for start in (f"{column}=", f"{column}:", f"{own}=", f"{own}:"):
        if feature.startswith(start) and len(start) > 1:
            return feature.removeprefix(start)
    return feature


def _number_axis(group: ColumnGroup, values: Floats, parts: int) -> _Axis:
    numbers = _numbers(group, values[:, 0])
    gone = [at for at, name in enumerate(group.features) if name == f"{group.name}=(missing)"]
    missing = values[:, gone].sum(axis=1) == 1 if gone else np.zeros(len(numbers), bool)
    known = numbers[~missing] if not missing.all() else numbers
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, parts + 1)[1:-1]))
    places = np.searchsorted(cuts, numbers, side="right")
    masks, labels, at = [], [], []
    for place in np.unique(places[~missing]):
        mask = (places == place) & ~missing
        low, high = (numbers[mask].min(), numbers[mask].max())
        ends = [number_text(low), number_text(high)]
        labels.append(ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}")
        at.append(brief(float(numbers[mask].mean())))
        masks.append(mask)
    if missing.any():
        masks.append(missing)
        labels.append("missing")
    return _Axis(labels, np.stack(masks, axis=1).astype(np.float32), at)


def number_text(value: float) -> str:
    """Return a number as it stands at an axis: ``1,234``, ``0.0123``, ``5.6M``."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _numbers(group: ColumnGroup, values: Floats) -> Floats:
    """Return numbers in their own unit."""
    numbers: Floats = group.scale[0] + group.scale[1] * values
    return np.expm1(numbers) if group.is_log else numbers


def _histogram(numbers: Floats) -> dict[str, list[Any]]:
    low, high = np.quantile(numbers, [0.002, 0.998])
    counts, edges = np.histogram(np.clip(numbers, low, high), bins=30)
    return {"edges": briefs(edges), "counts": counts.tolist()}
