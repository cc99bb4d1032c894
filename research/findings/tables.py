"""What lies beyond the paper as data: tables of settings, each row beside its plain twin.

One TOML file in ``findings`` is one :class:`FindingsTable`: rows × columns, each with settings,
merge into one cell each. Rows and columns stand in the order in which they are worth measuring.
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
    """A graph and how it is split.

    Attributes:
        label: As shown.
        settings: Of :class:`~crossgcn.training.config.RunConfig`.
        paper_best: The best accuracy the paper prints there, in percent.
        target: What is to be reached there, in percent.
    """

    label: str
    settings: Settings
    paper_best: float | None = None
    target: float | None = None


class Row(_Part):
    """A model.

    Attributes:
        label: As shown.
        settings: Of :class:`~crossgcn.training.config.RunConfig`.
        against: Rows that paired differences are taken against; the first is mostly its twin.
        searched: The model whose settings, chosen in a search, it takes on each dataset; the
            table's choice then leaves it alone.
        columns: Labels of the columns it is measured in; all of them where none is named.
    """

    label: str
    settings: Settings
    against: tuple[str, ...] = ()
    searched: str | None = None
    columns: tuple[str, ...] = ()

    @property
    def twin(self) -> str | None:
        """The row that lacks nothing but what this one is about."""
        return self.against[0] if self.against else None

    def stands_in(self, column: Column) -> bool:
        """Whether it is measured there."""
        return not self.columns or column.label in self.columns


class FindingsCell(_Part):
    """One place of a table.

    Attributes:
        row: Label of its row.
        column: Label of its column.
        defaults: Settings of the whole table; those of a search go before them.
        settings: Of its column and its row, which go before all others.
        choose: Settings with several values, of which validation takes one.
        searched: As of its row.
    """

    row: str
    column: str
    defaults: Settings
    settings: Settings
    choose: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    searched: str | None = None

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Every combination of the settings to choose from."""
        for values in product(*self.choose.values()):
            yield dict(zip(self.choose, values, strict=True))


class FindingsTable(_Part):
    """A question, and the runs that answer it.

    Attributes:
        name: What ``measure_findings.py --table`` takes.
        title: A line about it.
        compares: What is held against what, in half a line.
        settings: For every cell.
        choose: Settings with several values, of which each cell takes one by validation.
        choose_splits: On how many of the splits, the first ones, it is chosen.
        search: Name of the record of a search, where rows take settings from one.
        costs: Whether parameters and seconds are shown.
        columns: Where.
        rows: What.
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
                raise ValueError(f"{row.label} takes settings from a search that is not named")
        return self

    def cells(self) -> Iterator[FindingsCell]:
        """Every cell once, row by row, each after those that it is compared with."""
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
    """The table of that name."""
    if name not in TABLE_NAMES:
        raise unknown_name("table", name, TABLE_NAMES)
    text = (Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return FindingsTable(name=name, **tomllib.loads(text))


class _Trial(BaseModel):
    """Settings that were tried; a trial that failed has no accuracy."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    model: str
    settings: Mapping[str, Any]
    validation_mean: float | None = None


@dataclass(frozen=True)
class Chosen:
    """What a search ended with.

    Attributes:
        settings: Those of the best mean validation accuracy; of equals the first.
        validation_mean: That accuracy, a fraction.
        trials: How many settings were tried, failed ones included.
    """

    settings: Mapping[str, Any]
    validation_mean: float
    trials: int


class SearchRecord(BaseModel):
    """All trials of a search: ``{"rows": [{dataset, model, settings, validation_mean}, …]}``."""

    model_config = ConfigDict(frozen=True)

    rows: tuple[_Trial, ...]

    def choose(self, dataset: str, model: str) -> Chosen:
        """The best settings of a model on a dataset, by validation accuracy alone.

        Raises:
            BadInput: If no trial of theirs came to an end.
        """
        tried = [row for row in self.rows if (row.dataset, row.model) == (dataset, model)]
        done = [
            (row.validation_mean, row)
            for row in tried
            if row.validation_mean is not None and math.isfinite(row.validation_mean)
        ]
        if not done:
            raise BadInput(
                f"the search has no finished trial of {model} on {dataset}: search it first"
            )
        best, row = max(done, key=lambda trial: trial[0])
        return Chosen(row.settings, best, len(tried))


def read_search(path: Path) -> SearchRecord:
    """Read the record of a search.

    Raises:
        BadInput: If it is not there or not one.
    """
    try:
        return SearchRecord(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); search first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the record of a search ({first})") from None
