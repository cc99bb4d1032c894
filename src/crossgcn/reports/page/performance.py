"""How well the models of a run predict their test nodes, as content of a page.

All splits together: a node counts once for every split that tests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from crossgcn.explanation.columns import number_text
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.reports.format import count, round4, shorten

_MOST_POINTS, _MOST_CURVES, _MOST_CLASSES, _BINS, _PARTS = 1_000, 12, 40, 10, 5
_GRID = np.linspace(0, 1, 61)


def measure_classes(
    y: Ints,
    probabilities: Sequence[Floats],
    tests: Sequence[Ints],
    classes: Sequence[str],
    degree: Ints,
    predicted: Sequence[Ints],
) -> dict[str, Any]:
    """Measure models of classes.

    Args:
        probabilities: Of each class, ``[nodes, classes]``, by each model.
        predicted: Class of each node by each model.
    """
    names = [shorten(name) for name in classes]
    truth = np.concatenate([y[test] for test in tests])
    answers = np.concatenate([each[t] for each, t in zip(predicted, tests, strict=True)])
    chances = np.concatenate([each[t] for each, t in zip(probabilities, tests, strict=True)])
    matrix = confusion_matrix(truth, answers, labels=range(len(classes)))
    support, taken, right = matrix.sum(axis=1), matrix.sum(axis=0), np.diagonal(matrix)
    largest = np.argsort(-support, kind="stable")
    kept = np.sort(largest[:_MOST_CLASSES])
    order = largest[::-1] if len(classes) == 2 else largest[:_MOST_CURVES]  # the rarer of two
    return {
        "measure": "accuracy",
        "tested": len(truth),
        "curves": [
            _curves(y, probabilities, tests, label, names[label])
            for label in order.tolist()
            if 0 < support[label] < len(truth)
        ],
        "calibration": _calibrate(chances[np.arange(len(truth)), answers], answers == truth),
        "confusion": {
            "names": [names[label] for label in kept],
            "counts": matrix[np.ix_(kept, kept)].tolist(),
            "left_out": len(classes) - len(kept),
        },
        "by_class": [
            {
                "name": names[label],
                "nodes": int((y == label).sum()),
                "tested": int(support[label]),
                "precision": _share(right[label], taken[label]),
                "recall": _share(right[label], support[label]),
                "f1": _share(2 * right[label], support[label] + taken[label]),
            }
            for label in range(len(classes))
        ],
        "by_degree": _by_part(
            [degree[test] for test in tests],
            [each[t] == y[t] for each, t in zip(predicted, tests, strict=True)],
            np.mean,
            _degree_parts(degree),
        ),
    }


def measure_numbers(
    y: Floats, numbers: Sequence[Floats], tests: Sequence[Ints], degree: Ints
) -> dict[str, Any]:
    """Measure models of a number; ``numbers`` are those of all nodes by each model."""
    truth = np.concatenate([y[test] for test in tests])
    answers = np.concatenate([each[t] for each, t in zip(numbers, tests, strict=True)])
    kept = np.unique(np.linspace(0, len(truth) - 1, _MOST_POINTS).round().astype(int))
    missed = [y[t] - each[t] for each, t in zip(numbers, tests, strict=True)]
    cuts = np.unique(np.quantile(truth, np.linspace(0, 1, _PARTS + 1)))
    ends = [*cuts[1:-1].tolist(), np.inf]
    parts = [
        (f"{number_text(low)} to {number_text(high)}", below, above)
        for low, high, below, above in zip(
            cuts[:-1].tolist(), cuts[1:].tolist(), [-np.inf, *ends[:-1]], ends, strict=False
        )
    ]
    return {
        "measure": "RMSE",
        "tested": len(truth),
        "points": [round4(pair) for pair in np.stack([truth, answers], axis=1)[kept]],
        "middle": round4(float(np.median(np.abs(truth - answers)))) if len(truth) else None,
        "by_degree": _by_part(
            [degree[test] for test in tests], missed, _root_mean_square, _degree_parts(degree)
        ),
        "by_target": _by_part([y[test] for test in tests], missed, _root_mean_square, parts),
    }


def _root_mean_square(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _share(part: int, whole: int) -> float | None:
    return round4(part / whole) if whole else None


def _curves(
    y: Ints, probabilities: Sequence[Floats], tests: Sequence[Ints], label: int, name: str
) -> dict[str, Any]:
    """Return ROC and precision-recall curves of one class against the others, by split."""
    roc, precision = [], []
    for chances, test in zip(probabilities, tests, strict=True):
        truth = y[test] == label
        if not truth.any() or truth.all():
            continue
        false_rate, true_rate, _ = roc_curve(truth, chances[test, label])
        roc.append(round4(np.interp(_GRID, false_rate, true_rate)))
        exact, found, _ = precision_recall_curve(truth, chances[test, label])
        place = np.searchsorted(-found, -_GRID, side="right") - 1  # the last with such a recall
        precision.append(round4(exact[np.maximum(place, 0)]))
    share = float(np.mean([(y[test] == label).mean() for test in tests]))
    return {"name": name, "roc": roc, "precision": precision, "share": round4(share)}


def _calibrate(confidence: Floats, right: Any) -> dict[str, Any]:
    """Compare how sure the models are with how often they are right."""
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    rows = [
        {
            "confidence": round4(float(confidence[bins == each].mean())),
            "right": round4(float(right[bins == each].mean())),
            "nodes": int((bins == each).sum()),
        }
        for each in np.unique(bins)
    ]
    return {"bins": rows}


def _degree_parts(degree: Ints) -> list[tuple[str, float, float]]:
    """Return ranges of numbers of neighbours, each twice as wide as the last."""
    parts, low = [(count(0, "neighbour"), -1.0, 1.0)], 1
    while low <= degree.max(initial=0):
        words = count(1, "neighbour") if low == 1 else f"{low:,} to {2 * low - 1:,}"
        parts.append((words, float(low), float(2 * low)))
        low *= 2
    return parts


def _by_part(
    values: Sequence[Any],
    results: Sequence[Any],
    measure: Any,
    parts: Sequence[tuple[str, float, float]],
) -> list[dict[str, Any]]:
    """Measure the results of nodes whose value is in each range, by split."""
    rows = []
    for name, low, high in parts:
        inside = [(each >= low) & (each < high) for each in values]
        found = [
            round4(float(measure(result[mask])))
            for result, mask in zip(results, inside, strict=True)
            if mask.any()
        ]
        if found:
            nodes = int(sum(mask.sum() for mask in inside))
            rows.append({"name": name, "nodes": nodes, "values": found})
    return rows
