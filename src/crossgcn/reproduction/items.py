"""The paper's tables and figures as data: what to run, what it prints, what it claims.

Each TOML file in ``items`` is an :class:`Item`: panels × rows × columns, whose settings are
merged into those of a cell. Nothing here imports torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crossgcn.errors import unknown_name
from crossgcn.reproduction import ITEM_NAMES
from crossgcn.training.config import RunConfig

Settings = Mapping[str, Any]
Choices = Mapping[str, tuple[Any, ...]]
Place = tuple[str, str, str]
"""Row, panel and column."""


class Frozen(BaseModel):
    """An immutable record; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PaperValue(Frozen):
    """A number printed in the paper: percent, or seconds in a timing.

    Attributes:
        tolerance: The difference that counts as agreement if no deviation is printed.
    """

    mean: float
    sd: float | None = Field(None, gt=0)
    tolerance: float | None = Field(None, gt=0)

    @property
    def allowed(self) -> float | None:
        """Largest difference that counts as agreement."""
        return self.sd if self.sd is not None else self.tolerance


class CellKey(Frozen):
    """Selects cells; a part that is left out matches every label."""

    panel: str | None = None
    row: str | None = None
    column: str | None = None

    def matches(self, cell: CellPlace) -> bool:
        """Return whether the cell is selected."""
        return all(label in (None, getattr(cell, part)) for part, label in self)


class CellPlace(Frozen):
    """The place of a cell, its settings, and the number printed there.

    Attributes:
        x: Position on the axis of a figure.
        reason: Why our number differs from the paper's.
        compare_with: Label of the row for paired differences.
    """

    panel: str
    row: str
    column: str
    x: float | None = None
    paper: PaperValue | None = None
    reason: str | None = None
    compare_with: str | None = None
    settings: Settings = Field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Row, panel and column."""
        return self.row, self.panel, self.column


class Cell(CellPlace):
    """A cell to run; ``choose`` has settings with several values, for validation to choose."""

    choose: Choices = Field(default_factory=dict)

    def choices(self) -> Iterator[dict[str, Any]]:
        """Yield every combination of the settings to choose from."""
        for values in product(*self.choose.values()):
            yield dict(zip(self.choose, values, strict=True))


class Line(Frozen):
    """A panel, a row or a column; ``x`` is the position of a column on the axis of a figure."""

    label: str
    x: float | None = None
    settings: Settings = Field(default_factory=dict)
    choose: Choices = Field(default_factory=dict)


class Row(Line):
    """A row of a table or a line of a figure.

    Attributes:
        made_to_match: Generated from the paper's numbers, so agreement means nothing.
        paper: The printed numbers, by ``column`` or ``panel/column``.
        reasons: Why ours are outside the paper's deviation, likewise.
        presets: Further presets that the paper's numbers apply to.
        columns: The columns of this row; all if left out. So are ``panels``.
    """

    made_to_match: bool = False
    compare_with: str | None = None
    paper: Mapping[str, PaperValue] = Field(default_factory=dict)
    reasons: Mapping[str, str] = Field(default_factory=dict)
    presets: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    panels: tuple[str, ...] | None = None


class Check(Frozen):
    """A comparison, made for every cell that ``cell`` selects.

    Another cell takes the parts that its selector leaves out from the first cell.

    Attributes:
        or_row: Use this row instead where it has the better validation accuracy.
        better_than: A cell that must be worse in a paired comparison.
        at_least: In percent.
        at_most: In percent; with ``slower_than`` a factor of the other cell's seconds.
        narrower_than: A row whose means must vary more over the columns.
        slower_than: The cell to compare seconds with.
        close_to: A cell whose mean must differ by at most ``within`` points.
    """

    cell: CellKey
    or_row: str | None = None
    better_than: CellKey | None = None
    at_least: float | None = None
    at_most: float | None = None
    narrower_than: CellKey | None = None
    slower_than: CellKey | None = None
    close_to: CellKey | None = None
    within: float | None = None

    def selectors(self) -> Iterator[CellKey]:
        """Yield all selectors."""
        yield CellKey(row=self.or_row)
        others = (self.better_than, self.narrower_than, self.slower_than, self.close_to)
        yield from (key for key in (self.cell, *others) if key is not None)


class Claim(Frozen):
    """A claim of the paper in our words, what is known beyond its numbers, and its checks."""

    says: str
    finding: str = ""
    checks: tuple[Check, ...] = Field(min_length=1)


class Quick(Frozen):
    """How ``--quick`` shortens an item: columns to keep, settings to replace."""

    columns: tuple[str, ...] | None = None
    settings: Settings = Field(default_factory=dict)


class Item(Frozen):
    """A table or figure of the paper.

    Attributes:
        name: The argument of ``crossgcn reproduce``.
        source: Such as ``Table 5``.
        paper_says: The trend that the paper describes, for the caption.
        protocol: What the paper leaves open, and how it is run here.
        not_reproducible: Why other numbers cannot be expected to agree, if the paper does not
            say enough.
    """

    name: str
    title: str
    source: str
    kind: Literal["statistics", "table", "figure", "curves", "timing"]
    x_label: str = ""
    log_x: bool = False
    paper_says: str = ""
    protocol: str = ""
    not_reproducible: str | None = None
    settings: Settings = Field(default_factory=dict)
    panels: tuple[Line, ...] = (Line(label=""),)
    rows: tuple[Row, ...] = Field(min_length=1)
    columns: tuple[Line, ...] = (Line(label=""),)
    claims: tuple[Claim, ...] = ()
    quick: Quick = Quick()

    @property
    def trains(self) -> bool:
        """Whether models are trained and tested, not counted or timed."""
        return self.kind in ("table", "figure", "curves")

    @model_validator(mode="after")
    def _check_labels(self) -> Item:
        labels = {
            part: {None, *(line.label for line in lines)}
            for part, lines in (
                ("panel", self.panels),
                ("row", self.rows),
                ("column", self.columns),
            )
        }
        for row in self.rows:
            if row.compare_with not in labels["row"]:
                raise ValueError(f"{row.label} is compared with {row.compare_with}, not a row")
            for place in (*row.paper, *row.reasons):
                panel, _, column = place.rpartition("/")
                if column not in labels["column"] or (panel or None) not in labels["panel"]:
                    raise ValueError(f"{row.label} has a number for {place!r}, which is no cell")
        for claim in self.claims:
            for key in (key for check in claim.checks for key in check.selectors()):
                if any(label not in labels[part] for part, label in key):
                    raise ValueError(f"a check of {claim.says!r} names no cell: {key}")
        return self

    def cells(self) -> Iterator[Cell]:
        """Yield every cell, panel by panel, row by row."""
        for panel, row, column in product(self.panels, self.rows, self.columns):
            if row.columns is not None and column.label not in row.columns:
                continue
            if row.panels is not None and panel.label not in row.panels:
                continue
            general, own = column.label, f"{panel.label}/{column.label}"
            yield Cell(
                panel=panel.label,
                row=row.label,
                column=column.label,
                x=column.x,
                settings={**self.settings, **panel.settings, **row.settings, **column.settings},
                choose={**panel.choose, **row.choose, **column.choose},
                paper=row.paper.get(own, row.paper.get(general)),
                reason=row.reasons.get(own, row.reasons.get(general)),
                compare_with=None if row.compare_with == row.label else row.compare_with,
            )


@cache
def read_item(name: str) -> Item:
    """Read the item of that name."""
    if name not in ITEM_NAMES:
        raise unknown_name("item", name, ITEM_NAMES)
    path = files("crossgcn.reproduction").joinpath("items", f"{name}.toml")
    return Item(name=name, **tomllib.loads(path.read_text(encoding="utf-8")))


_TABLES = ("citation", "citeseer-cross")
_FREE = {"hidden_channels", "dropout", "input_dropout", "order"}
"""Model settings that may differ from the paper's; ``order`` has a rule of its own."""


