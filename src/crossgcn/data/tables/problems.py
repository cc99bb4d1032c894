"""Problems of tables: what they hold, how they are written, and the tables they are about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import MAX_VALUE_LENGTH, quote
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.labels import Labels, read_labels
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Mask, Table

Severity = Literal["error", "warning"]

MAX_COLUMNS_SHOWN = 3
"""The same problem in more columns is reported once."""

MISSING, UNKNOWN = -1, -2
"""In place of the position of a node: an end of an edge that is empty, or no node."""


@dataclass(frozen=True)
class Problem:
    """Something in a table that stops training (an error) or may spoil it (a warning).

    Attributes:
        kind: Name of the rule: ``duplicate-id``.
        message: What is wrong, in one sentence, without file, row and remedy.
        remedy: What to do, as an instruction.
        row: As a spreadsheet counts, the header being row 1; None for a whole column or table.
        count: Number of such cells; ``row`` is the first.
    """

    kind: str
    severity: Severity
    file: str
    message: str
    remedy: str
    row: int | None = None
    column: str | None = None
    value: str | None = None
    count: int = 1

    @property
    def place(self) -> str:
        """File, row and column."""
        row = "" if self.row is None else f", row {self.row}"
        column = "" if self.column is None else f", column {show_name(self.column)}"
        return show_file(self.file) + row + column

    @property
    def statement(self) -> str:
        """What is wrong, and how often if more than once."""
        return self.message if self.count == 1 else f"{self.message} ({self.count:,} such)"

    def describe(self) -> str:
        """Return one line: file, row, column, what is wrong, how often, what to do."""
        return f"{self.place}: {self.statement}; {self.remedy}"


@dataclass
class CheckedTables:
    """The tables that rules look at, and the problems they append.

    Attributes:
        nodes: With the plan's words for a missing value.
        trained: The encoder of a trained model, if the tables are of new nodes.
        known_ids: The nodes it was trained on.
    """

    nodes: Table
    edges: Table | None
    plan: TablePlan
    trained: TableEncoder | None = None
    known_ids: Sequence[str] = ()
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = self.plan.with_missing_words(self.nodes)

    def add(
        self,
        severity: Severity,
        kind: str,
        message: str,
        remedy: str,
        column: str | None = None,
        rows: Mask | None = None,
        *,
        table: Table | None = None,
        count: int | None = None,
    ) -> None:
        """Append a problem at the first of the rows, or of the whole column or table.

        Nothing is appended if ``rows`` are given and none is true. ``{value}`` in the texts
        stands for the cell, ``{column}`` for the column as an option takes it.

        Args:
            table: The nodes by default.
            count: The number of rows by default.
        """
        table = table or self.nodes
        row = value = None
        if rows is not None:
            if not rows.any():
                return
            first = int(np.argmax(rows))
            row, count = table.row_number(first), count or int(rows.sum())
            value = None if column is None else str(table.frame[column].iloc[first])
        shown = {
            "{value}": "" if value is None else quote(value),
            "{column}": "" if column is None else shlex.quote(column.replace(",", "\\,")),
        }
        for mark, text in shown.items():
            message, remedy = message.replace(mark, text), remedy.replace(mark, text)
        self.problems.append(
            Problem(kind, severity, table.name, message, remedy, row, column, value, count or 1)
        )

    @cached_property
    def encoder(self) -> TableEncoder:
        """How columns become features."""
        return self.trained or TableEncoder.fit(self.nodes, self.plan)

    @cached_property
    def labels(self) -> Labels | None:
        """What is to be predicted, without rare classes."""
        return None if self.plan.target is None else read_labels(self.nodes, self.plan)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The node at each end of an edge: ``[2, edges]``.

        Known nodes come first, then the different ids of the table, which are its rows.
        """
        if self.edges is None or self.plan.source_column is None:
            return np.empty((2, 0), np.int64)
        ids = [*self.known_ids, *self.nodes.distinct(self.plan.id_column).values]
        found = []
        for column in (self.plan.source_column, str(self.plan.destination_column)):
            distinct = self.edges.distinct(self.edges.require(column))
            nodes = self.edges.find(column, ids)
            nodes[nodes < 0] = UNKNOWN
            found.append(np.where(distinct.blank[distinct.codes], MISSING, nodes))
        return np.stack(found)

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each edge; None where edges have none."""
        if self.edges is None or self.plan.weight_column is None:
            return None
        distinct = self.edges.distinct(self.edges.require(self.plan.weight_column))
        return distinct.numbers[distinct.codes]

    def usable_edges(self) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """Return the edges between two different nodes ``[2, edges]``, and their weights."""
        kept = (self.ends >= 0).all(axis=0) & (self.ends[0] != self.ends[1])
        weights = None if self.weights is None else self.weights[kept].astype(np.float32)
        return self.ends[:, kept], weights

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Each pair of different neighbours once: ``[2, pairs]``."""
        low, high = np.sort(self.usable_edges()[0], axis=0)
        span = len(self.known_ids) + len(self.nodes)
        return np.stack(np.divmod(pd.unique(low * span + high), span))

    def measure_homophily(self) -> dict[str, float] | None:
        """Return how alike neighbours are, or None where no edge joins two labelled nodes.

        For classes, ``same_class`` is the share of edges that join equal ones, and ``chance``
        that share among random edges between nodes of the same degrees. For numbers,
        ``correlation`` is that of the two ends. ``edges`` counts the edges that join labelled
        nodes.
        """
        labels = self.labels
        if labels is None:
            return None
        ends = self.pairs[:, labels.known[self.pairs].all(axis=0)]
        num_edges = ends.shape[1]
        if num_edges == 0:
            return None
        if labels.numbers is not None:
            numbers = labels.numbers[np.concatenate([ends, ends[::-1]], 1)]
            if not np.isfinite(numbers).all() or np.ptp(numbers) == 0:
                return None
            return {"edges": num_edges, "correlation": float(np.corrcoef(numbers)[0, 1])}
        classes = labels.codes[ends]
        mix = np.bincount(classes.ravel(), minlength=len(labels.names)) / (2 * num_edges)
        return {
            "edges": num_edges,
            "same_class": float((classes[0] == classes[1]).mean()),
            "chance": float((mix**2).sum()),
        }


def merge_alike(problems: list[Problem]) -> list[Problem]:
    """Report the same problem in many columns once."""
    merged: list[Problem] = []
    for problem in problems:
        same = [each for each in problems if (each.kind, each.file) == (problem.kind, problem.file)]
        if len(same) <= MAX_COLUMNS_SHOWN:
            merged.append(problem)
        elif problem is same[0]:
            likewise = listed([show_name(each.column or "") for each in same[1:]])
            message = f"{problem.message}; likewise columns {likewise}"
            merged.append(replace(problem, message=message, count=sum(each.count for each in same)))
    return merged


def listed(names: list[str]) -> str:
    """Return ``a, b, c``; of many names the first ten, and how many there are more."""
    more = f" and {len(names) - 10:,} more" * (len(names) > 10)
    return ", ".join(names[:10]) + more


def show_file(name: str) -> str:
    """Return a path as written, in quotes where it would break the line."""
    return name if name.isprintable() and name == name.strip() else repr(name)


def show_name(name: str) -> str:
    """Return a header as written, in quotes where it would break the line, cut when it is long."""
    is_plain = name.isprintable() and name == name.strip() and len(name) <= MAX_VALUE_LENGTH
    return name if is_plain else quote(name)
