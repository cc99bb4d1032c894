"""Dot plots of paired differences: gains are right of the zero line, losses left of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from crossgcn.data.files import replacing
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy
from research.findings.records import THRESHOLD, Comparison, FindingsRecord, Outcome, compare_rows
from research.findings.tables import FindingsTable

_COLOURS: Final[Mapping[Outcome, str]] = {
    "better": "#0072B2",
    "worse": "#D55E00",
    "no difference": "#8b93a1",
}
_DOTS_PER_INCH = 110
_EVEN_UP_TO = 3.0
_TICKS = {-30: "−30", -3: "−3", 0: "0", 3: "+3", 30: "+30"}


def draw_differences(table: FindingsTable, record: FindingsRecord) -> Figure | None:
    """Draw one panel per column with one line per comparison; return ``None`` without comparisons.

    Bars extend two standard errors to each side. The tables report a difference when its bar
    excludes zero. The scale is linear up to three points and logarithmic beyond, so that gains
    of half a point and of fifty points are both readable.
    """
    comparisons = compare_rows(table, record)
    if not comparisons:
        return None
    lines = list(dict.fromkeys(map(_label, comparisons)))
    met = {comparison.column for comparison in comparisons}
    columns = [column.label for column in table.columns if column.label in met]
    figure = Figure(figsize=(WIDTH, 0.24 * len(lines) + 1.3), layout="constrained")
    grid = figure.subplots(1, len(columns), squeeze=False, sharex=True, sharey=True)
    for axes, column in zip(grid.flat, columns, strict=True):
        axes.axvline(0, color=INK, linewidth=0.8)
        for comparison in comparisons:
            if comparison.column == column:
                error = comparison.difference.standard_error or 0.0
                axes.errorbar(
                    comparison.difference.mean,
                    lines.index(_label(comparison)),
                    xerr=THRESHOLD * error,
                    color=_COLOURS[comparison.outcome],
                    fmt="o",
                    elinewidth=1.4,
                )
        axes.set_title(column.replace(", ", ",\n"), fontsize=9)
        tidy(axes)
    axes = grid[0, 0]
    reach = max(_reach(comparison) for comparison in comparisons)
    if reach > _EVEN_UP_TO:
        axes.set_xscale("symlog", linthresh=_EVEN_UP_TO)
        axes.set_xticks(list(_TICKS), list(_TICKS.values()))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(-1.1 * reach, 1.1 * reach)
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    figure.supxlabel(
        "paired difference in test accuracy, points (bars: ± 2 standard errors)", fontsize=9
    )
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker="o", label=outcome)
            for outcome, colour in _COLOURS.items()
        ],
        loc="outside upper right",
        ncols=3,
    )
    return figure


def write_differences(path: Path, table: FindingsTable, record: FindingsRecord) -> None:
    """Write the figure of a table as PNG, reproducibly; do nothing without comparisons."""
    with figure_style(table.name):
        figure = draw_differences(table, record)
        if figure is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            figure.savefig(file, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})


def _reach(comparison: Comparison) -> float:
    """Return the largest absolute value that a comparison's bar covers."""
    difference = comparison.difference
    return abs(difference.mean) + THRESHOLD * (difference.standard_error or 0.0)


def _label(comparison: Comparison) -> str:
    other = "" if comparison.is_twin else f" − {comparison.against}"
    return f"{comparison.row}{other}"
