"""Problems of tables, and the rules that find them.

A rule has a name, a severity, a message, a remedy and a condition. The condition is a function
that yields a :class:`Hit` for each place where the rule applies; :class:`Rules` decorates it with
the rest and applies all rules to a subject, such as a column.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.table import Distinct, Table, fold_spelling

Severity = Literal["error", "warning"]

MAX_VALUE_LENGTH = 60

MAX_COLUMNS_SHOWN = 3
"""The same problem in more columns is reported once."""

MAX_NAMES_SHOWN = 10


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
        parts = [show_file(self.file)]
        if self.row is not None:
            parts.append(f"row {self.row}")
        if self.column is not None:
            parts.append(f"column {show_name(self.column)}")
        return ", ".join(parts)

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


@dataclass(frozen=True)
class Place:
    """A column of a table."""

    table: Table
    column: str

    @property
    def distinct(self) -> Distinct:
        """The different values of the column."""
        return self.table.distinct(self.column)

    def at_rows(self, rows: NDArray[np.bool_], **words: Any) -> Iterator[Hit]:
        """Yield a hit at the first of the rows, if there are any."""
        positions = np.flatnonzero(rows)
        if len(positions):
            yield self.at_row(int(positions[0]), count=len(positions), **words)

    def at_values(self, values: NDArray[np.bool_], **words: Any) -> Iterator[Hit]:
        """Yield a hit at the first cell with one of the different values, if there are any."""
        yield from self.at_rows(values[self.distinct.codes], **words)

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


Subject = TypeVar("Subject")
Condition = Callable[[Subject], Iterable[Hit]]


@dataclass(frozen=True)
class Rule(Generic[Subject]):
    """A kind of problem.

    Attributes:
        message: ``{value}`` stands for the cell, other names for the words of the hit.
        remedy: Likewise; ``{column}`` stands for the column as an option takes it.
        find: The condition.
        stops: Whether later rules are skipped where this one applies.
    """

    name: str
    severity: Severity
    message: str
    remedy: str
    find: Condition[Subject]
    stops: bool

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


class Rules(Generic[Subject]):
    """Rules about one kind of subject, in the order in which they apply."""

    names: ClassVar[set[str]] = set()
    """Names of all rules about anything."""

    def __init__(self) -> None:
        self._rules: list[Rule[Subject]] = []

    def rule(
        self,
        severity: Severity,
        message: str,
        remedy: str,
        *,
        name: str | None = None,
        stops: bool = False,
    ) -> Callable[[Condition[Subject]], Condition[Subject]]:
        """Decorate a condition as a rule, named like the function with hyphens."""

        def add(find: Condition[Subject]) -> Condition[Subject]:
            called = name or find.__name__.strip("_").replace("_", "-")
            self.names.add(called)
            self._rules.append(Rule(called, severity, message, remedy, find, stops))
            return find

        return add

    def apply(self, subject: Subject) -> Iterator[Problem]:
        """Yield the problems of a subject."""
        for rule in self._rules:
            problems = list(rule.apply(subject))
            yield from problems
            if problems and rule.stops:
                return

    def apply_to_columns(self, columns: Iterable[Subject]) -> Iterator[Problem]:
        """Yield the problems of columns; the same problem in many columns is reported once."""
        by_kind: dict[str, list[Problem]] = {}
        for column in columns:
            for problem in self.apply(column):
                by_kind.setdefault(problem.kind, []).append(problem)
        for same in by_kind.values():
            if len(same) <= MAX_COLUMNS_SHOWN:
                yield from same
                continue
            names = [show_name(problem.column or "") for problem in same[1 : 1 + MAX_NAMES_SHOWN]]
            num_more = len(same) - 1 - len(names)
            more = f" and {num_more:,} more" if num_more else ""
            message = f"{same[0].message}; likewise columns {', '.join(names)}{more}"
            yield replace(same[0], message=message, count=sum(problem.count for problem in same))


def quote(value: str) -> str:
    """Return a cell's text in quotes on one line, cut when it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)


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
