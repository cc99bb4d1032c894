"""Figure of the cost model's fit, and of its predictions for many GPUs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from crossgcn.data.files import replacing
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy
from research.scale.cluster import FAST
from research.scale.cost_model import Fitted
from research.scale.page import BILLION, GPUS, ranges

_COLOURS: Final = {
    "gpu-step": "#0072B2",
    "gpu-growth": "#E69F00",
    "gpu-big-graph": "#D55E00",
    "gpu-wide-features": "#009E73",
}
_TICKS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def write_scale_figure(path: Path, fitted: Fitted) -> None:
    """Write the figure as PNG."""
    with figure_style("scale"):
        buffer = io.BytesIO()
        draw_scale(fitted).savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(buffer.getvalue())


def draw_scale(fitted: Fitted) -> Figure:
    """Draw predicted against measured time, and the time for a billion edges against GPUs."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_fit(left, fitted)
    _draw_billion(right, fitted)
    return figure


def _draw_fit(axes: Axes, fitted: Fitted) -> None:
    for name in dict.fromkeys(each.point.record for each in fitted.times):
        judged = [each for each in fitted.times if each.point.record == name]
        axes.loglog(
            [1e3 * each.measured for each in judged],
            [1e3 * each.predicted for each in judged],
            linestyle="none",
            marker="o",
            color=_COLOURS.get(name, INK),
            label=name,
        )
    ends = [1e3 * each.measured for each in fitted.times]
    line = [min(ends) / 1.3, max(ends) * 1.3]
    axes.loglog(line, line, color=INK, linewidth=0.8, zorder=1)
    ticks = [tick for tick in _TICKS if line[0] <= tick <= line[1]]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title("a full-batch step, H200", loc="left")
    axes.set_xlabel("measured, ms")
    axes.set_ylabel("predicted, ms")
    axes.legend(loc="upper left")
    tidy(axes)


def _draw_billion(axes: Axes, fitted: Fitted) -> None:
    if BILLION.precision not in fitted.rates.operations:
        return
    full: dict[int, tuple[float, float]] = {}
    sampled: dict[int, tuple[float, float]] = {}
    for gpus in GPUS:
        costs, epochs = ranges(BILLION, gpus, fitted)
        sampled[gpus] = (epochs[0].epoch, epochs[1].epoch)
        if costs[0].gpu_bytes <= FAST.gpu_bytes:
            full[gpus] = (costs[0].seconds, costs[1].seconds)
    for label, colour, bounds in (
        ("full batch, a step", "#0072B2", full),
        ("sampled, an epoch", "#D55E00", sampled),
    ):
        low, high = zip(*bounds.values(), strict=True)
        axes.fill_between(list(bounds), low, high, color=colour, alpha=0.25, linewidth=0)
        middle = [(a * b) ** 0.5 for a, b in bounds.values()]
        axes.plot(list(bounds), middle, color=colour, marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(GPUS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title(f"a billion edges, {BILLION.precision}: from fast to slow links", loc="left")
    axes.set_xlabel("GPUs")
    axes.set_ylabel("seconds")
    axes.legend(loc="upper right")
    tidy(axes)
