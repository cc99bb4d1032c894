"""Tables of settings beyond the paper, as data; each row is compared with a baseline row.

One TOML file in ``findings`` is one :class:`FindingsTable`. The settings of a row and of a column
are merged into the settings of their cell. Rows and columns are listed in order of priority.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from crossgcn.errors import BadInput, unknown_name

TABLE_NAMES: tuple[str, ...] = (
    "order-aggregations",
    "neighbour-crosses",
    "aggregations",
    "peers",
    "orders",
    "grand",
)

Settings = Mapping[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Part):
    """A graph and its splits.

    Attributes:
        label: Label in the table.
        settings: Fields of :class:`~crossgcn.training.config.RunConfig`.
        paper_best: Best accuracy reported in the paper, in percent.
        target: Accuracy to reach, in percent.
    """

    label: str
    settings: Settings
    paper_best: float | None = None
    target: float | None = None


class Row(_Part):
    """A model.

    Attributes:
        label: Label in the table.
        settings: Fields of :class:`~crossgcn.training.config.RunConfig`.
        against: Rows for paired differences; the first is usually the baseline row.
        searched: Model of a search whose settings this row uses on each dataset. Such a row is
            not subject to the table's ``choose``.
        columns: Labels of the columns in which the row is measured; all columns if empty.
    """

    label: str
    settings: Settings
    against: tuple[str, ...] = ()
    searched: str | None = None
    columns: tuple[str, ...] = ()

    @property
    def twin(self) -> str | None:
        """Return the baseline row: same settings without the option under test."""
        return self.against[0] if self.against else None

    def stands_in(self, column: Column) -> bool:
        """Return whether the row is measured in a column."""
        return not self.columns or column.label in self.columns


class FindingsCell(_Part):
    """One cell of a table.

    Attributes:
        row: Label of its row.
        column: Label of its column.
        defaults: Settings of the whole table; settings from a search override them.
        settings: Settings of the column and the row; they override all others.
        choose: Settings with several values; validation accuracy selects one combination.
        searched: ``searched`` of its row.
    """

    row: str
    column: str
    defaults: Settings
    settings: Settings
    choose: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    searched: str | None = None

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Return every combination of the settings to choose from."""
        for values in product(*self.choose.values()):
            yield dict(zip(self.choose, values, strict=True))


class FindingsTable(_Part):
    """A question, and the runs that answer it.

    Attributes:
        name: Value of ``measure_findings.py --table``.
        title: One-line title.
        compares: Short description of the comparison.
        settings: Settings of every cell.
        choose: Settings with several values; validation accuracy selects one for each cell.
        choose_splits: Number of splits, from the first on, used for the selection.
        search: Name of a search record, if rows take settings from one.
        costs: Whether to show parameters and seconds.
        columns: The columns.
        rows: The rows.
    """

    name: str
    title: str
    compares: str
    settings: Settings = Field(default_factory=dict)
    choose: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    choose_splits: int = Field(3, ge=1)
    search: str | None = None
    costs: bool = False
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_exist(self) -> FindingsTable:
        labels = [row.label for row in self.rows]
        if len({*labels}) < len(labels):
            raise ValueError(f"two rows of {self.name} have one label")
        for row in self.rows:
            for other in row.against:
                if other == row.label or other not in labels:
                    raise ValueError(f"{row.label} is compared with {other}, no other row")
            for column in row.columns:
                if column not in {each.label for each in self.columns}:
                    raise ValueError(f"{row.label} is measured in {column}, no column")
            if row.searched is not None and self.search is None:
                raise ValueError(f"{row.label} is searched, but the table names no search")
        return self

    def cells(self) -> Iterator[FindingsCell]:
        """Yield every cell once, row by row; each follows the cells it is compared with."""
        rows = {row.label: row for row in self.rows}
        met: set[tuple[str, str]] = set()
        for row, column in product(self.rows, self.columns):
            if not row.stands_in(column):
                continue
            for label in (*row.against, row.label):
                if (label, column.label) not in met and rows[label].stands_in(column):
                    met.add((label, column.label))
                    yield self._cell(rows[label], column)

    def _cell(self, row: Row, column: Column) -> FindingsCell:
        return FindingsCell(
            row=row.label,
            column=column.label,
            defaults=self.settings,
            settings={**column.settings, **row.settings},
            choose={} if row.searched else self.choose,
            searched=row.searched,
        )


@cache
def read_table(name: str) -> FindingsTable:
    """Read the table of the given name."""
    if name not in TABLE_NAMES:
        raise unknown_name("table", name, TABLE_NAMES)
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return FindingsTable(name=name, **tomllib.loads(text))


class _Trial(BaseModel):
    """A trial of a search; a failed trial has no accuracy."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    model: str
    settings: Mapping[str, Any]
    validation_mean: float | None = None


@dataclass(frozen=True)
class Chosen:
    """The result of a search.

    Attributes:
        settings: Settings with the best mean validation accuracy; the first in case of ties.
        validation_mean: That accuracy, a fraction.
        trials: Number of settings tried, including failed ones.
    """

    settings: Mapping[str, Any]
    validation_mean: float
    trials: int


class SearchRecord(BaseModel):
    """All trials of a search: ``{"rows": [{dataset, model, settings, validation_mean}, …]}``."""

    model_config = ConfigDict(frozen=True)

    rows: tuple[_Trial, ...]

    def choose(self, dataset: str, model: str) -> Chosen:
        """Return the best settings of a model on a dataset, by validation accuracy alone.

        Raises:
            BadInput: If no trial of the model on the dataset finished.
        """
        tried = [row for row in self.rows if (row.dataset, row.model) == (dataset, model)]
        done = [
            (row.validation_mean, row)
            for row in tried
            if row.validation_mean is not None and math.isfinite(row.validation_mean)
        ]
        if not done:
            raise BadInput(
                f"the search has no finished trial of {model} on {dataset}: "
                "run search_settings.py first"
            )
        best, row = max(done, key=lambda trial: trial[0])
        return Chosen(row.settings, best, len(tried))


def read_search(path: Path) -> SearchRecord:
    """Read the record of a search.

    Raises:
        BadInput: If the file is missing or not a search record.
    """
    try:
        return SearchRecord(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); search first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the record of a search ({first})") from None
