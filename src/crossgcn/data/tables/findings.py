"""What is wrong with a table, or may be: one finding each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Finding", "Severity", "quote", "show_file", "show_name"]

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
