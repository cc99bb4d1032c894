"""The README's example, the counties of the United States: its picture, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from crossgcn.data.files import replacing
from crossgcn.reports.figure_style import figure_style
from crossgcn.reports.format import get_metric

Record = Mapping[str, Any]

_FEWEST = 5
"""Counties in a cell that is drawn."""


def counties_markdown(record: Record) -> str:
    """Render the scores, and what ``explain`` prints of all counties.

    Args:
        record: What ``research/scripts/measure_counties.py`` wrote.
    """
    trained = record["train"]
    measured = [
        f"{get_metric(name).label} {get_metric(name).spread(*_mean_and_sd(values))}"
        for name, values in trained["test"].items()
    ]
    train, terms, _ = record["printed"]
    return _printed(
        {
            train: [", ".join(measured) + " on test nodes"],
            terms: _tables(_until(record["printed"][terms], "importance of all terms")),
        }
    )


def node_markdown(record: Record) -> str:
    """Render what ``explain`` prints of one county."""
    *_, node = record["printed"]
    return _printed({node: _until(record["printed"][node], "1 more neighbour")})


def _printed(shown: Mapping[str, Sequence[str]]) -> str:
    lines = [line for command in shown for line in ("", f"$ crossgcn {command}", *shown[command])]
    return "\n".join(["```text", *lines[1:], "```"])


def cross_markdown(record: Record) -> str:
    """Say what the picture shows."""
    cross = record["cross"]
    where = min(_drawn_cells(cross), key=lambda cell: cross["means"][cell[0]][cell[1]])
    first, second = (
        _ranges(name, at)[position]
        for name, at, position in zip(cross["columns"], cross["limits"], where, strict=True)
    )
    effect = 100 * abs(cross["means"][where[0]][where[1]])
    return (
        f"In counties with a median income of {first} and an unemployment of {second}, the model "
        f"expects {effect:.1f} points less for the democrats than from each of the two "
        f"alone.\nThis is number {cross['rank']} of its {cross['num_crosses']} crosses; cells of "
        f"fewer than {_FEWEST} counties are empty."
    )


def draw_cross(record: Record) -> Figure:
    """Draw the mean contribution of the cross in each cell."""
    cross = record["cross"]
    across, up = cross["columns"]
    points = np.full((len(cross["means"]), len(cross["means"][0])), np.nan)
    for row, column in _drawn_cells(cross):
        points[row, column] = 100 * cross["means"][row][column]
    figure = Figure(figsize=(7.2, 2.5), layout="constrained")
    axes = figure.subplots()
    reach = float(np.nanmax(np.abs(points)))
    axes.imshow(points.T, cmap="RdBu", vmin=-reach, vmax=reach, origin="lower", aspect="auto")
    for (x, y), value in np.ndenumerate(points):
        if not np.isnan(value):
            ink = "white" if abs(value) > 0.6 * reach else "#222222"
            text = f"{value:+.1f}" if abs(value) >= 0.05 else "0"
            axes.text(x, y, text, ha="center", va="center", color=ink)
    for axis, name, limits in zip(
        (axes.xaxis, axes.yaxis), (across, up), cross["limits"], strict=True
    ):
        names = _ranges(name, limits)
        axis.set_ticks(range(len(names)), names)
        axis.set_label_text(name)
    axes.grid(False)
    axes.tick_params(length=0)
    axes.set_title(f"{across} × {up}: points of the democratic share", loc="left")
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def write_cross(path: Path, record: Record) -> None:
    """Draw the cross as a PNG file."""
    with figure_style("county-cross"), replacing(path) as file:
        draw_cross(record).savefig(file, format="png", dpi=110, metadata={"Software": None})


def _drawn_cells(cross: Record) -> list[tuple[int, int]]:
    counts = np.asarray(cross["counts"])
    return [(int(row), int(column)) for row, column in np.argwhere(counts >= _FEWEST)]


def _ranges(column: str, limits: Sequence[int]) -> list[str]:
    def text(limit: int) -> str:
        return f"${limit // 1000}k" if column == "median_income" else f"{limit} %"

    between = [
        f"{text(low).removesuffix(' %').removesuffix('k')}–{text(high).removeprefix('$')}"
        for low, high in pairwise(limits)
    ]
    return [f"under {text(limits[0])}", *between, f"{text(limits[-1])} or more"]


def _until(printed: str, end: str) -> list[str]:
    """Return the lines before the one that begins so, without empty ones at the edges."""
    lines = [line.rstrip() for line in printed.splitlines()]
    last = next((i for i, line in enumerate(lines) if line.startswith(end)), len(lines))
    return "\n".join(lines[:last]).strip("\n").splitlines()


def _tables(lines: list[str]) -> list[str]:
    """Return the rows of all tables, without their titles and the lines between them."""
    return [line for line in lines if line.startswith(" ") and "─" not in line]


def _mean_and_sd(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
