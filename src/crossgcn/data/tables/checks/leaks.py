"""How well one column alone predicts the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.labels import Labels
from crossgcn.data.tables.plan import ColumnKind
from crossgcn.data.tables.table import Distinct


def share_told(distinct: Distinct, kind: ColumnKind, labels: Labels) -> float:
    """Return the share of nodes whose class the other nodes with their value tell.

    The others' most frequent class is predicted; ties, and values of a single node, are errors.
    For numbers, also the class of three of the four nodes with the next numbers.
    """
    known = labels.known
    classes, codes = labels.codes[known], codes_of(distinct, kind)[known]
    cells = pd.crosstab(codes, classes).to_numpy()
    ordered = np.sort(cells, axis=1)
    best, second = ordered[:, -1:], ordered[:, -2:-1]
    is_only_best = (cells == best) & ((cells == best).sum(axis=1, keepdims=True) == 1)
    right = float(cells[is_only_best & (cells - 1 > second)].sum()) / len(classes)
    if kind == "numeric":
        numbers = distinct.numbers[distinct.codes[known]]
        near = np.pad(classes[_order(numbers)], 2, mode="reflect")
        own = near[2:-2]
        agreeing = sum((near[at : at + len(own)] == own) for at in (0, 1, 3, 4))
        right = max(right, float((np.asarray(agreeing) >= 3).mean()))
    return right


def r2_told(distinct: Distinct, kind: ColumnKind, labels: Labels) -> float:
    """Return the R² of predicting each number by the mean of the other nodes with its value.

    For columns of numbers, by the mean of the next smaller and larger one or by a straight line,
    if that is better.
    """
    known = labels.known
    y = np.asarray(labels.numbers)[known]
    if not np.isfinite(y).all() or np.ptp(y) == 0:
        return 0.0
    codes = codes_of(distinct, kind)[known]
    counts, sums = np.bincount(codes), np.bincount(codes, y)
    others = counts[codes] - 1
    predictions = [np.where(others > 0, (sums[codes] - y) / np.maximum(others, 1), y.mean())]
    x = distinct.numbers[distinct.codes[known]]
    filled = np.isfinite(x)
    if kind == "numeric" and filled.sum() > 2 and np.ptp(x[filled]) > 0:
        line, near = np.full(len(y), y.mean()), np.full(len(y), y.mean())
        unit = (x[filled] - x[filled].mean()) / x[filled].std()
        line[filled] = np.polyval(np.polyfit(unit, y[filled], 1), unit)
        order = np.flatnonzero(filled)[_order(x[filled])]
        padded = np.pad(y[order], 1, mode="reflect")
        near[order] = (padded[:-2] + padded[2:]) / 2
        predictions += [line, near]
    errors = min(float(np.square(y - each).sum()) for each in predictions)
    return 1 - errors / float(np.square(y - y.mean()).sum())


def _order(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of numbers; equal ones are shuffled, since files may be sorted by class."""
    drawn = np.random.default_rng(0).permutation(len(numbers))
    return np.lexsort((drawn, numbers))


def codes_of(distinct: Distinct, kind: ColumnKind) -> NDArray[np.int64]:
    """Return the value of each cell as a code; equal numbers have the same code."""
    if kind == "numeric":
        _, numbered = np.unique(distinct.numbers, return_inverse=True)
        return numbered[distinct.codes].astype(np.int64)
    merged = np.where(distinct.missing, "", np.array(distinct.texts, dtype=object))
    return pd.factorize(merged)[0][distinct.codes].astype(np.int64)


def find_copies(columns: dict[str, NDArray[np.int64]]) -> dict[str, str]:
    """Map columns of codes to the first one whose values correspond one to one."""
    seen: dict[bytes, str] = {}
    copies = {}
    for name, codes in columns.items():
        key = pd.factorize(codes)[0].astype(np.int32).tobytes()
        first = seen.setdefault(key, name)
        if first != name:
            copies[name] = first
    return copies
