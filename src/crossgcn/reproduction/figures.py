"""Items drawn as in the paper: ours as lines with bands, the paper's numbers as hollow marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy, to_svg
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.verdicts import measured

# The colour-blind safe palette of Okabe and Ito, extended, one colour per model.
_MODELS: Final = {
    "gcn": "#0072B2",
    "gin": "#E69F00",
    "cross-gcn": "#D55E00",
    "cross-gcn-release": "#009E73",
    "cross-gcn-release-fix": "#CC79A7",
    "cross-gcn-paper": "#56B4E9",
    "cross-gcn-paper-fix": "#000000",
    "semi-emb": "#8a6d3b",
    "deep-walk": "#7f7f7f",
    "mlp": "#a6a61a",
}
_PAPER: Final = "#8b93a1"
_HALF_GAP: Final = 0.17
"""Half the distance between our mark and the paper's in a table, in rows."""


def draw_item(item: Item, result: ItemResult) -> str | None:
    """Draw an item as an ``<svg>`` element; ``None`` if there is nothing to draw."""
    draw = _DRAWINGS.get(item.kind)
    if draw is None:
        return None
    with figure_style(item.name):
        figure = draw(item, result)
        return None if figure is None else to_svg(figure, item.name, f"{item.source}: {item.title}")


def model_colours(item: Item) -> dict[str, str]:
    """Return the colour of each row's model, even if several rows share it."""
    models = ({**item.settings, **row.settings}.get("model") for row in item.rows)
    return {
        row.label: _MODELS.get(str(model), INK)
        for row, model in zip(item.rows, models, strict=True)
    }


def colours(item: Item) -> dict[str, str]:
    """Return a colour for each row: that of its model, or a free one if it is taken."""
    taken: dict[str, str] = {}
    for label, own in model_colours(item).items():
        free = [colour for colour in _MODELS.values() if colour not in taken.values()]
        taken[label] = own if own in free else next(iter(free), INK)
    return taken


def _draw_table(item: Item, result: ItemResult) -> Figure | None:
    """Draw a panel for each column of the table, with a line for each row."""
    run = {(cell.panel, cell.column) for cell in result.cells if measured(cell) is not None}
    panels = [line.label for line in item.panels if any(p == line.label for p, _ in run)]
    columns = [line.label for line in item.columns if any(c == line.label for _, c in run)]
    if not run:
        return None
    shape = (len(panels), len(columns)) if len(columns) > 1 else (1, len(panels))
    height = (0.34 * len(item.rows) + 0.55) * shape[0] + 0.5
    width = WIDTH if shape[1] > 1 else 0.75 * WIDTH
    figure = Figure(figsize=(width, height), layout="constrained")
    same_data = "dataset" in item.settings
    grid = figure.subplots(*shape, squeeze=False, sharex=same_data, sharey=True)
    for axes, (panel, column) in zip(grid.flat, product(panels, columns), strict=True):
        axes.set_title(" · ".join(part for part in (panel, column) if part))
        _draw_dots(axes, item, result, panel, column)
        tidy(axes)
    for axes in grid[-1]:
        axes.set_xlabel("test accuracy, %")
    names = [row.label for row in item.rows]
    grid[0, 0].set_yticks(range(len(names)), names)
    grid[0, 0].set_ylim(len(names) - 0.4, -0.6)
    figure.legend(
        handles=[
            Line2D([], [], color=INK, marker="o", label="ours, mean ± sd"),
            Line2D([], [], color=_PAPER, marker="s", mfc="white", label="paper, mean ± sd"),
        ],
        loc="outside lower center",
        ncols=2,
    )
    return figure


def _draw_dots(axes: Axes, item: Item, result: ItemResult, panel: str, column: str) -> None:
    shades = model_colours(item)
    for cell in item.cells():
        if (cell.panel, cell.column) != (panel, column):
            continue
        height = next(i for i, row in enumerate(item.rows) if row.label == cell.row)
        ours = measured(result.find(panel, cell.row, column))
        if ours is not None:
            colour = shades[cell.row]
            axes.errorbar(ours.mean, height - _HALF_GAP, xerr=ours.sd, color=colour, fmt="o")
        if cell.paper is not None:
            mean, sd = cell.paper.mean, cell.paper.sd
            axes.errorbar(
                mean, height + _HALF_GAP, xerr=sd, color=_PAPER, fmt="s", mfc="white", markersize=4
            )


def _draw_lines(item: Item, result: ItemResult) -> Figure | None:
    """Draw accuracy over a setting, or seconds over hidden size, a panel for each dataset."""
    cells = [cell for cell in result.cells if cell.x is not None and measured(cell) is not None]
    if not cells:
        return None
    timing = item.kind == "timing"
    panels = _panels_of(item, cells)
    share = not timing and "dataset" in item.settings
    figure, grid = _grid(len(panels), height=3.6 if timing else 2.9, share=share)
    for axes, panel in zip(grid, panels, strict=True):
        if timing:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        for row, colour in colours(item).items():
            line = [cell for cell in cells if (cell.panel, cell.row) == (panel, row)]
            (_draw_times if timing else _draw_line)(axes, line, colour)
        axes.set_title(panel)
        _set_x_axis(axes, item, [cell for cell in cells if cell.panel == panel])
    grid[0].set_ylabel("seconds an epoch" if timing else "test accuracy, %")
    _add_legend(figure, item, cells, "ours" if timing else "ours: mean, band of one sd")
    return figure


