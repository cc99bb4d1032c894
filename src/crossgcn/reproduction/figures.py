"""Items as charts, as in the paper: ours solid, the paper's numbers hollow.

A :class:`Chart` is drawn twice: by ``page.js`` on the page, and here as SVG for ``report.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy, to_svg
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import measured

# The colour-blind safe palette of Okabe and Ito, extended, one colour per model.
# The page has the same order as --run-0, --run-1, ...
_MODELS: Final = {
    "gcn": "#0072B2",
    "cross-gcn": "#D55E00",
    "cross-gcn-release": "#009E73",
    "cross-gcn-release-fix": "#CC79A7",
    "gin": "#E69F00",
    "deep-walk": "#7f7f7f",
    "cross-gcn-paper": "#56B4E9",
    "cross-gcn-paper-fix": "#000000",
    "semi-emb": "#8a6d3b",
    "mlp": "#a6a61a",
}
COLOURS: Final = tuple(_MODELS.values())
_PAPER: Final = "#8b93a1"
_HALF_GAP: Final = 0.17
"""Half the distance between our mark and the paper's in a table, in rows."""
_MOST_TICKS: Final = 12

Point = tuple[float, float, float | None]
"""Place on the axis, mean and standard deviation."""


@dataclass(frozen=True)
class Series:
    """A row of a table or a line of a figure; ``colour`` is a position in :data:`COLOURS`."""

    name: str
    colour: int
    ours: tuple[Point, ...]
    paper: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One frame of a chart; ``ticks`` are the places of the axis with their labels."""

    title: str
    series: tuple[Series, ...]
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Chart:
    """The numbers of an item, as they are drawn.

    Attributes:
        kind: ``dots`` has a row for each series, the others a line.
        across: How many panels stand side by side.
        shared: Whether all panels have the same axis of values.
    """

    kind: Literal["dots", "lines", "seconds"]
    label: str
    x_label: str
    y_label: str
    scale: Literal["linear", "log", "symlog"]
    across: int
    shared: bool
    panels: tuple[Panel, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all of it for a page."""
        return asdict(self)

    @property
    def names(self) -> dict[str, str]:
        """The colour of each series."""
        return {
            series.name: COLOURS[series.colour] for panel in self.panels for series in panel.series
        }


def make_chart(item: Item, result: ItemResult) -> Chart | None:
    """Return what is drawn of an item; ``None`` if there is nothing to draw."""
    if item.kind == "statistics":
        return None
    timing = item.kind == "timing"
    make = {"table": _table_panels, "curves": _curve_panels}.get(item.kind, _line_panels)
    panels = make(item, result)
    if not panels:
        return None
    curves, places = item.kind == "curves", {x for panel in panels for x, _ in panel.ticks}
    scale: Literal["linear", "log", "symlog"] = "log" if item.log_x or timing else "linear"
    if scale == "log" and min(places) <= 0 < max(places):
        scale = "symlog"
    columns = len({cell.column for cell in result.cells if measured(cell) is not None})
    across = columns if item.kind == "table" and columns > 1 else min(3, len(panels))
    return Chart(
        "dots" if item.kind == "table" else "seconds" if timing else "lines",
        f"{item.source}: {item.title}",
        "epoch" if curves else item.x_label,
        "seconds an epoch" if timing else "accuracy, %" if curves else "test accuracy, %",
        scale,
        2 if curves else across,
        curves or (not timing and "dataset" in item.settings),
        tuple(panels),
    )


def draw_item(item: Item, result: ItemResult) -> str | None:
    """Draw an item as an SVG file; ``None`` if there is nothing to draw."""
    chart = make_chart(item, result)
    if chart is None:
        return None
    with figure_style(item.name):
        return to_svg(_draw_dots(chart) if chart.kind == "dots" else _draw_lines(chart))


