"""A figure of a search: the best score after each trial, and the effect of each setting."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from crossgcn.data.files import replacing
from crossgcn.experiments.tune.space import extremes
from crossgcn.experiments.tune.trials import Trial
from crossgcn.experiments.tune.tuning import TunedModel, TuningResult
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy
from crossgcn.reports.format import get_metric, grows

_COLOURS: Final = ("#D55E00", "#0072B2")
_MOST_COLUMNS: Final = 5

_MARKS: Final = {"*": "chosen", "v": "below", "x": "failed"}
"""Markers of trials that the legend names."""

_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "*": {"markersize": 12, "markeredgecolor": "white", "zorder": 6},
    "v": {"alpha": 0.5, "markeredgewidth": 0},
    "x": {"markeredgewidth": 1.5, "zorder": 5},
    "o": {"alpha": 0.5, "markeredgewidth": 0},
}


def write_tuning_figure(path: Path, result: TuningResult) -> None:
    """Write the figure as PNG."""
    with figure_style("tuning"):
        buffer = io.BytesIO()
        draw_tuning(result).savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    with replacing(path) as file:
        file.write(buffer.getvalue())


def draw_tuning(result: TuningResult) -> Figure:
    """Draw the trials in order and, below, a panel for each searched setting."""
    models = [result.ours, *([result.twin] if result.twin else [])]
    search = result.ours.search
    space = {name: entry for name, entry in search.space.items() if not entry.single()}
    rows = ceil(len(space) / _MOST_COLUMNS)
    columns = ceil(len(space) / rows)
    figure = Figure(figsize=(WIDTH, 3.4 + 2.1 * rows), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[1.5, *[1.0] * rows])
    metric = result.metric
    floor = _floor(models, in_unit=get_metric(metric).in_unit)
    history = figure.add_subplot(grid[0, :])
    for tuned, colour in zip(models, _COLOURS, strict=False):
        _draw_trials(history, tuned, [trial.number for trial in tuned.trials], colour, floor)
        _draw_best(history, tuned, colour)
    history.set_ylabel(f"validation {get_metric(metric).title}")
    if not grows(metric):
        history.invert_yaxis()
    history.set_xlabel("trial")
    history.xaxis.set_major_locator(MaxNLocator(integer=True))
    history.set_title(f"{search.base.dataset}: mean over splits, and best so far")
    tidy(history)
    for place, (name, distribution) in enumerate(space.items()):
        axes = figure.add_subplot(grid[1 + place // columns, place % columns], sharey=history)
        for tuned, colour in reversed([*zip(models, _COLOURS, strict=False)]):
            if name in tuned.search.space:
                places = [_position(distribution, trial.values[name]) for trial in tuned.trials]
                _draw_trials(axes, tuned, places, colour, floor, failed=False)
        _set_x_axis(axes, distribution)
        axes.set_title(name)
        tidy(axes)
        if place % columns:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("validation")
    _add_legend(figure, models, floor)
    return figure


def _mark(tuned: TunedModel, trial: Trial, floor: float) -> str:
    """Return the marker of a trial: chosen, failed, below the floor, or none of these."""
    if trial is tuned.chosen:
        return "*"
    if trial.score is None:
        return "x"
    return "v" if trial.score < floor else "o"


def _draw_trials(
    axes: Axes,
    tuned: TunedModel,
    xs: Sequence[float],
    colour: str,
    floor: float,
    *,
    failed: bool = True,
) -> None:
    """Draw a marker per trial, at the floor if its score is lower or missing."""
    for x, trial in zip(xs, tuned.trials, strict=True):
        if failed or trial.score is not None:
            mark = _mark(tuned, trial, floor)
            score = floor if trial.score is None else max(trial.score, floor)
            look = {"color": colour, "linestyle": "none", "clip_on": False, **_LOOKS[mark]}
            axes.plot(x, _shown(tuned, score), marker=mark, **look)


def _draw_best(axes: Axes, tuned: TunedModel, colour: str) -> None:
    """Draw the best score so far as steps."""
    done = [(trial.number, trial.score) for trial in tuned.trials if trial.score is not None]
    numbers, scores = ([*each] for each in zip(*done, strict=True))
    best = [_shown(tuned, score) for score in accumulate(scores, max)]
    ends = [*numbers, tuned.trials[-1].number]
    axes.plot(ends, [*best, best[-1]], drawstyle="steps-post", color=colour)


def _shown(tuned: TunedModel, score: float) -> float:
    """Return the value of the metric that a score stands for, shares in percent."""
    metric = tuned.runs.metric
    return (100 if get_metric(metric).percent else 1) * (score if grows(metric) else -score)


def _position(distribution: BaseDistribution, value: Any) -> float:
    """Return a number itself, or the index of a choice."""
    is_range = isinstance(distribution, FloatDistribution | IntDistribution)
    return float(value if is_range else extremes(distribution).index(value))


def _set_x_axis(axes: Axes, distribution: BaseDistribution) -> None:
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        labels = [
            ",".join(map(str, value))
            if isinstance(value, tuple)
            else _short(value)
            if isinstance(value, float)
            else str(value)
            for value in extremes(distribution)
        ]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.5, len(labels) - 0.5)
        return
    low, high = distribution.low, distribution.high
    if distribution.log:
        axes.set_xscale("log")
        span = high / low
        subs = (1.0,) if span > 30 else (1.0, 3.0) if span > 8 else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(low / span**0.05, high * span**0.05)
    else:
        room = 0.05 * (high - low)
        axes.set_xlim(low - room, high + room)
        whole = isinstance(distribution, IntDistribution)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=whole, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(number: float) -> str:
    digits = f"{number:.0e}" if 0 < number < 1e-3 else f"{number:g}"
    return digits.replace("e-0", "e-")


def _floor(models: Sequence[TunedModel], *, in_unit: bool) -> float:
    """Return the lowest score drawn, so that bad trials do not flatten the rest."""
    trials = [trial for tuned in models for trial in tuned.trials]
    scores = [trial.score for trial in trials if trial.score is not None]
    best = max(scores)
    least = 0.02 * (abs(best) if in_unit else 1)
    return max(min(scores), best - max(4 * (best - median(scores)), least))


def _add_legend(figure: Figure, models: Sequence[TunedModel], floor: float) -> None:
    handles = [
        Line2D([], [], color=colour, marker="o", label=tuned.search.name)
        for tuned, colour in zip(models, _COLOURS, strict=False)
    ]
    used = {_mark(tuned, trial, floor) for tuned in models for trial in tuned.trials}
    handles += [
        Line2D([], [], color=INK, marker=mark, linestyle="none", label=label, **_LOOKS[mark])
        for mark, label in _MARKS.items()
        if mark in used
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
