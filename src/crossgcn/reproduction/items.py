"""The paper's tables and figures as data: what to run, what was printed, what was claimed.

One TOML file in ``experiments`` is one :class:`Item`: panels × rows × columns,
each with settings, merge into one cell each. Nothing here imports torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crossgcn.errors import unknown_name
from crossgcn.reproduction.item_names import ITEM_NAMES

Kind = Literal["statistics", "table", "figure", "curves", "timing"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PaperValue(_Part):
    """A number the paper prints: percent, or seconds in a timing.

    Attributes:
        mean: The number.
        sd: Its standard deviation, where it is printed.
        tolerance: How far off still agrees, where no deviation is printed.
    """

    mean: float
    sd: float | None = Field(None, gt=0)
    tolerance: float | None = Field(None, gt=0)

    @property
    def allowed(self) -> float | None:
        """How far ours may be from it: one standard deviation, or the tolerance."""
        return self.sd if self.sd is not None else self.tolerance


class CellKey(_Part):
    """Where a cell stands; in a check, what is left out means every one."""

    panel: str | None = None
    row: str | None = None
    column: str | None = None


class Line(_Part):
    """A panel, a row or a column: a label and the settings it brings.

    Attributes:
        label: As shown.
        x: Where a column stands on a figure's axis.
        settings: Of :class:`~crossgcn.training.config.RunConfig`.
        choose: Settings with several values, of which validation takes one.
    """

    label: str
    x: float | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    choose: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)


class Row(Line):
    """A row of a table or a line of a figure.

    Attributes:
        ours: Not in the paper.
        made_to_match: Built from the paper's numbers, so that agreement says nothing.
        compare_with: The row that paired differences are taken against.
        paper: What the paper prints, by column (or ``panel/column``).
        reasons: Why ours is not within the paper's deviation, likewise.
        presets: Further presets that the paper's numbers are shown beside.
        columns: The columns this row has; all when left out.
        panels: Likewise.
    """

    ours: bool = False
    made_to_match: bool = False
    compare_with: str | None = None
    paper: Mapping[str, PaperValue] = Field(default_factory=dict)
    reasons: Mapping[str, str] = Field(default_factory=dict)
    presets: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    panels: tuple[str, ...] | None = None


class Check(_Part):
    """One comparison, or one for every cell its selectors match.

    Attributes:
        cell: What is looked at.
        or_row: Or this row, where it did better on validation.
        better_than: Another cell, alike in what it leaves out, whose accuracy
            must be lower in a paired comparison.
        at_least: In percent.
        at_most: In percent; in a timing, times the other cell's seconds.
        narrower_than: A row whose means spread further over the columns.
        slower_than: With ``at_most``: the cell whose seconds are multiplied.
        close_to: With ``within``: a cell whose mean may differ by no more points.
        within: Those points.
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
        """Every selector it has."""
        others = (self.better_than, self.narrower_than, self.slower_than, self.close_to)
        yield self.cell
        if self.or_row is not None:
            yield CellKey(row=self.or_row)
        yield from (key for key in others if key is not None)


class Claim(_Part):
    """What the paper says of an item, and how to see whether it holds.

    Attributes:
        says: The paper's claim, in our words.
        finding: What is known about it beyond the numbers.
        checks: All must hold.
    """

    says: str
    finding: str = ""
    checks: tuple[Check, ...] = Field(min_length=1)


class Quick(_Part):
    """What ``--quick`` leaves out of an item beyond the usual.

    Attributes:
        columns: The columns kept.
        settings: Replace the item's.
    """

    columns: tuple[str, ...] | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)


class Cell(_Part):
    """One place of an item: the settings to run there and the paper's number.

    Attributes:
        panel: Label of its panel.
        row: Label of its row.
        column: Label of its column.
        x: Where it stands on a figure's axis.
        settings: Panel's, row's and column's, merged.
        choose: Likewise.
        paper: What the paper prints there.
        reason: Why ours is not the same.
        compare_with: Label of the row it is paired with.
    """

    panel: str
    row: str
    column: str
    x: float | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    choose: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    paper: PaperValue | None = None
    reason: str | None = None
    compare_with: str | None = None

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Every combination of the settings to choose from."""
        for values in product(*self.choose.values()):
            yield dict(zip(self.choose, values, strict=True))


class Item(_Part):
    """A table or figure of the paper.

    Attributes:
        name: What ``reproduce`` takes.
        title: A line about it.
        source: ``Table 5`` or the like.
        kind: How it is run and shown.
        x_label: Of a figure's horizontal axis.
        log_x: Whether that axis is logarithmic (base 2).
        paper_says: The trend the paper describes, for the caption.
        protocol: What the paper leaves open and how it is run here.
        not_reproducible: Why numbers outside the paper's cannot be expected to
            come back, when the paper does not say enough.
        settings: For every cell.
        panels: One when left out.
        rows: Rows of a table, lines of a figure.
        columns: Columns of a table, points of a figure.
        claims: What the paper concludes.
        quick: What ``--quick`` leaves out.
    """

    name: str
    title: str
    source: str
    kind: Kind
    x_label: str = ""
    log_x: bool = False
    paper_says: str = ""
    protocol: str = ""
    not_reproducible: str | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    panels: tuple[Line, ...] = (Line(label=""),)
    rows: tuple[Row, ...] = Field(min_length=1)
    columns: tuple[Line, ...] = (Line(label=""),)
    claims: tuple[Claim, ...] = ()
    quick: Quick = Quick()

    @model_validator(mode="after")
    def _labels_exist(self) -> Item:
        rows, columns = {row.label for row in self.rows}, {line.label for line in self.columns}
        panels = {panel.label for panel in self.panels}
        for row in self.rows:
            if row.compare_with not in {None, *rows}:
                raise ValueError(f"{row.label} is compared with {row.compare_with}, not a row")
            for place in (*row.paper, *row.reasons):
                panel, _, column = place.rpartition("/")
                if column not in columns or (panel and panel not in panels):
                    raise ValueError(f"{row.label} has a number for {place!r}, which is no cell")
        for claim in self.claims:
            for check in claim.checks:
                for key in check.selectors():
                    if not (
                        key.row in {None, *rows}
                        and key.column in {None, *columns}
                        and key.panel in {None, *panels}
                    ):
                        raise ValueError(f"a check of {claim.says!r} names no cell: {key}")
        return self

    def cells(self) -> Iterator[Cell]:
        """Every cell, panel by panel, row by row."""
        for panel, row, column in product(self.panels, self.rows, self.columns):
            if row.columns is not None and column.label not in row.columns:
                continue
            if row.panels is not None and panel.label not in row.panels:
                continue
            places = (f"{panel.label}/{column.label}", column.label)
            settings: dict[str, Any] = {**self.settings}
            choose: dict[str, tuple[Any, ...]] = {}
            for line in (panel, row, column):
                settings |= line.settings
                choose |= line.choose
            yield Cell(
                panel=panel.label,
                row=row.label,
                column=column.label,
                x=column.x,
                settings=settings,
                choose=choose,
                paper=next((row.paper[place] for place in places if place in row.paper), None),
                reason=next((row.reasons[place] for place in places if place in row.reasons), None),
                compare_with=None if row.compare_with == row.label else row.compare_with,
            )


@cache
def read_item(name: str) -> Item:
    """The item of that name."""
    if name not in ITEM_NAMES:
        raise unknown_name("item", name, ITEM_NAMES)
    text = (
        files("crossgcn.reproduction").joinpath("items", f"{name}.toml").read_text(encoding="utf-8")
    )
    return Item(name=name, **tomllib.loads(text))