def model_colours(item: Item) -> dict[str, int]:
    """Return the colour of each row's model, even if several rows share it."""
    models = [str({**item.settings, **row.settings}.get("model")) for row in item.rows]
    black = list(_MODELS).index("cross-gcn-paper-fix")
    known = [list(_MODELS).index(model) if model in _MODELS else black for model in models]
    return {row.label: colour for row, colour in zip(item.rows, known, strict=True)}


def colours(item: Item) -> dict[str, int]:
    """Return a colour for each row: that of its model, or a free one if it is taken."""
    taken: dict[str, int] = {}
    for label, own in model_colours(item).items():
        free = [colour for colour in range(len(COLOURS)) if colour not in taken.values()]
        taken[label] = own if own in free or not free else free[0]
    return taken


def _table_panels(item: Item, result: ItemResult) -> list[Panel]:
    """Return a panel for each column of the table, with a series for each row."""
    run = {(cell.panel, cell.column) for cell in result.cells if measured(cell) is not None}
    panels = [line.label for line in item.panels if any(p == line.label for p, _ in run)]
    columns = [line.label for line in item.columns if any(c == line.label for _, c in run)]
    shades, papers = model_colours(item), {cell.place: cell.paper for cell in item.cells()}

    def series(row: str, panel: str, column: str) -> Series:
        ours = measured(result.find(panel, row, column))
        paper = papers.get((row, panel, column))
        return Series(
            row,
            shades[row],
            () if ours is None else ((0.0, ours.mean, ours.sd),),
            () if paper is None else ((0.0, paper.mean, paper.sd),),
        )

    return [
        Panel(
            " · ".join(part for part in (panel, column) if part),
            tuple(series(row.label, panel, column) for row in item.rows),
        )
        for panel, column in product(panels, columns)
    ]


def _line_panels(item: Item, result: ItemResult) -> list[Panel]:
    """Return accuracy over a setting, or seconds over hidden size, for each dataset."""
    cells = [cell for cell in result.cells if cell.x is not None and measured(cell) is not None]
    timing = item.kind == "timing"

    def series(row: str, colour: int, cells: Sequence[CellResult]) -> Series:
        line = sorted((cell for cell in cells if cell.row == row), key=lambda cell: cell.x or 0.0)
        ours = [(cell.x or 0.0, found) for cell in line if (found := measured(cell)) is not None]
        return Series(
            row,
            colour,
            tuple((x, each.mean, None if timing else each.sd) for x, each in ours),
            tuple(
                (cell.x or 0.0, cell.paper.mean, cell.paper.sd)
                for cell in line
                if cell.paper is not None
            ),
        )

    panels = []
    for panel in _panels_of(item, cells):
        own = [cell for cell in cells if cell.panel == panel]
        drawn = [series(row, colour, own) for row, colour in colours(item).items()]
        ticks = sorted({cell.x or 0.0: cell.column for cell in own}.items())
        panels.append(Panel(panel, tuple(each for each in drawn if each.ours), tuple(ticks)))
    return panels


def _curve_panels(item: Item, result: ItemResult) -> list[Panel]:
    """Return training accuracy and test accuracy over epochs, for each dataset."""
    cells = [cell for cell in result.cells if cell.curve is not None]
    shades = colours(item)

    def series(cell: CellResult, side: str) -> Series:
        means, sds = (getattr(cell.curve, name) for name in (side, f"{side}_sd"))
        points = zip(cell.curve.epoch if cell.curve else (), means, sds, strict=True)
        return Series(
            cell.row,
            shades[cell.row],
            tuple((epoch, round(100 * mean, 2), round(100 * sd, 2)) for epoch, mean, sd in points),
        )

    return [
        Panel(
            f"{panel}: {words}" if panel else f"{words} accuracy",
            tuple(series(cell, side) for cell in cells if cell.panel == panel),
        )
        for panel in _panels_of(item, cells)
        for side, words in (("train", "training"), ("test", "test"))
    ]


def _panels_of(item: Item, cells: Sequence[CellResult]) -> list[str]:
    run = {cell.panel for cell in cells}
    return [panel.label for panel in item.panels if panel.label in run]


