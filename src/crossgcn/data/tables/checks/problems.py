"""What is wrong with a table, or may be: one finding each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import fold_spelling
from crossgcn.data.tables.table import Table

Severity = Literal["error", "warning"]

_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Finding:
    """Something that stops training (an error) or may spoil it (a warning).

    Attributes:
        kind: A short name that does not change: ``duplicate-id``.
        severity: Whether training is refused.
        file: Which table.
        message: What is wrong, in one sentence, without file, row and remedy.
        remedy: What to do, as an instruction.
        row: As an editor or a spreadsheet counts, the header being row 1; none for a whole
            column or table.
        column: Where in the row.
        value: What is there, as text.
        count: How many such there are; ``row`` is the first.
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
        """File, row and column, as far as the finding has them."""
        parts = [show_file(self.file)]
        if self.row is not None:
            parts.append(f"row {self.row}")
        if self.column is not None:
            parts.append(f"column {show_name(self.column)}")
        return ", ".join(parts)

    @property
    def statement(self) -> str:
        """What is wrong, and how often where that is more than once."""
        return self.message if self.count == 1 else f"{self.message} ({self.count:,} such)"

    def describe(self) -> str:
        """One line: file, row, column, what is wrong, how often, what to do."""
        return f"{self.place}: {self.statement}; {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """Every field by its name."""
        return asdict(self)


def quote(value: str) -> str:
    """A cell's text in quotes on one line, cut when it is long, control characters escaped."""
    if len(value) > _LONGEST_VALUE:
        return f"{value[:_LONGEST_VALUE]!r}… ({len(value):,} characters)"
    return repr(value)


def show_file(name: str) -> str:
    """A path as it is written, however long it is, in quotes where it would break the line."""
    return name if name.isprintable() and name == name.strip() else repr(name)


def show_name(name: str) -> str:
    """A column as it is written, in quotes where it would break the line or is long."""
    plain = name.isprintable() and name == name.strip() and 0 < len(name) <= _LONGEST_VALUE
    return name if plain else quote(name)


@dataclass(frozen=True)
class Place:
    """A column of a table, in which findings are made.

    Attributes:
        table: The table.
        column: One of its headers.
    """

    table: Table
    column: str

    def at_rows(self, rows: NDArray[np.bool_], rule: Rule) -> Iterator[Finding]:
        """A finding at the first of the rows, or none where there are none.

        Args:
            rows: Which rows of the table are meant.
            rule: What is wrong with them.
        """
        positions = np.flatnonzero(rows)
        if len(positions) > 0:
            yield self.at_row(int(positions[0]), rule, count=len(positions))

    def at_values(self, values: NDArray[np.bool_], rule: Rule) -> Iterator[Finding]:
        """A finding at the first cell that holds one of the values.

        Args:
            values: Which of the column's different values are meant.
            rule: What is wrong with them.
        """
        if values.any():
            yield from self.at_rows(values[self.table.distinct(self.column).codes], rule)

    def at_row(
        self, position: int, rule: Rule, count: int = 1, value: str | None = None
    ) -> Finding:
        """A finding at one row, for all that are like it.

        Args:
            position: Of the row.
            rule: What is wrong.
            count: How often.
            value: What is there; the cell as it is written, if not given.
        """
        if value is None:
            value = str(self.table.frame[self.column].iloc[position])
        row = self.table.row_number(position)
        return rule.at(self.table, self.column, row=row, value=value, count=count)

    def as_a_whole(self, rule: Rule, value: str | None = None) -> Finding:
        """A finding about the column, not about one of its rows."""
        return rule.at(self.table, self.column, value=value)


@dataclass(frozen=True)
class Rule:
    """What can be wrong, and what to do then.

    Attributes:
        kind: Its short name.
        severity: Whether training is refused.
        message: In which ``{value}`` stands for the cell in question.
        remedy: What to do; ``{column}`` stands for the column as an option takes it.
    """

    kind: str
    severity: Severity
    message: str
    remedy: str

    def at(
        self,
        table: Table,
        column: str | None = None,
        *,
        row: int | None = None,
        value: str | None = None,
        count: int = 1,
    ) -> Finding:
        """The finding that the rule is broken here.

        Args:
            table: Where.
            column: In which column, if it is about one.
            row: In which row, if it is about one.
            value: What is there.
            count: How often.
        """
        message, remedy = self.message, self.remedy
        if value is not None:
            message = message.replace("{value}", quote(value))
        if column is not None:
            remedy = remedy.replace("{column}", _as_option(column))
        return Finding(
            self.kind, self.severity, table.name, message, remedy, row, column, value, count
        )


def _as_option(column: str) -> str:
    """A column's name as a shell and a list of columns take it."""
    return shlex.quote(column.replace(",", "\\,")) if column.isprintable() else quote(column)


def find_alike(values: Sequence[str]) -> dict[int, int]:
    """Which values a person would take for an earlier one: case, spaces and accents' encoding.

    Args:
        values: All different.

    Returns:
        The position of each such value, with that of the earlier one.
    """
    first: dict[str, int] = {}
    alike = {}
    for position, value in enumerate(values):
        seen = first.setdefault(fold_spelling(value), position)
        if seen != position:
            alike[position] = seen
    return alike


def share_of(part: int, whole: int) -> str:
    """``12 %``; never 0 % of something nor 100 % of less than all."""
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "less than 1 %"
    return "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def count_of(number: int, what: str) -> str:
    """``1 node``, ``2,000 nodes``, ``3 classes``."""
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending}"