def _draw_line(axes: Axes, line: Sequence[CellResult], colour: str) -> None:
    line = sorted(line, key=lambda cell: cell.x or 0.0)
    for cell in line:
        if cell.paper is not None and cell.x is not None:
            axes.errorbar(cell.x, cell.paper.mean, cell.paper.sd, **_hollow(colour))
    ours = [value for cell in line if (value := measured(cell)) is not None]
    means, sds = [value.mean for value in ours], [value.sd or 0.0 for value in ours]
    _draw_band(axes, [cell.x for cell in line], means, sds, color=colour, marker="o")


def _draw_band(axes: Axes, xs: Any, means: Any, sds: Any, **style: Any) -> None:
    """Draw means as a line, and a band of one standard deviation."""
    axes.plot(xs, means, **style)
    low, high = np.subtract(means, sds), np.add(means, sds)
    axes.fill_between(xs, low, high, color=style["color"], alpha=0.2, linewidth=0)


def _draw_times(axes: Axes, line: Sequence[CellResult], colour: str) -> None:
    ours = [(cell.x, value.mean) for cell in line if (value := measured(cell)) is not None]
    paper = [(cell.x, cell.paper.mean) for cell in line if cell.paper is not None]
    if ours:
        axes.plot(*zip(*ours, strict=True), color=colour, marker="o")
    if paper:
        axes.plot(*zip(*paper, strict=True), linestyle="--", linewidth=1, **_hollow(colour))


def _draw_curves(item: Item, result: ItemResult) -> Figure | None:
    """Draw training accuracy on the left and test accuracy on the right, over epochs."""
    cells = [cell for cell in result.cells if cell.curve is not None]
    if not cells:
        return None
    panels = _panels_of(item, cells)
    figure = Figure(figsize=(WIDTH, 0.4 + 2.9 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 2, squeeze=False, sharex=True, sharey="row")
    shades = colours(item)
    for pair, panel in zip(grid, panels, strict=True):
        for axes, side in zip(pair, ("training", "test"), strict=True):
            axes.set_title(f"{panel}: {side}" if panel else f"{side} accuracy")
            tidy(axes)
        pair[0].set_ylabel("accuracy, %")
        for cell in cells:
            if cell.panel == panel and cell.curve is not None:
                for axes, side in zip(pair, ("train", "test"), strict=True):
                    mean, sd = getattr(cell.curve, side), getattr(cell.curve, f"{side}_sd")
                    band = (np.multiply(100, each) for each in (mean, sd))
                    _draw_band(axes, cell.curve.epoch, *band, color=shades[cell.row])
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    _add_legend(figure, item, cells, "ours: mean, band of one sd")
    return figure


def _panels_of(item: Item, cells: Sequence[CellResult]) -> list[str]:
    run = {cell.panel for cell in cells}
    return [panel.label for panel in item.panels if panel.label in run]


def _grid(count: int, height: float, share: bool) -> tuple[Figure, list[Axes]]:
    """Make up to three panels side by side."""
    columns = min(count, 3)
    rows = ceil(count / columns)
    width = WIDTH if columns > 1 else 0.7 * WIDTH
    figure = Figure(figsize=(width, 0.5 + height * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        tidy(axes)
    return figure, grid[:count]


def _set_x_axis(axes: Axes, item: Item, cells: Sequence[CellResult]) -> None:
    """Put ticks at the columns; a logarithmic axis keeps a place for zero."""
    labels = {cell.x: cell.column for cell in cells if cell.x is not None}
    xs = sorted(labels)
    positive = [x for x in xs if x > 0]
    if item.log_x and positive and xs[0] <= 0:
        axes.set_xscale("symlog", base=2, linthresh=positive[0], linscale=0.7)
    elif item.log_x or item.kind == "timing":
        axes.set_xscale("log", base=2)
    if len(xs) <= 12:
        axes.xaxis.set_major_locator(FixedLocator(xs))
        axes.xaxis.set_major_formatter(FixedFormatter([labels[x] for x in xs]))
    elif not item.log_x:
        axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(item.x_label)


def _add_legend(figure: Figure, item: Item, cells: Sequence[CellResult], ours: str) -> None:
    """Explain the colours of the rows, then solid and hollow marks."""
    drawn = {cell.row for cell in cells}
    handles = [
        Line2D([], [], color=colour, label=row)
        for row, colour in colours(item).items()
        if row in drawn
    ]
    if any(cell.paper is not None for cell in cells) and item.kind != "curves":
        handles.append(Line2D([], [], color=INK, marker="o", label=ours))
        style: Any = "--" if item.kind == "timing" else ""
        label = "the paper's numbers"
        handles.append(Line2D([], [], linestyle=style, **_hollow(INK), label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))


def _hollow(colour: str) -> dict[str, Any]:
    return {
        "color": colour,
        "marker": "o",
        "markerfacecolor": "white",
        "markersize": 6,
        "zorder": 4,
    }


_DRAWINGS: dict[str, Callable[[Item, ItemResult], Figure | None]] = {
    "figure": _draw_lines,
    "curves": _draw_curves,
    "timing": _draw_lines,
    "table": _draw_table,
}
