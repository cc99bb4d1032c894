"""How well the models of a run predict their test nodes, as contents of a page.

Splits are pooled: a node counts once for every split that tests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from crossgcn.data.splits import Split
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.reports.format import Summary, count
from crossgcn.training.calibration import Misses, judge

_MOST_POINTS, _BINS = 1_000, 10


def measure_classes(
    y: Ints,
    probabilities: Sequence[Floats],
    tests: Sequence[Ints],
    classes: Sequence[str],
    degree: Ints,
) -> Summary:
    """Measure classifiers; ``probabilities`` has an array ``[nodes, classes]`` per model."""
    rows = _test_rows(y, [each.argmax(axis=1) for each in probabilities], tests, degree)
    rows["score"] = rows["predicted"] == rows["true"]
    confidences = [each[test].max(axis=1) for each, test in zip(probabilities, tests, strict=True)]
    rows["confidence"] = np.concatenate(confidences)
    bins = rows.groupby((rows["confidence"] * _BINS).astype(int).clip(upper=_BINS - 1)).agg(
        confidence=("confidence", "mean"), correct=("score", "mean"), nodes=("score", "size")
    )
    labels = range(len(classes))
    *scores, _ = precision_recall_fscore_support(
        rows["true"], rows["predicted"], labels=labels, zero_division=np.nan
    )
    matrix = confusion_matrix(rows["true"], rows["predicted"], labels=labels)
    tested = matrix.sum(axis=1)
    return {
        "measure": "accuracy",
        "tested": len(rows),
        "calibration": bins.to_dict("records"),
        "confusion": matrix,
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
    """Measure models of a number; ``numbers`` has an array of predictions per model."""
    rows = _test_rows(y, numbers, tests, degree)
    errors = rows["true"] - rows["predicted"]
    rows["score"] = errors**2
    shown = np.unique(np.linspace(0, len(rows) - 1, _MOST_POINTS).round().astype(int))
    return {
        "measure": "RMSE",
        "tested": len(rows),
        "points": rows[["true", "predicted"]].to_numpy()[shown],
        "median_error": errors.abs().median(),
        "by_degree": _by_degree(rows, root=True),
    }


def measure_coverage(
    y: Floats | Ints, scored: Sequence[Sequence[Floats]], splits: Sequence[Split]
) -> list[Any]:
    """Return the share of test nodes inside intervals or sets; ``scored`` is by each model."""
    rows = []
    for (scores, spread), split in zip(scored, splits, strict=True):
        held_out, test = split.validation.numpy(), split.test.numpy()
        if len(held_out) < 19:  # too few for 95 %
            return []
        misses = Misses.measure(y[held_out], scores[held_out], spread[held_out])
        for promise in (80, 90, 95):
            answers = misses.predict(scores[test], spread[test], promise / 100)
            rows.append((promise, *judge(answers, y[test])))
    means = pd.DataFrame(rows, columns=["promise", "inside", "size"]).groupby("promise").mean()
    return means.reset_index().to_dict("records")


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
    """Return the mean score of each split, or its root, for ranges of the number of neighbours."""
    found = []
    for size, inside in rows.groupby(rows["degree"].map(int.bit_length)):
        low, high = 2**size // 2, 2**size - 1
        name = count(high, "neighbour") if high < 2 else f"{low:,} to {high:,}"
        means = inside.groupby("split")["score"].mean()
        values = np.sqrt(means) if root else means
        found.append({"name": name, "nodes": len(inside), "values": values.to_numpy()})
    return found
