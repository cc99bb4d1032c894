"""Problems found in tables, and the tables that rules check."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, groupby
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from crossgcn.data.relations import Relation
from crossgcn.data.tables.cells import MAX_VALUE_LENGTH, quote
from crossgcn.data.tables.edges import EdgeTables, RelationPlan
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.labels import Labels, read_labels
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Distinct, Mask, Table
from crossgcn.errors import few

Severity = Literal["error", "warning"]

MAX_COLUMNS_SHOWN = 3
"""A problem in more columns than this is reported once."""

UNKNOWN, MISSING = -1, -2
"""Numbers of edge ends that are not a node, or are empty."""


@dataclass(frozen=True)
class Problem:
    """Something in a table that stops training (an error) or may spoil it (a warning).

    Attributes:
        kind: Name of the rule: ``duplicate-id``.
        message: What is wrong, in one sentence, without file, row and remedy.
        remedy: What to do, as an instruction.
        row: Row number of the first such cell in the file; None for a whole column or table.
        count: Number of such cells.
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
        """The message, with the count if it is above 1."""
        return self.message if self.count == 1 else f"{self.message} ({self.count:,} such)"

    def describe(self) -> str:
        """Return one line: file, row, column, what is wrong, how often, what to do."""
        return f"{self.place}: {self.statement}; {self.remedy}"


