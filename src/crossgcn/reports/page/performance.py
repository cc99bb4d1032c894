"""How well the models of a run predict their test nodes, as contents of a page.

All splits together: a node counts once for every split that tests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import (
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_curve,
)

from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.reports.format import Summary, count

_MOST_POINTS, _MOST_CURVES, _MOST_CLASSES, _BINS = 1_000, 12, 40, 10
_GRID = np.linspace(0, 1, 61)


def measure_classes(
    y: Ints,
    probabilities: Sequence[Floats],
    tests: Sequence[Ints],
    classes: Sequence[str],
    degree: Ints,
) -> Summary:
    """Measure models of classes; ``probabilities`` are ``[nodes, classes]``, by each model."""
    rows = _test_rows(y, [each.argmax(axis=1) for each in probabilities], tests, degree)
    rows["score"] = rows["predicted"] == rows["true"]
    of_answer = [each[test].max(axis=1) for each, test in zip(probabilities, tests, strict=True)]
    rows["confidence"] = np.concatenate(of_answer)
    bins = rows.groupby((rows["confidence"] * _BINS).astype(int).clip(upper=_BINS - 1)).agg(
        confidence=("confidence", "mean"), right=("score", "mean"), nodes=("score", "size")
    )
    labels = range(len(classes))
    *scores, _ = precision_recall_fscore_support(
        rows["true"], rows["predicted"], labels=labels, zero_division=np.nan
    )
    matrix = confusion_matrix(rows["true"], rows["predicted"], labels=labels)
    tested = matrix.sum(axis=1)
    largest = np.argsort(-tested, kind="stable")
    kept = np.sort(largest[:_MOST_CLASSES])
    drawn = largest[::-1] if len(classes) == 2 else largest[:_MOST_CURVES]  # the rarer of two
    return {
        "measure": "accuracy",
        "tested": len(rows),
        "curves": [
            _curves(y, probabilities, tests, label, classes[label])
            for label in drawn.tolist()
            if 0 < tested[label] < len(rows)
        ],
        "calibration": bins.to_dict("records"),
        "confusion": {
            "names": [classes[label] for label in kept],
            "counts": matrix[np.ix_(kept, kept)],
            "left_out": len(classes) - len(kept),
        },
        "by_class": [
            {
                "name": classes[label],
                "nodes": (y == label).sum(),
                "tested": tested[label],
                "scores": [each[label] for each in scores],
            }
            for label in labels
        ],
        "by_degree": _by_degree(rows),
    }


def measure_numbers(
    y: Floats, numbers: Sequence[Floats], tests: Sequence[Ints], degree: Ints
) -> Summary:
    """Measure models of a number; ``numbers`` are those of all nodes by each model."""
    rows = _test_rows(y, numbers, tests, degree)
    missed = rows["true"] - rows["predicted"]
    rows["score"] = missed**2
    shown = np.unique(np.linspace(0, len(rows) - 1, _MOST_POINTS).round().astype(int))
    return {
        "measure": "RMSE",
        "tested": len(rows),
        "points": rows[["true", "predicted"]].to_numpy()[shown],
        "middle": missed.abs().median(),
        "by_degree": _by_degree(rows, root=True),
    }


def _test_rows(
    y: Any, predicted: Sequence[Any], tests: Sequence[Ints], degree: Ints
) -> pd.DataFrame:
    """Return a row for each test node of each split."""
    rows = [
        {"split": split, "true": y[test], "predicted": values[test], "degree": degree[test]}
        for split, (values, test) in enumerate(zip(predicted, tests, strict=True))
    ]
    return pd.concat(map(pd.DataFrame, rows), ignore_index=True)


def _by_degree(rows: pd.DataFrame, *, root: bool = False) -> list[Summary]:
    """Return the mean score by split, or its root, for ranges of the number of neighbours.

    Each range is twice as wide as the last.
    """
    ends = 2 ** np.arange(int(rows["degree"].max()).bit_length() + 1) - 1
    more = [f"{low + 1:,} to {high:,} neighbours" for low, high in pairwise(ends[1:])]
    names = [count(0, "neighbour"), count(1, "neighbour"), *more][: len(ends)]
    part = pd.cut(rows["degree"], [-1, *ends.tolist()], labels=names)
    found = []
    for name, inside in rows.groupby(part, observed=True):
        means = inside.groupby("split")["score"].mean()
        values = np.sqrt(means) if root else means
        found.append({"name": name, "nodes": len(inside), "values": values.to_numpy()})
    return found


def _curves(
    y: Ints, probabilities: Sequence[Floats], tests: Sequence[Ints], label: int, name: str
) -> Summary:
    """Return ROC and precision-recall curves of one class against the others, by split."""
    roc, precision = [], []
    for values, test in zip(probabilities, tests, strict=True):
        truth = y[test] == label
        if not truth.any() or truth.all():
            continue
        false_rate, true_rate, _ = roc_curve(truth, values[test, label])
        roc.append(np.interp(_GRID, false_rate, true_rate))
        exact, found, _ = precision_recall_curve(truth, values[test, label])
        place = np.searchsorted(-found, -_GRID, side="right") - 1  # the last with such a recall
        precision.append(exact[np.maximum(place, 0)])
    share = np.mean([(y[test] == label).mean() for test in tests])
    return {"name": name, "roc": roc, "precision": precision, "share": share}
