"""Accuracy and first gradients against the order and against depth, as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from crossgcn.data.atomic_file import replacing
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy

__all__ = ["draw_depth", "write_depth_figure"]

_SWEEPS: Final = {
    "order": ("two layers, against the order K", "order K of both layers", "order k"),
    "depth": ("order 2, against depth", "layers", "layer, of sixteen"),
}
_GRADIENTS: Final = {
    "order": "|∂loss / ∂α$_k$|, first layer",
    "depth": "‖∂loss / ∂W$^1$‖",
}
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00")
_MARKERS: Final = ("o", "s", "^", "D")
_SMALLEST: Final = 1e-12
"""Below this a gradient counts as gone and is drawn at the edge."""

Record = Mapping[str, Any]
Points = Sequence[Record]


class _Style(NamedTuple):
    """How a variant is drawn."""

    colour: str
    marker: str


def write_depth_figure(path: Path, record: Record) -> None:
    """Write the picture as PNG.

    Args:
        path: Where to.
        record: What ``scripts/measure_depth.py`` keeps.
    """
    with figure_style("depth"):
        figure = draw_depth(record)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(buffer.getvalue())


def draw_depth(record: Record) -> Figure:
    """Two rows for each dataset, accuracy above and gradients below; a column for each sweep.

    Args:
        record: What ``scripts/measure_depth.py`` keeps.
    """
    datasets = list(dict.fromkeys(each["dataset"] for each in record["gradients"]))
    deep = [each for each in record["gradients"] if each["sweep"] == "depth"]
    variants = list(dict.fromkeys(each["variant"] for each in deep))
    figure = Figure(figsize=(WIDTH, 0.7 + 4.4 * len(datasets)), layout="constrained")
    heights = [1.25, 1.0] * len(datasets)
    grid = figure.subplots(2 * len(datasets), 2, squeeze=False, height_ratios=heights)
    for row, dataset in enumerate(datasets):
        for column, sweep in enumerate(_SWEEPS):
            accuracy, gradient = grid[2 * row, column], grid[2 * row + 1, column]
            if row > 0:
                gradient.sharey(grid[1, column])
            for place, variant in enumerate(variants):
                key = {"dataset": dataset, "variant": variant, "sweep": sweep}
                style = _Style(_COLOURS[place], _MARKERS[place])
                _draw_accuracy(accuracy, _select(record["accuracy"], key), style)
                _draw_gradients(gradient, _select(record["gradients"], key), style)
            _finish_accuracy(accuracy, record["accuracy"], dataset, sweep)
            _finish_gradients(gradient, sweep)
            if column == 0:
                accuracy.set_ylabel("test accuracy, %")
    handles = [
        Line2D([], [], color=colour, marker=marker, label=variant)
        for variant, colour, marker in zip(variants, _COLOURS, _MARKERS, strict=False)
    ]
    handles.append(
        Line2D([], [], color=INK, marker="x", linestyle="none", label="some split diverged")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _select(points: Points, key: Record) -> list[Record]:
    return [each for each in points if all(each[name] == value for name, value in key.items())]


def _draw_accuracy(axes: Axes, points: Points, style: _Style) -> None:
    if not points:
        return
    trained = sorted((p for p in points if p["test_accuracy"]), key=lambda p: int(p["value"]))
    values = [point["value"] for point in trained]
    axes.plot(
        values,
        [100 * fmean(p["test_accuracy"]) for p in trained],
        color=style.colour,
        marker=style.marker,
    )
    axes.fill_between(
        values,
        [100 * min(p["test_accuracy"]) for p in trained],
        [100 * max(p["test_accuracy"]) for p in trained],
        color=style.colour,
        alpha=0.12,
        linewidth=0,
    )
    for point in points:
        if point["diverged"]:
            shown = point["test_accuracy"]
            axes.plot(
                [point["value"]],
                [100 * fmean(shown) if shown else 0.0],
                color=style.colour,
                marker="x",
                markersize=9,
                markeredgewidth=1.8,
                clip_on=False,
                zorder=5,
            )


def _draw_gradients(axes: Axes, points: Points, style: _Style) -> None:
    for point in points:
        first = 2 if point["sweep"] == "order" else 1
        places = range(first, first + len(point["norms"]))
        axes.plot(
            places,
            [max(norm, _SMALLEST) for norm in point["norms"]],
            color=style.colour,
            marker=style.marker,
        )


def _finish_accuracy(axes: Axes, points: Points, dataset: str, sweep: str) -> None:
    title, label, _ = _SWEEPS[sweep]
    values = sorted({each["value"] for each in points if each["sweep"] == sweep})
    if sweep == "depth":
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, 90)
    axes.set_xlabel(label)
    axes.set_title(f"{dataset}: {title}", loc="left")
    tidy(axes)


def _finish_gradients(axes: Axes, sweep: str) -> None:
    axes.set_yscale("log")
    axes.set_xlabel(_SWEEPS[sweep][2])
    axes.set_ylabel(_GRADIENTS[sweep])
    axes.xaxis.set_major_locator(FixedLocator(range(1, 17) if sweep == "depth" else range(1, 9)))
    axes.yaxis.set_minor_locator(NullLocator())
    tidy(axes)
