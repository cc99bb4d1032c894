"""The terms of a model and single nodes taken apart, as contents of a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from crossgcn.data.graph import is_labelled
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.api import explain
from crossgcn.explanation.inside import Grid
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import Floats, Ints, NotASum
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation, Term
from crossgcn.reports.format import Summary, shorten
from crossgcn.reports.summaries import describe_shares, summarise_shares

_STEPS, _NEIGHBOURS, _CROSSES = 8, 12, 20
_CHANGE = ("outcome", "column", "before", "after")
_ROLES = ("other", "train", "validation", "test", "unlabelled")
_SHORT = re.compile(r"[-+.\d]+|true|false|yes|no", re.IGNORECASE)
"""Names of classes that say nothing without that of their column."""


def explain_for_page(run: RunFolder, target: str) -> tuple[Explanation | Products | None, str]:
    """Return what explains a run, or ``None`` and a sentence that says why nothing does."""
    try:
        whole = explain(run)
    except NotASum:
        return None, (
            f"The scores of {run.config.model} are not sums of products of features, so this page "
            "cannot list crosses or explain single nodes."
        )
    has_classes = isinstance(whole, Explanation) and not run.data.y.is_floating_point()
    if has_classes and all(map(_SHORT.fullmatch, whole.outputs)):
        whole = replace(whole, outputs=tuple(f"{target}={name}" for name in whole.outputs))
    return whole, ""


def importance_in_words(whole: Explanation) -> str:
    """Say how much single columns, crosses and the neighbourhood matter."""

    def together(wanted: Callable[[Term], bool]) -> str:
        chosen = [term.contributions for term in whole.terms if wanted(term)]
        total = np.sum(chosen, axis=0) if chosen else np.zeros(whole.scores.shape)
        return f"{total.std(axis=0).mean():.2g}"

    unit = "" if whole.unit == "margin" else f" ({whole.unit})"
    near = ""
    if any(term.scope != "own" for term in whole.terms):
        near = f"; terms with the neighbourhood {together(lambda term: term.scope != 'own')}"
    return (
        "In this model single columns together have an importance of "
        f"{together(lambda term: len(term.columns) == 1)}{unit}, crosses "
        f"{together(lambda term: len(term.columns) > 1)}{near}. Importance is the standard "
        "deviation over nodes of what a term adds to the score."
    )


def strongest_terms(whole: Explanation) -> list[Summary]:
    """Return the five terms that matter most over all scores, with what they do in words."""
    ranked = sorted(whole.terms, key=lambda term: -float(term.importance.mean()))[:5]
    return [
        {
            "name": shorten(term.name),
            "scope": term.scope,
            "importance": f"{term.importance.mean():.3g}",
            "error": None if term.error is None else f"{term.error.mean():.2g}",
            "share": term.importance.mean() / max(ranked[0].importance.mean(), 1e-12),
            "words": _in_words(whole, term, int(term.importance.argmax())),
        }
        for term in ranked
    ]


def _in_words(whole: Explanation, term: Term, output: int) -> str:
    """Say what a term does to a score."""
    inside = whole.inside(term, output, 2)
    name = shorten(whole.outputs[output], 60)
    more, less = f"more likely {name}", f"less likely {name}"
    if whole.unit == whole.outputs[output]:
        more, less = f"larger {name}", f"smaller {name}"
    if "slope" not in inside:
        return "; ".join(
            f"{shorten(' and '.join(cell['names']), 80)}: "
            f"{more if cell['contribution'] > 0 else less} ({cell['contribution']:+.2g})"
            for cell in inside["cells"]
        )
    words = more if inside["slope"] > 0 else less
    if len(term.columns) == 1:
        return f"the higher, the {words}"
    return f"both high or both low: {words} than each alone says" if len(term.columns) == 2 else ""


def collect_terms(run: RunFolder, whole: Explanation | Products) -> Summary:
    """Return the strongest terms of each score with what is inside."""
    outputs = range(len(whole.outputs))
    content: Summary = {
        "outputs": [shorten(name) for name in whole.outputs],
        "unit": shorten(whole.unit),
    }
    if isinstance(whole, Products):
        items = [_item(row, at) for at in outputs for row in whole.to_json(_CROSSES, output=at)]
        return {**content, "items": items, "count": len(items), "reason": whole.reason}
    items, grid_of = [], cache(whole.grid)
    for at in outputs:
        listed = [term for term in whole.strongest(at, 3 * _CROSSES) if len(term.columns) == 1]
        listed += [term for term in whole.strongest(at, _CROSSES) if len(term.columns) > 1]
        for term in listed:
            items.append(_item(term.describe(at), at) | _inside(whole, term, grid_of(term), at))
    return {
        **content,
        "items": items,
        "count": len(whole.terms),
        "num_columns": len(whole.columns),
        "dropped": [shorten(name) for name in whole.dropped],
        "limits": whole.explainer.limits,
        "shares": describe_shares(summarise_shares(run, whole)),
    }


def _item(row: Summary, output: int) -> Summary:
    return {
        "output": output,
        "columns": [shorten(name) for name in row["columns"]],
        "scope": row["scope"],
        "importance": row["importance"],
        "error": row["error"],
    }


def _inside(whole: Explanation, term: Term, grid: Grid | None, output: int) -> Summary:
    """Return the mean contribution to a score by value; empty for columns without values."""
    if grid is None:
        return {}
    columns = [whole.columns[place] for place in term.key]
    is_of_neighbours = term.scope != "own" and whole.explainer.near is not None and len(columns) > 1
    inside: Summary = {
        "axes": [
            {
                "name": shorten(axis.name),
                "labels": [shorten(label, 60) for label in axis.labels],
                "at": axis.at,
                "share": axis.is_share or is_of_neighbours,
                "left_out": axis.left_out,
            }
            for axis in grid.axes
        ],
        "counts": grid.counts,
        "means": grid.means[:, output],
        "errors": None if grid.errors is None else grid.errors[:, output],
    }
    if len(columns) == 1 and grid.axes[0].at is not None:
        numbers = columns[0].numbers(whole.inputs[:, columns[0].places[0]])
        low, high = np.quantile(numbers, [0.002, 0.998])
        counts, edges = np.histogram(np.clip(numbers, low, high), bins=30)
        inside["histogram"] = {"edges": edges, "counts": counts}
    return inside


def collect_nodes(
    run: RunFolder, whole: Explanation | None, scores: Floats, degree: Ints, most: int
) -> Summary:
    """Explain nodes one by one, mistakes on test nodes first.

    Nodes that are not in the explanation are not taken apart: large graphs have a sample.

    Args:
        scores: The number predicted for each node, or the probability of each class.
        degree: Number of neighbours of each node.
    """
    y, is_number = run.data.y.numpy(), run.data.y.is_floating_point()
    predicted = scores if is_number else scores.argmax(axis=1)
    known = is_labelled(run.data.y).numpy()
    roles = np.where(known, run.roles.numpy(), _ROLES.index("unlabelled"))
    wrong = np.abs(np.where(known, y - predicted, 0.0) if is_number else known & (predicted != y))
    is_test = roles == _ROLES.index("test")
    chosen = np.lexsort((-wrong.astype(float), ~is_test))[:most].tolist()

    truth = [value if is_known else None for value, is_known in zip(y.tolist(), known, strict=True)]
    rows = []
    for node in chosen:
        label = 0 if is_number else int(predicted[node])
        row = {
            "id": shorten(run.shown[node]),
            "true": truth[node],
            "predicted": predicted[node],
            "probability": None if is_number else scores[node, label],
            "role": _ROLES[roles[node]],
            "degree": degree[node],
        }
        if whole is not None and node in whole.place_of:
            one = NodeExplanation(whole, node, 0 if len(whole.outputs) == 1 else label)
            steps = zip(one.terms[:_STEPS], one.values[:_STEPS], strict=True)
            row |= {
                "output": one.place,
                "start": one.average,
                "score": one.score,
                "steps": [[shorten(term.name), term.scope, value] for term, value in steps],
                "changes": [
                    {name: shorten(change[name]) for name in _CHANGE} for change in one.changes
                ],
                "near": [
                    [shorten(run.shown[near]), truth[near], amount]
                    for near, amount in one.neighbours[:_NEIGHBOURS]
                ],
            }
        rows.append(row)
    meaning = "" if whole is None else whole.explainer.meaning
    return {"rows": rows, "all": len(y), "meaning": meaning}
