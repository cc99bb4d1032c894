"""Problems of tables, and the rules that find them.

A subject, such as a column, is a class; its rules are methods. :func:`error` and :func:`warning`
decorate a method with a message and a remedy. The method yields a :class:`Hit` for each place
where the rule applies.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from crossgcn.data.tables.cells import (
    MAX_VALUE_LENGTH,
    MISSING_WORDS,
    find_ambiguous_points,
    fold_spelling,
    quote,
)
from crossgcn.data.tables.table import Distinct, Mask, Table

Severity = Literal["error", "warning"]

MAX_COLUMNS_SHOWN = 3
"""The same problem in more columns is reported once."""

MAX_NAMES_SHOWN = 10

MIN_MISSING_CELLS = 3
MIN_MISSING_SHARE = 0.02
"""A word for a missing value in fewer cells is not worth a warning."""


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

    def to_json(self) -> dict[str, Any]:
        """Return every field by its name."""
        return asdict(self)


@dataclass(frozen=True)
class Hit:
    """A place where a rule applies; ``words`` fill in the message and the remedy."""

    table: Table
    column: str | None = None
    position: int | None = None
    value: str | None = None
    count: int = 1
    words: Mapping[str, object] = field(default_factory=dict)


Hits = Iterator[Hit]
Condition = Callable[[Any], Hits]


@dataclass
class Rule:
    """A kind of problem, named like the method with hyphens.

    Attributes:
        message: ``{value}`` stands for the cell, other names for the words of the hit.
        remedy: Likewise; ``{column}`` stands for the column as an option takes it.
        stops: Whether later rules of the subject are skipped where this one applies.
    """

    names: ClassVar[set[str]] = set()

    severity: Severity
    message: str
    remedy: str
    stops: bool
    find: Condition
    name: str = ""

    def __set_name__(self, owner: type[Subject], name: str) -> None:
        self.name = name.replace("_", "-")
        self.names.add(self.name)
        owner.rules = (*vars(owner).get("rules", ()), self)

    def apply(self, subject: Subject) -> Iterator[Problem]:
        """Yield a problem for each hit."""
        for hit in self.find(subject):
            words = {"value": None if hit.value is None else quote(hit.value), **hit.words}
            column = None if hit.column is None else _as_option(hit.column)
            yield Problem(
                kind=self.name,
                severity=self.severity,
                file=hit.table.name,
                message=self.message.format(**words),
                remedy=self.remedy.format(column=column, **words),
                row=None if hit.position is None else hit.table.row_number(hit.position),
                column=hit.column,
                value=hit.value,
                count=hit.count,
            )


def _rule(
    severity: Severity, message: str, remedy: str, *, stops: bool = False
) -> Callable[[Condition], Rule]:
    return lambda find: Rule(severity, message, remedy, stops, find)


error, warning = partial(_rule, "error"), partial(_rule, "warning")
"""Decorate a method that finds what stops training, or what may spoil it."""


class Subject:
    """Something that rules are about; they apply in the order of the methods."""

    rules: ClassVar[tuple[Rule, ...]] = ()

    def check(self, severity: Severity | None = None) -> Iterator[Problem]:
        """Yield the problems of the subject: all, or those of one severity."""
        for rule in self.rules:
            if severity not in (None, rule.severity):
                continue
            problems = list(rule.apply(self))
            yield from problems
            if problems and rule.stops:
                return


def check_alike(columns: Sequence[Subject], severity: Severity | None = None) -> Iterator[Problem]:
    """Yield the problems of columns; the same problem in many columns is reported once."""
    found = [problem for column in columns for problem in column.check(severity)]
    for kind in dict.fromkeys(rule.name for column in columns[:1] for rule in column.rules):
        same = [problem for problem in found if problem.kind == kind]
        if len(same) <= MAX_COLUMNS_SHOWN:
            yield from same
            continue
        names = [show_name(problem.column or "") for problem in same[1 : 1 + MAX_NAMES_SHOWN]]
        num_more = len(same) - 1 - len(names)
        more = f" and {num_more:,} more" if num_more else ""
        message = f"{same[0].message}; likewise columns {', '.join(names)}{more}"
        yield replace(same[0], message=message, count=sum(problem.count for problem in same))


@dataclass(frozen=True)
class Place(Subject):
    """A column of a table."""

    table: Table
    column: str

    @property
    def distinct(self) -> Distinct:
        """The different values of the column."""
        return self.table.distinct(self.column)

    def at_rows(self, rows: Mask, **words: Any) -> Hits:
        """Yield a hit at the first of the rows, if there are any."""
        positions = np.flatnonzero(rows)
        if len(positions):
            yield self.at_row(int(positions[0]), count=len(positions), **words)

    def at_values(self, values: Mask, **words: Any) -> Hits:
        """Yield a hit at the first cell with one of the different values, if there are any."""
        yield from self.at_rows(values[self.distinct.codes], **words)

    def at_ambiguous_points(self) -> Hits:
        """Yield a hit at the first number whose point may separate thousands."""
        distinct = self.distinct
        found = find_ambiguous_points(distinct.texts)
        if found.any():
            first = int(distinct.codes[int(np.argmax(found[distinct.codes]))])
            yield from self.at_values(found, number=float(distinct.numbers[first]))

    def at_similar(self, names: Sequence[str], similar: Mapping[int, int]) -> Hits:
        """Yield a hit at the first value whose name is like that of an ``other`` one."""
        for second, earlier in [*similar.items()][:1]:
            row = self.distinct.first_row(second)
            yield self.at_row(row, count=len(similar), other=quote(names[earlier]))

    def at_missing_words(self) -> Hits:
        """Yield a hit for each frequent word that usually means a missing value."""
        for word in sorted(MISSING_WORDS):
            said = self.distinct.is_one_of({word})
            count, num_cells = self.distinct.num_cells(said), len(self.table)
            if count >= max(MIN_MISSING_CELLS, MIN_MISSING_SHARE * num_cells):
                others = ",".join(sorted(MISSING_WORDS - {word}))
                share = share_of(count, num_cells)
                yield from self.at_values(said, share=share, word=quote(word), others=others)

    def at_row(
        self, position: int, *, count: int = 1, value: str | None = None, **words: Any
    ) -> Hit:
        """Return a hit at one row; its value is the cell unless given."""
        if value is None:
            value = str(self.table.frame[self.column].iloc[position])
        return Hit(self.table, self.column, position, value, count, words)

    def whole(self, *, value: str | None = None, **words: Any) -> Hit:
        """Return a hit about the column as a whole."""
        return Hit(self.table, self.column, value=value, words=words)


def show_file(name: str) -> str:
    """Return a path as written, in quotes where it would break the line."""
    return name if name.isprintable() and name == name.strip() else repr(name)


def show_name(name: str) -> str:
    """Return a header as written, in quotes where it would break the line or is long."""
    plain = name.isprintable() and name == name.strip() and 0 < len(name) <= MAX_VALUE_LENGTH
    return name if plain else quote(name)


def _as_option(column: str) -> str:
    """Return a header as a shell and a list of columns take it."""
    return shlex.quote(column.replace(",", "\\,")) if column.isprintable() else quote(column)


def find_similar(values: Sequence[str]) -> dict[int, int]:
    """Map positions of values to an earlier one that differs only in case or spaces."""
    first: dict[str, int] = {}
    similar = {}
    for position, value in enumerate(values):
        seen = first.setdefault(fold_spelling(value), position)
        if seen != position:
            similar[position] = seen
    return similar


def share_of(part: int, whole: int) -> str:
    """Return ``12 %``; never 0 % of something nor 100 % of less than all."""
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def count_of(number: int, what: str) -> str:
    """Return ``1 node``, ``2,000 nodes``, ``3 classes``."""
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending}"