def _draw_dots(chart: Chart) -> Figure:
    names = list(chart.names)
    figure, grid = _grid(chart, 0.34 * len(names) + 0.55, sharey=True, sharex=chart.shared)
    for axes, panel in zip(grid, chart.panels, strict=True):
        axes.set_title(panel.title)
        axes.set_xlabel(chart.y_label)
        for series in panel.series:
            row = names.index(series.name)
            for _, mean, sd in series.ours:
                colour = COLOURS[series.colour]
                axes.errorbar(mean, row - _HALF_GAP, xerr=sd, color=colour, fmt="o")
            for _, mean, sd in series.paper:
                axes.errorbar(
                    mean, row + _HALF_GAP, xerr=sd, color=_PAPER, fmt="s", mfc="white", markersize=4
                )
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    handles = [
        Line2D([], [], color=INK, marker="o", label="ours, mean ± sd"),
        Line2D([], [], color=_PAPER, marker="s", mfc="white", label="paper, mean ± sd"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_lines(chart: Chart) -> Figure:
    figure, grid = _grid(chart, 3.0, sharey=chart.shared)
    for axes, panel in zip(grid, chart.panels, strict=True):
        axes.set_title(panel.title)
        if chart.kind == "seconds":
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        for series in panel.series:
            _draw_series(axes, series, chart.kind == "seconds")
        _set_x_axis(axes, chart, panel)
    grid[0].set_ylabel(chart.y_label)
    handles = [Line2D([], [], color=colour, label=name) for name, colour in chart.names.items()]
    if any(series.paper for panel in chart.panels for series in panel.series):
        ours = "ours" if chart.kind == "seconds" else "ours: mean, band of one sd"
        handles.append(Line2D([], [], color=INK, marker="o", label=ours))
        style: Any = "--" if chart.kind == "seconds" else ""
        handles.append(Line2D([], [], linestyle=style, **_hollow(INK), label="the paper's numbers"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
    return figure


def _draw_series(axes: Axes, series: Series, seconds: bool) -> None:
    colour = COLOURS[series.colour]
    places, means, sds = zip(*series.ours, strict=True)
    marker = "o" if len(places) <= 2 * _MOST_TICKS else None
    axes.plot(places, means, color=colour, marker=marker)
    if not seconds:
        spread = np.array([sd or 0.0 for sd in sds])
        low, high = means - spread, means + spread
        axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        for x, mean, sd in series.paper:
            axes.errorbar(x, mean, sd, **_hollow(colour))
    elif series.paper:
        places, means, _ = zip(*series.paper, strict=True)
        axes.plot(places, means, linestyle="--", linewidth=1, **_hollow(colour))


def _grid(chart: Chart, height: float, **share: Any) -> tuple[Figure, list[Axes]]:
    rows = ceil(len(chart.panels) / chart.across)
    width = WIDTH if chart.across > 1 else 0.75 * WIDTH
    figure = Figure(figsize=(width, 0.5 + height * rows), layout="constrained")
    grid = list(figure.subplots(rows, chart.across, squeeze=False, **share).flat)
    for axes in grid[len(chart.panels) :]:
        axes.remove()
    for axes in grid[: len(chart.panels)]:
        tidy(axes)
    return figure, grid[: len(chart.panels)]


def _set_x_axis(axes: Axes, chart: Chart, panel: Panel) -> None:
    """Put ticks at the columns; a logarithmic axis keeps a place for zero."""
    places = [place for place, _ in panel.ticks]
    if chart.scale == "symlog":
        least = min(place for place in places if place > 0)
        axes.set_xscale("symlog", base=2, linthresh=least, linscale=0.7)
    elif chart.scale == "log":
        axes.set_xscale("log", base=2)
    if 0 < len(places) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_major_formatter(FixedFormatter([label for _, label in panel.ticks]))
    elif chart.scale == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(chart.x_label)


def _hollow(colour: str) -> dict[str, Any]:
    return {
        "color": colour,
        "marker": "o",
        "markerfacecolor": "white",
        "markersize": 6,
        "zorder": 4,
    }
