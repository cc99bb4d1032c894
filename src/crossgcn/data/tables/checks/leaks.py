"""Whether a column knows the answer, or says what another says already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import find_separator, split_words
from crossgcn.data.tables.checks.problems import Finding, Place, Rule, quote, share_of, show_name
from crossgcn.data.tables.checks.target import Labels
from crossgcn.data.tables.plan import ColumnPlan
from crossgcn.data.tables.table import Distinct, Table

FEWEST_LABELS = 20
MOST_ERRORS = 0.02
"""Of all nodes, where a column gives the class away."""

MOST_OF_MAJORITY = 0.1
"""Of the errors that always saying the largest class would make."""

FEWEST_DIFFERENT = 5
"""Nodes without the usual value, for two columns to be alike by more than chance."""

MANY_NUMBERS = 12


def check_leak(nodes: Table, column: ColumnPlan, labels: Labels) -> Iterator[Finding]:
    """A column from which alone the class can be told, for nodes that were not looked at.

    Args:
        nodes: The node table.
        column: One that features are made of.
        labels: The classes.
    """
    known = labels.known
    classes = labels.codes[known]
    if len(classes) < FEWEST_LABELS or len(labels.names) < 2:
        return
    distinct = nodes.distinct(column.name)
    num_minority = len(classes) - int(labels.counts.max())
    most_errors = min(MOST_ERRORS * len(classes), MOST_OF_MAJORITY * num_minority)
    word = None
    if column.kind == "list":
        errors, word = _best_word(distinct, known, classes, len(labels.names))
    else:
        codes = _codes_of(distinct, column)[known]
        errors = _count_errors_by_value(codes, classes, len(labels.names))
    if column.kind == "numeric" and errors > most_errors:
        numbers = distinct.numbers[distinct.codes[known]]
        errors = count_errors_of_neighbours(numbers, classes)
        # A border between two classes costs the two nodes beside it.
        borders = 2.0 * (len(labels.names) - 1)
        most_errors = max(most_errors, min(borders, 2 * MOST_OF_MAJORITY * num_minority))
    if errors > most_errors:
        return
    filled = known & ~distinct.missing[distinct.codes]
    shown = int(np.flatnonzero(filled if filled.any() else known)[0])
    where = "the column" if word is None else f"the word {quote(word)}"
    accuracy = share_of(len(classes) - errors, len(classes))
    rule = Rule(
        "gives-label-away",
        "warning",
        f"{where} alone tells the class of {accuracy} of the nodes: {{value}} means "
        f"{quote(labels.names[labels.codes[shown]])}",
        "leave it out by --ignore {column} if it is known only once the class is",
    )
    yield Place(nodes, column.name).at_row(shown, rule)


def count_errors(tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Errors of telling each node's class from the others that share its value.

    The most frequent class among the others is said, ties are errors, and of a value that
    no other node has nothing is known.

    Args:
        tables: ``[columns, values, classes]``, how many nodes of each class hold each value.
    """
    ordered = np.sort(tables, axis=2)
    best, second = ordered[..., -1:], ordered[..., -2:-1]
    is_best = tables == best
    others = np.where(is_best, np.where(is_best.sum(axis=2, keepdims=True) > 1, best, second), best)
    right = np.where(tables - 1 > others, tables, 0).sum(axis=(1, 2))
    return np.asarray(tables.sum(axis=(1, 2)) - right)


def _count_errors_by_value(
    codes: NDArray[np.int64], classes: NDArray[np.int64], num_classes: int
) -> int:
    """Errors of a column whose cells hold the values ``codes``."""
    shared = np.bincount(codes)[codes] > 1
    values, _ = pd.factorize(codes[shared])
    size = int(values.max(initial=-1)) + 1
    cells = np.bincount(values * num_classes + classes[shared], minlength=size * num_classes)
    errors = count_errors(cells.reshape(1, size, num_classes))
    return int(errors[0]) + int((~shared).sum())


def count_errors_of_neighbours(numbers: NDArray[np.float64], classes: NDArray[np.int64]) -> int:
    """Errors of telling each node's class from the two next smaller and two next larger.

    Nodes with the same number, or none, come in an order drawn anew: the order of the file
    may be that of the classes.

    Args:
        numbers: Of each node; not-a-number where there is none.
        classes: Of each node.
    """
    drawn = np.random.default_rng(0).permutation(len(numbers))
    order = np.lexsort((drawn, numbers))
    padded = np.pad(classes[order], 2, mode="reflect")
    size = len(numbers)
    agreeing = sum(
        (padded[2 + step : 2 + step + size] == classes[order]) for step in (-2, -1, 1, 2)
    )
    return int((np.asarray(agreeing) < 3).sum())


def check_copies(
    nodes: Table, columns: Sequence[ColumnPlan], target: str | None
) -> Iterator[Finding]:
    """Columns that say the same of every node in other words, and those that say the target.

    Args:
        nodes: The node table.
        columns: Those that features are made of.
        target: The column to predict.
    """
    seen: dict[bytes, str] = {}
    if target is not None:
        seen[_renumber(nodes.distinct(target).codes)] = target
    for column in columns:
        distinct = nodes.distinct(column.name)
        codes = _codes_of(distinct, column)
        if len(codes) - np.bincount(codes).max() < FEWEST_DIFFERENT:
            continue
        if column.kind == "numeric" and len(distinct.values) == len(codes) > MANY_NUMBERS:
            key = distinct.numbers.tobytes()
        else:
            key = _renumber(codes)
        first = seen.setdefault(key, column.name)
        if first == column.name:
            continue
        there = f"{{value}} here is {quote(str(nodes.frame[first].iloc[0]))} there, and so on"
        if first == target:
            rule = Rule(
                "copies-target",
                "warning",
                f"it says the same as column {show_name(first)}, which is to be predicted: {there}",
                "leave it out by --ignore {column}",
            )
        else:
            rule = Rule(
                "copied-column",
                "warning",
                f"it says the same as column {show_name(first)}: {there}",
                "leave one of them out by --ignore {column}",
            )
        yield Place(nodes, column.name).at_row(0, rule)


def _codes_of(distinct: Distinct, column: ColumnPlan) -> NDArray[np.int64]:
    """Which value each cell holds, numbers by what they are and not by how they are written."""
    if column.kind == "numeric":
        _, numbered = np.unique(distinct.numbers, return_inverse=True)
        return numbered[distinct.codes].astype(np.int64)
    texts = [value.strip() for value in distinct.values]
    if column.kind == "flag":
        texts = [text.lower() for text in texts]
    merged = np.where(distinct.missing, "", np.array(texts, dtype=object))
    return pd.factorize(merged)[0][distinct.codes].astype(np.int64)


def _renumber(codes: NDArray[np.int64]) -> bytes:
    """The same for columns whose values correspond one to one."""
    return pd.factorize(codes)[0].astype(np.int32).tobytes()


def _best_word(
    distinct: Distinct, known: NDArray[np.bool_], classes: NDArray[np.int64], num_classes: int
) -> tuple[int, str | None]:
    """The word whose presence tells the class best, and its errors."""
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
