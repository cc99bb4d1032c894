"""A table or figure of the paper: its rows, columns and panels, and what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

Settings = Mapping[str, Any]


class Place(NamedTuple):
    """Where a cell stands, by labels."""

    row: str
    panel: str = ""
    column: str = ""


@dataclass(frozen=True)
class Number:
    """A number that the paper prints: percent, or seconds.

    Attributes:
        tolerance: The difference that counts as agreement if no deviation is printed.
    """

    mean: float
    sd: float | None = None
    tolerance: float | None = None

    @property
    def allowed(self) -> float | None:
        """Largest difference that counts as agreement."""
        return self.tolerance if self.sd is None else self.sd


@dataclass(frozen=True)
class Line:
    """A panel, a row or a column, whose settings hold for all its cells.

    Attributes:
        x: Position of a column on the axis of a figure.
        choose: Settings with several values, of which validation chooses one.
    """

    label: str = ""
    settings: Settings = field(default_factory=dict)
    x: float | None = None
    choose: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row(Line):
    """A row of a table or a line of a figure.

    Attributes:
        compare_with: The row of the baseline in paired differences.
        paper: The printed numbers, by column.
        reasons: Why our number is another one, by column.
        made_to_match: Generated from the paper's numbers, so that agreement means nothing.
    """

    compare_with: str | None = None
    paper: Mapping[str, Number] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    made_to_match: bool = False


@dataclass(frozen=True)
class Cell:
    """What to run at one place, and the number that is printed there."""

    place: Place
    settings: Settings
    choose: Mapping[str, tuple[Any, ...]]
    row: Row
    x: float | None

    @property
    def paper(self) -> Number | None:
        """The printed number."""
        return self.row.paper.get(self.place.column)

    @property
    def reason(self) -> str | None:
        """Why our number is another one."""
        return self.row.reasons.get(self.place.column)

    @property
    def baseline(self) -> Place | None:
        """The place to compare with."""
        other = self.row.compare_with
        return None if other is None else self.place._replace(row=other)

    def choices(self) -> Iterator[dict[str, Any]]:
        """Yield every combination of the settings to choose from."""
        for values in product(*self.choose.values()):
            yield dict(zip(self.choose, values, strict=True))


Checks = Callable[["Result"], Iterable[Any]]
"""Makes a :class:`~paper.verdicts.Check` for each comparison of a claim."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, how it is checked, and what is known beyond numbers."""

    says: str
    checks: Checks
    finding: str = ""


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper.

    Attributes:
        name: The argument of ``python -m paper``.
        source: Such as ``Table 5``.
        kind: What is measured and how it is shown: ``statistics`` counts, ``timing`` times, the
            others train.
        paper_says: What the paper concludes from it.
        protocol: What the paper leaves open, and how it is run here.
        not_reproducible: Why other numbers cannot be expected to agree, if the paper does not say
            enough.
        quick_columns: The columns of a short run.
        quick_settings: Settings of a short run.
    """

    name: str
    source: str
    title: str
    kind: Literal["statistics", "table", "figure", "curves", "timing"]
    rows: tuple[Row, ...]
    columns: tuple[Line, ...] = (Line(),)
    panels: tuple[Line, ...] = (Line(),)
    settings: Settings = field(default_factory=dict)
    x_label: str = ""
    log_x: bool = False
    paper_says: str = ""
    protocol: str = ""
    not_reproducible: str | None = None
    claims: tuple[Claim, ...] = ()
    quick_columns: tuple[str, ...] | None = None
    quick_settings: Settings = field(default_factory=dict)

    @property
    def trains(self) -> bool:
        """Whether models are trained and tested, not counted or timed."""
        return self.kind in ("table", "figure", "curves")

    @cached_property
    def cells(self) -> dict[Place, Cell]:
        """Every cell, panel by panel, row by row."""
        return {
            (place := Place(row.label, panel.label, column.label)): Cell(
                place,
                {**self.settings, **panel.settings, **row.settings, **column.settings},
                {**panel.choose, **row.choose, **column.choose},
                row,
                column.x,
            )
            for panel, row, column in product(self.panels, self.rows, self.columns)
        }


@dataclass(frozen=True)
class Measured:
    """What came out at one place.

    Attributes:
        settings: What was run, with the settings that validation chose.
        chosen: The settings that validation chose.
        candidates: What it chose from, with the mean validation accuracy of each.
        test_accuracy: Fractions, one per split (one per seed if there is a single split).
        validation_accuracy: Likewise, at the selected epochs.
        curve: Means and deviations over runs for each epoch, of ``curves``.
        timing: ``mean``, the seconds of an epoch, and on what they were measured.
        statistics: ``value``, what was counted.
    """

    settings: Settings = field(default_factory=dict)
    chosen: Settings = field(default_factory=dict)
    candidates: Sequence[Settings] = ()
    test_accuracy: Sequence[float] = ()
    validation_accuracy: Sequence[float] = ()
    best_epoch: Sequence[int] = ()
    curve: Mapping[str, list[float]] | None = None
    timing: Mapping[str, Any] | None = None
    statistics: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Result:
    """What came out of an item.

    Attributes:
        measured: The cells that were run.
        shortened: What ``--quick`` left out, a line each; empty for a full run.
        skipped: What could not be run and how to provide it, a line each.
        splits: Which training sets were used, by dataset.
        environment: Versions, threads, commit and machine of the runs.
    """

    item: Item
    measured: Mapping[Place, Measured]
    shortened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def places(
        self, row: str | None = None, panel: str | None = None, column: str | None = None
    ) -> list[Place]:
        """Return the places with these labels, whether they were run or not."""
        wanted = (row, panel, column)
        return [
            place
            for place in self.item.cells
            if all(label in (None, own) for label, own in zip(wanted, place, strict=True))
        ]

    def write(self, path: Path) -> None:
        """Write a JSON file, without what is empty."""
        cells = [
            place._asdict() | {name: value for name, value in asdict(each).items() if value}
            for place, each in self.measured.items()
        ]
        others = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ("item", "measured")
        }
        record = {"item": self.item.name, "cells": cells, **others}
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_result(path: Path, item: Item) -> Result:
    """Read what :meth:`Result.write` wrote; cells that the item no longer has are left out."""
    record = json.loads(path.read_text(encoding="utf-8"))
    known = {each.name for each in fields(Measured)}
    measured = {
        Place(cell["row"], cell["panel"], cell["column"]): Measured(
            **{name: value for name, value in cell.items() if name in known}
        )
        for cell in record["cells"]
    }
    return Result(
        item,
        {place: measured[place] for place in item.cells if place in measured},
        tuple(record.get("shortened", ())),
        tuple(record.get("skipped", ())),
        record.get("splits", {}),
        record.get("environment", {}),
    )
