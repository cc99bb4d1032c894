"""Items as charts, as in the paper: ours solid, the paper's numbers hollow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from math import ceil
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from paper.cells import Item, Number, Place, Result
from paper.verdicts import number_of

WIDTH: Final = 9.0
"""Width of a figure in inches, with nine-point text: legible at 900 pixels."""

INK: Final = "#3d4450"
_PAPER: Final = "#8b93a1"
_STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#9aa1ad",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e4e7ec",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
}

# The colour-blind safe palette of Okabe and Ito, extended.
_MODELS: Final = {
    "gcn": "#0072B2",
    "cross-gcn": "#D55E00",
    "cross-gcn-release": "#009E73",
    "cross-gcn-release-fix": "#CC79A7",
    "gin": "#E69F00",
    "mlp": "#7f7f7f",
    "cross-gcn-paper-fix": "#000000",
    "semi-emb": "#8a6d3b",
}
_OTHERS: Final = ("#56B4E9", "#a6a61a", *_MODELS.values())
_MOST_TICKS: Final = 12
_HALF_GAP: Final = 0.17
"""Half the distance between our mark and the paper's in a table, in rows."""


def draw_item(result: Result) -> str | None:
    """Draw an item as SVG, the same bytes every time; ``None`` if there is nothing to draw."""
    if result.item.kind == "statistics" or not result.measured:
        return None
    draw = {"table": _draw_table, "curves": _draw_curves}.get(result.item.kind, _draw_lines)
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": result.item.name}):
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw(result).savefig(buffer, format="svg", metadata=nothing)
        return buffer.getvalue()


def colours(item: Item, *, distinct: bool = True) -> dict[str, str]:
    """Return the colour of each row: that of its model, or another one if it is taken.

    Args:
        distinct: Give no two rows the same colour.
    """
    chosen: dict[str, str] = {}
    for row in item.rows:
        model = str({**item.settings, **row.settings}.get("model"))
        own, taken = _MODELS.get(model, _OTHERS[0]), set(chosen.values())
        free = [colour for colour in (own, *_OTHERS) if colour not in taken]
        chosen[row.label] = free[0] if distinct and free else own
    return chosen


def _draw_table(result: Result) -> Figure:
    """Draw a frame for each column of the table, with a line of marks for each row."""
    item, places = result.item, result.measured
    panels = _panels(result)
    columns = [line.label for line in item.columns if any(p.column == line.label for p in places)]
    names, shades = [row.label for row in item.rows], colours(item, distinct=False)
    frames = list(product(panels, columns))
    shared = "dataset" in item.settings
    figure, grid = _frames(
        len(frames), 0.34 * len(names) + 0.55, max(len(columns), 1), sharey=True, sharex=shared
    )
    has_paper = False
    for axes, (panel, column) in zip(grid, frames, strict=True):
        axes.set_title(" · ".join(part for part in (panel, column) if part))
        axes.set_xlabel("test accuracy, %")
        for position, name in enumerate(names):
            place = Place(name, panel, column)
            ours, paper = number_of(result.measured.get(place)), item.cells[place].paper
            if ours is not None:
                _mark(axes, ours, position - (_HALF_GAP if paper else 0), shades[name])
            if paper is not None:
                has_paper = True
                _mark(axes, paper, position + _HALF_GAP, _PAPER, fmt="s", mfc="white", markersize=4)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    handles = [Line2D([], [], color=INK, marker="o", label="ours, mean ± sd")]
    if has_paper:
        style: dict[str, Any] = {"color": _PAPER, "marker": "s", "mfc": "white"}
        handles.append(Line2D([], [], label="paper, mean ± sd", **style))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _panels(result: Result) -> list[str]:
    run = {place.panel for place in result.measured}
    return [panel.label for panel in result.item.panels if panel.label in run]


def _mark(axes: Axes, number: Number, y: float, colour: str, **style: Any) -> None:
    axes.errorbar(number.mean, y, xerr=number.sd, color=colour, **{"fmt": "o", **style})


