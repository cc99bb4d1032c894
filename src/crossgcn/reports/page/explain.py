"""The terms of a model, and the terms of single nodes, as contents of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from crossgcn.reports.format import Summary
from crossgcn.reports.summaries import describe_shares, summarise_shares

_STEPS, _NEIGHBOURS, _SINGLE, _CROSSES = 8, 12, 60, 20
_ROLES = ("other", "train", "validation", "test", "unlabelled")
_SHORT = re.compile(r"[-+.\d]+|true|false|yes|no", re.IGNORECASE)
"""Names of classes that say nothing without the name of the target."""
_NO_AND_YES = (("no", "yes"), ("false", "true"), ("0", "1"))


def explain_for_page(run: RunFolder, target: str) -> tuple[Explanation | Products | None, str]:
    """Return the explanation of a run; or ``None``, and why there is none."""
    try:
        whole = explain(run)
    except NotASum:
        return None, (
            f"The scores of {run.config.model} are not sums of products of features, so this page "
            "cannot list crosses or explain single nodes."
        )
    if isinstance(whole, Explanation) and not run.data.y.is_floating_point():
        classes = run.saved.preprocess.classes
        against = name_class(target, whole.against, classes)
        outputs = tuple(name_class(target, name, classes) for name in whole.outputs)
        whole = replace(whole, outputs=outputs, against=against)
    return whole, ""


def name_class(target: str, name: str, classes: Sequence[str]) -> str:
    """Return what a class is called: ``late`` and ``not late`` if they are ``yes`` and ``no``.

    Numbers are named with their target: ``grade=3``. Other names stay, as ``the others`` does.
    """
    if name not in classes or not all(map(_SHORT.fullmatch, classes)):
        return name
    if tuple(sorted(each.lower() for each in classes)) in _NO_AND_YES:
        return target if name.lower() in ("yes", "true", "1") else f"not {target}"
    return f"{target}={name}"


def strongest_terms(whole: Explanation) -> list[Summary]:
    """Return the five terms of largest mean importance, with the score each matters most to."""
    return [
        {**term.describe(), "output": whole.outputs[at], **whole.inside(term, at, 2)}
        for term, at in whole.overall()[:5]
    ]


def collect_terms(run: RunFolder, whole: Explanation | Products) -> Summary:
    """Return the strongest terms of each score, with their contributions by value."""
    scores = range(len(whole.outputs))
    content: Summary = {"outputs": whole.outputs, "unit": whole.unit, "against": whole.against}
    if isinstance(whole, Products):
        listed = [{"output": at, **row} for at in scores for row in whole.to_json(_CROSSES, at)]
        return {**content, "items": listed, "count": len(listed), "reason": whole.reason}

    def joint_importance(wanted: Callable[[Term], bool]) -> float:
        total = sum(term.contributions for term in whole.terms if wanted(term))
        return float(np.std(np.atleast_2d(total), axis=0).mean())

    grid_of = cache(whole.grid)
    items = [
        {"output": at, **term.describe(at), **_inside(whole, term, grid_of(term), at)}
        for at in scores
        for are_crosses, most in ((False, _SINGLE), (True, _CROSSES))
        for term in whole.strongest(at, most)
        if (len(term.columns) > 1) == are_crosses
    ]
    return {
        **content,
        "items": items,
        "count": len(whole.terms),
        "num_columns": len(whole.columns),
        "dropped": whole.dropped,
        "limits": whole.explainer.limits,
        "shares": describe_shares(summarise_shares(run, whole)),
        "single": joint_importance(lambda term: len(term.columns) == 1),
        "crosses": joint_importance(lambda term: len(term.columns) > 1),
        "neighbourhood": joint_importance(lambda term: term.scope != "own"),
    }


def _inside(whole: Explanation, term: Term, grid: Grid | None, output: int) -> Summary:
    """Return the mean contribution to a score by value; empty for columns without values."""
    if grid is None:
        return {}
    inside: Summary = {
        "axes": [
            {
                "name": axis.name,
                "labels": axis.labels,
                "at": axis.at,
                "share": axis.is_share,
                "left_out": axis.left_out,
            }
            for axis in grid.axes
        ],
        "counts": grid.counts,
        "means": grid.means[:, output],
        "errors": None if grid.errors is None else grid.errors[:, output],
    }
    if len(grid.axes) == 1 and grid.axes[0].at is not None:
        column = whole.columns[term.key[0]]
        numbers = column.numbers(whole.inputs[:, column.places[0]])
        low, high = np.quantile(numbers, [0.002, 0.998])
        counts, edges = np.histogram(np.clip(numbers, low, high), bins=30)
        inside["histogram"] = {"edges": edges, "counts": counts}
    return inside


def collect_nodes(
    run: RunFolder, whole: Explanation | None, scores: Floats, degree: Ints, most: int
) -> Summary:
    """Explain nodes one by one, mistakes on test nodes first.

    On large graphs the explanation has a sample of the nodes; only these have ``steps``.

    Args:
        scores: The number predicted for each node, or the probability of each class.
        degree: Number of neighbours of each node.
    """
    y, is_number = run.data.y.numpy(), run.data.y.is_floating_point()
    predicted = scores if is_number else scores.argmax(axis=1)
    known = is_labelled(run.data.y).numpy()
    roles = np.where(known, run.roles.numpy(), _ROLES.index("unlabelled"))
    errors = np.where(known, np.abs(y - predicted) if is_number else predicted != y, 0.0)
    chosen = np.lexsort((-errors, roles != _ROLES.index("test")))[:most].tolist()
    truth = np.where(known, y.astype(object), None)
    rows = []
    for node in chosen:
        label = 0 if is_number else int(predicted[node])
        row = {
            "id": run.shown[node],
            "true": truth[node],
            "predicted": predicted[node],
            "probability": None if is_number else scores[node, label],
            "role": _ROLES[roles[node]],
            "degree": degree[node],
        }
        if whole is not None and node in whole.place_of:
            one = NodeExplanation(whole, node, 0 if len(whole.outputs) == 1 else label)
            points = [None] * len(one.terms) if one.points is None else one.points
            steps = list(zip(one.terms, one.values, points, strict=True))[:_STEPS]
            row |= {
                "output": one.place,
                "start": one.average,
                "score": one.score,
                "steps": [
                    [term.name, term.scope, value, "; ".join(one.shown(term)), amount]
                    for term, value, amount in steps
                ],
                "changes": one.changes,
                "near": [
                    [run.shown[near], truth[near], amount, name]
                    for near, amount, name in one.neighbours[:_NEIGHBOURS]
                ],
            }
        rows.append(row)
    meaning = "" if whole is None else whole.explainer.meaning
    is_share = whole is not None and whole.explainer.is_share
    return {"rows": rows, "all": len(y), "meaning": meaning, "share": is_share}