@dataclass(frozen=True)
class PaperResult:
    """A cell of a table in the paper, in percent; ``method`` is the paper's name of the model."""

    method: str
    source: str
    mean: float
    sd: float | None


def paper_result(config: RunConfig) -> PaperResult | None:
    """Return the paper's number for a configuration, if there is a comparable one.

    There is none if a setting that defines the preset was changed, or under another protocol
    than the paper's. The protocol on Citeseer-Cross is not known (NOTE[D8]), so there the
    paper's number applies to both of ours.
    """
    if config.order not in (None, 2, (2,) * config.num_layers):
        return None
    if config.splits == "public" or (config.train == "all" and config.dataset != "citeseer-cross"):
        return None
    for source, row, cell in _printed():
        settings = {"dataset": config.dataset} | config.model_settings()
        same = all(
            value == cell.settings.get(name)
            for name, value in settings.items()
            if name not in _FREE and name not in cell.choose
        )
        if same and config.model in (cell.settings["model"], *row.presets):
            assert cell.paper is not None
            return PaperResult(row.label, source, cell.paper.mean, cell.paper.sd)
    return None


@cache
def _printed() -> tuple[tuple[str, Row, Cell], ...]:
    """Return the cells with a printed number, with their table and row."""
    return tuple(
        (item.source, next(row for row in item.rows if row.label == cell.row), cell)
        for item in map(read_item, _TABLES)
        for cell in item.cells()
        if cell.paper is not None
    )
