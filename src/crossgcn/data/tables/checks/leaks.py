"""Rules about columns that give the target away, or repeat another column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import find_separator, quote, split_words
from crossgcn.data.tables.checks.problems import (
    Hits,
    Place,
    Problem,
    check_alike,
    share_of,
    show_name,
    warning,
)
from crossgcn.data.tables.columns import MAX_CODES
from crossgcn.data.tables.labels import Labels
from crossgcn.data.tables.plan import ColumnKind, TablePlan
from crossgcn.data.tables.table import Distinct, Mask, Table

MIN_LABELS = 20

MAX_ERROR_SHARE = 0.02
"""Share of nodes that a column which gives the class away may get wrong."""

MAX_MAJORITY_SHARE = 0.1
"""Likewise, as a share of the errors of always predicting the largest class."""

MIN_R2 = 0.99
"""R² of a column that alone gives a number to predict away."""

MIN_DIFFERENT = 5
"""Fewer nodes without the usual value: two columns may be alike by chance."""


@dataclass(frozen=True)
class _Feature(Place):
    """A column that becomes features.

    Attributes:
        copy_of: The target or an earlier column whose values correspond one to one.
    """

    kind: ColumnKind
    target: str | None
    labels: Labels | None
    copy_of: str | None

    def at_start(self) -> Hits:
        """Yield a hit that shows the first row of this column and the one it copies."""
        there = quote(str(self.table.frame[self.copy_of].iloc[0]))
        yield self.at_row(0, first=show_name(str(self.copy_of)), there=there)

    @warning(
        "it says the same as column {first}, which is to be predicted: {value} here is {there} "
        "there",
        "leave it out with --ignore {column}",
        stops=True,
    )
    def copies_target(self) -> Hits:
        if self.copy_of is not None and self.copy_of == self.target:
            yield from self.at_start()

    @warning(
        "it says the same as column {first}: {value} here is {there} there",
        "leave one of them out with --ignore {column}",
    )
    def copied_column(self) -> Hits:
        if self.copy_of is not None:
            yield from self.at_start()

    @warning(
        "{what} alone tells the class of {accuracy} of the nodes: {value} means {label}",
        "leave it out with --ignore {column} if it is known only once the class is",
    )
    def gives_label_away(self) -> Hits:
        if self.labels is None:
            return
        labels, distinct = self.labels, self.distinct
        known, num_classes = labels.known, len(labels.names)
        classes = labels.codes[known]
        if len(classes) < MIN_LABELS or num_classes < 2:
            return
        num_minority = len(classes) - int(labels.counts.max())
        max_errors = min(MAX_ERROR_SHARE * len(classes), MAX_MAJORITY_SHARE * num_minority)
        word = None
        if self.kind == "list":
            errors, word = _best_word(distinct, known, classes, num_classes)
        else:
            codes = _codes_of(distinct, self.kind)
            errors = count_errors_by_value(codes[known], classes, num_classes)
        if self.kind == "numeric" and errors > max_errors:
            errors = count_errors_of_neighbours(distinct.numbers[distinct.codes[known]], classes)
            # A border between two classes costs the two nodes beside it.
            borders = 2.0 * (num_classes - 1)
            max_errors = max(max_errors, min(borders, 2 * MAX_MAJORITY_SHARE * num_minority))
        if errors > max_errors:
            return
        filled = known & ~distinct.missing[distinct.codes]
        shown = int(np.argmax(filled if filled.any() else known))
        yield self.at_row(
            shown,
            what="the column" if word is None else f"the word {quote(word)}",
            accuracy=share_of(len(classes) - errors, len(classes)),
            label=quote(labels.names[labels.codes[shown]]),
        )

    @warning(
        "the column alone tells the number to predict: R² is {r2:.3f}",
        "leave it out with --ignore {column} if it is known only once the number is",
    )
    def gives_number_away(self) -> Hits:
        labels = self.labels
        if labels is None or labels.numbers is None or self.kind == "list":
            return
        known = labels.known
        if int(known.sum()) < MIN_LABELS:
            return
        r2 = r2_of_column(self.distinct, self.kind, known, labels.numbers)
        if r2 > MIN_R2:
            yield self.at_row(int(np.argmax(known)), r2=r2)


def check_leaks(nodes: Table, plan: TablePlan, labels: Labels | None) -> Iterator[Problem]:
    """Yield problems of columns that repeat another one, or give the target away."""
    copies = _find_copies(nodes, plan)
    yield from check_alike(
        [
            _Feature(nodes, column.name, column.kind, plan.target, labels, copies.get(column.name))
            for column in plan.features
        ]
    )


def _find_copies(nodes: Table, plan: TablePlan) -> dict[str, str]:
    """Map columns to the target, or an earlier column, that says the same of every node."""
    seen: dict[bytes, str] = {}
    copies = {}
    if plan.target is not None:
        seen[_renumber(nodes.distinct(plan.target).codes)] = plan.target
    for column in plan.features:
        distinct = nodes.distinct(column.name)
        codes = _codes_of(distinct, column.kind)
        if len(codes) - np.bincount(codes).max() < MIN_DIFFERENT:
            continue
        if column.kind == "numeric" and len(distinct.values) == len(codes) > MAX_CODES:
            key = distinct.numbers.tobytes()
        else:
            key = _renumber(codes)
        first = seen.setdefault(key, column.name)
        if first != column.name:
            copies[column.name] = first
    return copies


def count_errors(tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the errors of predicting each node's class from the others with its value.

    The prediction is the most frequent class among the other nodes; ties, and values of a
    single node, are errors. ``tables`` has the number of nodes, ``[columns, values, classes]``.
    """
    ordered = np.sort(tables, axis=2)
    best, second = ordered[..., -1:], ordered[..., -2:-1]
    is_best = tables == best
    others = np.where(is_best, np.where(is_best.sum(axis=2, keepdims=True) > 1, best, second), best)
    right = np.where(tables - 1 > others, tables, 0).sum(axis=(1, 2))
    return np.asarray(tables.sum(axis=(1, 2)) - right)