@dataclass
class CheckedEdges:
    """One table of edges.

    Attributes:
        ids: Ids of the nodes: those trained on, then the distinct ones of the node table.
        trained: The encoder of a trained model, if the tables hold new nodes.
        known_things: Names of the things that a model was trained with.
    """

    table: Table
    plan: RelationPlan
    ids: Sequence[str]
    trained: TableEncoder | None = None
    known_things: Sequence[str] = ()

    @property
    def end_columns(self) -> tuple[str, str]:
        """The columns of both ends of an edge."""
        return self.plan.source_column, self.plan.destination_column

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Number of the node at each end of an edge, or of the thing, ``[2, edges]``."""
        found = []
        known = self.ids, self.things or self.ids
        for column, names in zip(self.end_columns, known, strict=True):
            distinct = self.table.distinct(self.table.require(column))
            places = self.table.find(column, names)
            found.append(np.where(distinct.blank[distinct.codes], MISSING, places))
        return np.stack(found)

    @cached_property
    def things(self) -> tuple[str, ...] | None:
        """Names of the things that nodes share, those known before first."""
        if not self.plan.through:
            return None
        distinct = self.table.distinct(self.table.require(self.plan.destination_column))
        names = compress(distinct.ids, ~distinct.blank)
        return tuple(dict.fromkeys([*self.known_things, *names]))

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each edge; None where edges have none."""
        if self.plan.edge_weight is None:
            return None
        distinct = self.table.distinct(self.table.require(self.plan.edge_weight))
        return distinct.numbers[distinct.codes]

    @cached_property
    def encoder(self) -> TableEncoder | None:
        """The encoder of the columns that describe edges; None if there are none."""
        if self.trained is not None or not self.plan.features:
            return self.trained
        return TableEncoder.fit(self.table, self.plan.features)

    @cached_property
    def is_usable(self) -> Mask:
        """Which edges join two different nodes, or a node and a thing."""
        is_loop = (self.ends[0] == self.ends[1]) & (not self.plan.through)
        return np.asarray((self.ends >= 0).all(axis=0) & ~is_loop)

    def relation(self) -> Relation:
        """Return the usable edges."""
        used, encoder = self.is_usable, self.encoder
        weights = None
        if self.weights is not None:
            weights = torch.from_numpy(self.weights[used].astype(np.float32))
        ends = torch.from_numpy(self.ends[:, used])
        plain = self.plan.title, ends, weights, self.plan.directed
        if encoder is None:
            return Relation(*plain, things=self.things)
        return Relation(*plain, encoder.transform(self.table)[used], encoder.space_of_edges)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Each pair of neighbours once, without self-loops, ``[2, pairs]``; none of things."""
        if self.plan.through:
            return np.empty((2, 0), np.int64)
        low, high = np.sort(self.ends[:, self.is_usable], axis=0)
        num_nodes = len(self.ids)
        return np.stack(np.divmod(pd.unique(low * num_nodes + high), num_nodes))

    def measure_homophily(self, labels: Labels) -> dict[str, float] | None:
        """Return the homophily of edges between labelled nodes, or None if there are none.

        For classes, ``same_class`` is the share of edges between nodes of equal class, and
        ``chance`` the share expected for random edges with the same degrees. For numbers,
        ``correlation`` is the correlation of both ends. ``edges`` is the number of edges.
        """
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
        same_class, chance = float((classes[0] == classes[1]).mean()), float((mix**2).sum())
        return {"edges": num_edges, "same_class": same_class, "chance": chance}


@dataclass
class CheckedTables:
    """The tables that rules check, and the problems that rules append.

    Attributes:
        nodes: The node table, with the plan's words for a missing value.
        edges: Tables of edges by the name of their relation.
        trained: The encoder of a trained model, if the tables hold new nodes; those of columns of
            edges are in ``trained_of_edges``, by relation.
        known_ids: Ids of the nodes that the model was trained on.
        known_things: Names of the things that nodes share, by relation.
    """

    nodes: Table
    edges: EdgeTables
    plan: TablePlan
    trained: TableEncoder | None = None
    known_ids: Sequence[str] = ()
    trained_of_edges: Mapping[str, TableEncoder | None] = field(default_factory=dict)
    known_things: Mapping[str, Sequence[str]] = field(default_factory=dict)
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
        table: Table | None = None,
    ) -> None:
        """Append a problem of the first true row; without ``rows``, of the whole column or table.

        If no row is true, nothing is appended. ``{value}`` in the message becomes the cell.
        ``table`` is the node table by default.
        """
        table = table or self.nodes
        if rows is None:
            row, value, count = None, None, 1
        elif rows.any():
            first, count = int(np.argmax(rows)), int(rows.sum())
            row, value = table.row_number(first), str(table.frame[column].iloc[first])
            message = message.replace("{value}", quote(value))
        else:
            return
        self.problems.append(
            Problem(kind, severity, table.name, message, remedy, row, column, value, count)
        )

    @cached_property
    def encoder(self) -> TableEncoder:
        """The encoder of the columns."""
        return self.trained or TableEncoder.fit(self.nodes, self.plan.features)

    @cached_property
    def labels(self) -> Labels:
        """The target of each node, without rare classes if the plan drops them."""
        return read_labels(self.nodes, self.plan)

    @property
    def ids(self) -> Distinct:
        """The ids of the nodes."""
        return self.nodes.distinct(self.plan.id_column)

    @cached_property
    def relations(self) -> list[CheckedEdges]:
        """The tables of edges."""
        words, _ = self.plan.missing_words()
        ids = [*dict.fromkeys([*self.known_ids, *self.ids.values])]
        return [
            CheckedEdges(
                self.edges[plan.name].with_missing_words(words),
                plan,
                ids,
                self.trained_of_edges.get(plan.name),
                self.known_things.get(plan.name, ()),
            )
            for plan in self.plan.relations
            if plan.name in self.edges
        ]

    @property
    def encoded(self) -> list[tuple[Table, TableEncoder]]:
        """The tables with their encoders."""
        of_edges = [(each.table, each.encoder) for each in self.relations if each.encoder]
        return [(self.nodes, self.encoder), *of_edges]


def merge_alike(problems: list[Problem]) -> list[Problem]:
    """Report the same problem in many columns once."""
    merged: list[Problem] = []
    for _, group in groupby(problems, key=lambda problem: (problem.kind, problem.file)):
        same = list(group)
        if len(same) > MAX_COLUMNS_SHOWN:
            likewise = few([show_name(each.column or "") for each in same[1:]])
            message = f"{same[0].message}; likewise columns {likewise}"
            same = [replace(same[0], message=message, count=sum(each.count for each in same))]
        merged += same
    return merged


def as_option(column: str) -> str:
    """Quote the name of a column for an option of the command line."""
    return shlex.quote(column.replace(",", "\\,"))


def show_file(name: str) -> str:
    """Return a path, quoted if it has control characters or surrounding space."""
    return name if name.isprintable() and name == name.strip() else repr(name)


def show_name(name: str) -> str:
    """Return a header, quoted like a path and truncated if it is long."""
    return show_file(name) if len(name) <= MAX_VALUE_LENGTH else quote(name)