def _draw_lines(result: Result) -> Figure:
    """Draw accuracy over a setting, or seconds over the hidden size, for each panel."""
    item, timing = result.item, result.item.kind == "timing"
    panels = _panels(result)
    shared = not timing and "dataset" in item.settings
    figure, grid = _frames(len(panels), 3.0, min(3, len(panels)), sharey=shared)
    shades, has_paper = colours(item), False
    for axes, panel in zip(grid, panels, strict=True):
        axes.set_title(panel)
        if timing:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        for name, colour in shades.items():
            cells = [item.cells[place] for place in result.places(name, panel)]
            cells = sorted((each for each in cells if each.place in result.measured), key=_x)
            if not cells:
                continue
            ours = [(_x(cell), number_of(result.measured[cell.place])) for cell in cells]
            _draw_line(axes, [(x, each) for x, each in ours if each], colour, band=not timing)
            printed = [(_x(cell), cell.paper) for cell in cells if cell.paper is not None]
            has_paper = has_paper or bool(printed)
            if timing and printed:
                xs, ys = [x for x, _ in printed], [number.mean for _, number in printed]
                axes.plot(xs, ys, linestyle="--", linewidth=1, **_hollow(colour))
            elif printed:
                for x, number in printed:
                    axes.errorbar(x, number.mean, number.sd, **_hollow(colour))
        ticks = {column.x: column.label for column in item.columns if column.x is not None}
        shown = {_x(item.cells[place]) for place in result.measured if place.panel == panel}
        _set_x_axis(axes, item, {x: label for x, label in ticks.items() if x in shown})
    grid[0].set_ylabel("seconds an epoch" if timing else "test accuracy, %")
    _legend(figure, result, has_paper, "" if timing else ": mean, band of one sd")
    return figure


def _x(cell: Any) -> float:
    return float(cell.x or 0.0)


def _draw_curves(result: Result) -> Figure:
    """Draw training and test accuracy over epochs, for each panel."""
    shades = colours(result.item)
    panels = _panels(result)
    figure, grid = _frames(2 * len(panels), 3.0, 2, sharey=True)
    frames = product(panels, (("train", "training"), ("test", "test")))
    for axes, (panel, (side, words)) in zip(grid, frames, strict=True):
        axes.set_title(f"{panel}: {words}" if panel else words)
        for place, measured in result.measured.items():
            if place.panel == panel and measured.curve is not None:
                curve = measured.curve
                points = zip(curve["epoch"], curve[side], curve[f"{side}_sd"], strict=True)
                line = [(float(x), Number(100 * mean, 100 * sd)) for x, mean, sd in points]
                _draw_line(axes, line, shades[place.row], band=True)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.set_xlabel("epoch")
    for axes in grid[::2]:
        axes.set_ylabel("accuracy, %")
    _legend(figure, result, False, ": mean, band of one sd")
    return figure


def _draw_line(
    axes: Axes, points: Sequence[tuple[float, Number]], colour: str, *, band: bool
) -> None:
    xs = [x for x, _ in points]
    means = np.array([number.mean for _, number in points])
    axes.plot(xs, means, color=colour, marker="o" if len(xs) <= 2 * _MOST_TICKS else None)
    if band:
        spread = np.array([number.sd or 0.0 for _, number in points])
        axes.fill_between(xs, means - spread, means + spread, color=colour, alpha=0.2, linewidth=0)


def _frames(count: int, height: float, across: int, **share: Any) -> tuple[Figure, list[Axes]]:
    rows = ceil(count / across)
    width = WIDTH if across > 1 else 0.75 * WIDTH
    figure = Figure(figsize=(width, 0.5 + height * rows), layout="constrained")
    grid = list(figure.subplots(rows, across, squeeze=False, **share).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def _set_x_axis(axes: Axes, item: Item, ticks: dict[float, str]) -> None:
    if item.log_x:
        axes.set_xscale("log", base=2)
    if len(ticks) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(FixedFormatter(list(ticks.values())))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(item.x_label)


def _legend(figure: Figure, result: Result, has_paper: bool, ours: str) -> None:
    """Explain the colours, and ours and the paper's where both are drawn."""
    rows = {place.row for place in result.measured}
    handles = [
        Line2D([], [], color=colour, label=name)
        for name, colour in colours(result.item).items()
        if name in rows
    ]
    if has_paper:
        handles.append(Line2D([], [], color=INK, marker="o", label=f"ours{ours}"))
        dashed: Any = "--" if result.item.kind == "timing" else ""
        words = "the paper's numbers"
        handles.append(Line2D([], [], linestyle=dashed, label=words, **_hollow(INK)))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))


def _hollow(colour: str) -> dict[str, Any]:
    return {
        "color": colour,
        "marker": "o",
        "markerfacecolor": "white",
        "markersize": 6,
        "zorder": 4,
    }