def count_errors_by_value(
    codes: NDArray[np.int64], classes: NDArray[np.int64], num_classes: int
) -> int:
    """Count the errors of predicting the class from the values ``codes``."""
    shared = np.bincount(codes)[codes] > 1
    values, _ = pd.factorize(codes[shared])
    size = int(values.max(initial=-1)) + 1
    cells = np.bincount(values * num_classes + classes[shared], minlength=size * num_classes)
    errors = count_errors(cells.reshape(1, size, num_classes))
    return int(errors[0]) + int((~shared).sum())


def count_errors_of_neighbours(numbers: NDArray[np.float64], classes: NDArray[np.int64]) -> int:
    """Count the errors of predicting classes from the two next smaller and larger numbers.

    Nodes with the same number, or without one (NaN), are shuffled: the file may be sorted by
    class.
    """
    drawn = np.random.default_rng(0).permutation(len(numbers))
    order = np.lexsort((drawn, numbers))
    padded = np.pad(classes[order], 2, mode="reflect")
    size = len(numbers)
    agreeing = sum(
        (padded[2 + step : 2 + step + size] == classes[order]) for step in (-2, -1, 1, 2)
    )
    return int((np.asarray(agreeing) < 3).sum())


def r2_of_column(
    distinct: Distinct, kind: ColumnKind, known: Mask, numbers: NDArray[np.float32]
) -> float:
    """Return the R² of predicting a number from one column, without the node's own number.

    The prediction is the mean of the other nodes with the same value; for a column of numbers, the
    mean of the next smaller and the next larger one, if that is better than a straight line.
    Nodes without any such node are predicted by the mean of all.
    """
    y = numbers[known].astype(np.float64)
    if not np.isfinite(y).all() or y.std() == 0:
        return 0.0
    predictions = [_mean_of_same(_codes_of(distinct, kind)[known], y)]
    if kind == "numeric":
        x = distinct.numbers[distinct.codes[known]]
        filled = np.isfinite(x)
        line, near = np.full(len(y), y.mean()), np.full(len(y), y.mean())
        if filled.sum() > 2 and x[filled].std() > 0:
            slope, shift = np.polyfit(x[filled], y[filled], 1)
            line[filled] = slope * x[filled] + shift
            near[filled] = _mean_of_neighbours(x[filled], y[filled])
        predictions += [line, near]
    errors = min(float(np.square(y - each).sum()) for each in predictions)
    return 1 - errors / float(np.square(y - y.mean()).sum())


def _mean_of_same(codes: NDArray[np.int64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the other nodes with the same code; of all nodes if there are none."""
    counts, sums = np.bincount(codes), np.bincount(codes, y)
    others = counts[codes] - 1
    return np.where(others > 0, (sums[codes] - y) / np.maximum(others, 1), y.mean())


def _mean_of_neighbours(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    drawn = np.random.default_rng(0).permutation(len(x))
    order = np.lexsort((drawn, x))
    padded = np.pad(y[order], 1, mode="reflect")
    means = np.empty_like(y)
    means[order] = (padded[:-2] + padded[2:]) / 2
    return means


def _codes_of(distinct: Distinct, kind: ColumnKind) -> NDArray[np.int64]:
    """Return the value of each cell as a code; equal numbers have the same code."""
    if kind == "numeric":
        _, numbered = np.unique(distinct.numbers, return_inverse=True)
        return numbered[distinct.codes].astype(np.int64)
    texts = distinct.texts
    if kind == "flag":
        texts = list(map(str.lower, texts))
    merged = np.where(distinct.missing, "", np.array(texts, dtype=object))
    return pd.factorize(merged)[0][distinct.codes].astype(np.int64)


def _renumber(codes: NDArray[np.int64]) -> bytes:
    """Return bytes that are equal for columns whose values correspond one to one."""
    return pd.factorize(codes)[0].astype(np.int32).tobytes()


def _best_word(
    distinct: Distinct, known: Mask, classes: NDArray[np.int64], num_classes: int
) -> tuple[int, str | None]:
    """Return the fewest errors of predicting the class from a word, and the word."""
    separator = find_separator([value for value, _ in distinct.present])
    split = [
        [] if gone else split_words(value, separator)
        for value, gone in zip(distinct.values, distinct.missing, strict=True)
    ]
    value_of_word = np.repeat(np.arange(len(split)), [len(words) for words in split])
    words, names = pd.factorize(np.array([word for found in split for word in found], dtype=object))
    per_value = np.zeros((len(split), num_classes), np.int64)
    np.add.at(per_value, (distinct.codes[known], classes), 1)
    having = np.zeros((len(names), num_classes), np.int64)
    np.add.at(having, words, per_value[value_of_word])
    lacking = per_value.sum(axis=0) - having
    errors = count_errors(np.stack([having, lacking], axis=1))
    if len(errors) == 0:
        return len(classes), None
    best = int(np.argmin(errors))
    return int(errors[best]), str(names[best])
