"""A table as dots: ours and the paper's, with one standard deviation each way."""

from __future__ import annotations

from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crossgcn.evaluation.item_results import ItemResult
from crossgcn.evaluation.items import Item
from crossgcn.evaluation.verdicts import measured
from crossgcn.reports.figure_style import INK, WIDTH, model_colours, tidy

__all__ = ["draw_table"]

_APART = 0.17
"""Half the distance of ours and the paper's mark, in rows."""

_PAPER = "#8b93a1"


def draw_table(item: Item, result: ItemResult) -> Figure | None:
    """One panel for each column of the table, a line for each row."""
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
        found = result.find(panel, cell.row, column)
        ours = None if found is None else measured(found)
        if ours is not None:
            axes.errorbar(ours.mean, height - _APART, xerr=ours.sd, color=shades[cell.row], fmt="o")
        if cell.paper is not None:
            mean, sd = cell.paper.mean, cell.paper.sd
            axes.errorbar(
                mean, height + _APART, xerr=sd, color=_PAPER, fmt="s", mfc="white", markersize=4
            )
