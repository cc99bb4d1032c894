"""The README's example: train and explain a model of the bundled counties, as its lines do.

``python -m benchmarks.counties`` runs the commands a user would type and writes what they print,
and the cells of the cross in the README's picture, to ``results/counties.json``. It takes about a
minute on two cores.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, isnan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from crossgcn import TableModel
from crossgcn.data import read_real

OUT = Path(__file__).parents[1] / "results" / "counties.json"

TRAIN = "train us-county --target democratic_share --out share"
EXPLAIN = "explain share --top 3"
NODE = "explain share --node 'San Francisco County' --top 3"
CROSS = {
    "median_income": (35_000, 40_000, 45_000, 50_000, 60_000),
    "unemployment_rate": (3, 4, 5, 6, 7),
}
"""The cross of the picture, of two own columns, each with the limits of its ranges."""

METRICS = {"r2": ("R²", 3), "rmse": ("RMSE", 4), "mae": ("MAE", 4)}
"""Name and digits of the metrics that are shown."""

FEWEST = 5
"""Counties in a cell that is drawn."""

Record = Mapping[str, Any]


def measure() -> dict[str, Any]:
    """Return the answers of the commands, without what is long or depends on the machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed = {command: _run(folder, command) for command in (TRAIN, EXPLAIN, NODE)}
        trained = json.loads((folder / "share" / "result.json").read_bytes())
        cross = measure_cross(TableModel.load(folder / "share"))
    kept = ("dataset", "target", "model", "order", "splits", "metric", "test", "mean", "sd")
    return {
        "train": {name: trained[name] for name in (*kept, "seconds", "versions", "commit")},
        "printed": printed,
        "cross": cross,
    }


def measure_cross(model: TableModel) -> dict[str, Any]:
    """Return the mean contribution of the cross in each cell, and how many counties are in it."""
    terms = model.explain()
    term = terms.term(*CROSS)
    crosses = [each for each in terms.strongest() if len(each.columns) == 2]
    counties = read_real("us-county").nodes.iloc[terms.nodes].reset_index(drop=True)
    ranges = [pd.cut(counties[name], [-inf, *at, inf], right=False) for name, at in CROSS.items()]
    cells = pd.Series(term.contributions[:, 0]).groupby(ranges, observed=False)
    means = cells.mean().unstack().to_numpy()
    return {
        "columns": list(CROSS),
        "limits": list(CROSS.values()),
        "means": [[None if isnan(mean) else round(mean, 6) for mean in row] for row in means],
        "counts": cells.size().unstack().to_numpy().tolist(),
        "importance": float(term.importance[0]),
        "rank": 1 + crosses.index(term),
        "num_crosses": len(crosses),
    }


def counties_markdown(record: Record) -> str:
    """Render the scores, and what ``explain`` prints of all counties."""
    train, terms, _ = record["printed"]
    scores = (
        f"{label} {mean(values):.{digits}f} ± {stdev(values):.{digits}f}"
        for label, digits, values in (
            (*METRICS[name], values) for name, values in record["train"]["test"].items()
        )
    )
    tables = _until(record["printed"][terms], "importance of all terms")
    rows = [line for line in tables if line.startswith(" ") and "─" not in line]
    return _printed({train: [", ".join(scores) + " on test nodes"], terms: rows})


def node_markdown(record: Record) -> str:
    """Render what ``explain`` prints of one county."""
    *_, node = record["printed"]
    return _printed({node: _until(record["printed"][node], "1 more neighbour")})


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
        f"fewer than {FEWEST} counties are empty."
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
    axes.tick_params(length=0)
    axes.set_title(
        f"{across} × {up}: points of the democratic share", loc="left", fontweight="bold"
    )
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def write_cross(path: Path, record: Record) -> None:
    """Draw the cross as a PNG file."""
    with rc_context({"font.size": 8, "axes.titlesize": 9}):
        draw_cross(record).savefig(path, dpi=110, metadata={"Software": None})


def _run(folder: Path, command: str) -> str:
    """Run a command of ``crossgcn`` and return what it prints."""
    words = [sys.executable, "-m", "crossgcn", *shlex.split(command)]
    wide = os.environ | {"COLUMNS": "110"}
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, env=wide
    )
    return done.stdout


def _printed(shown: Mapping[str, Sequence[str]]) -> str:
    lines = [line for command in shown for line in ("", f"$ crossgcn {command}", *shown[command])]
    return "\n".join(["```text", *lines[1:], "```"])


def _until(printed: str, end: str) -> list[str]:
    """Return the lines before the one that begins so, without empty ones at the edges."""
    lines = [line.rstrip() for line in printed.splitlines()]
    last = next((i for i, line in enumerate(lines) if line.startswith(end)), len(lines))
    return "\n".join(lines[:last]).strip("\n").splitlines()


def _drawn_cells(cross: Record) -> list[tuple[int, int]]:
    counts = np.asarray(cross["counts"])
    return [(int(row), int(column)) for row, column in np.argwhere(counts >= FEWEST)]


def _ranges(column: str, limits: Sequence[int]) -> list[str]:
    def text(limit: int) -> str:
        return f"${limit // 1000}k" if column == "median_income" else f"{limit} %"

    between = [
        f"{text(low).removesuffix(' %').removesuffix('k')}–{text(high).removeprefix('$')}"
        for low, high in pairwise(limits)
    ]
    return [f"under {text(limits[0])}", *between, f"{text(limits[-1])} or more"]


if __name__ == "__main__":
    OUT.write_text(json.dumps(measure(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
