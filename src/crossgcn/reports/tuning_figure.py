"""A search as a picture: how far it got by each trial, and what each setting did."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from crossgcn.data.files import replacing
from crossgcn.experiments.tune.space import Choices, Entry, TunedModel, TuningResult
from crossgcn.experiments.tune.trials import Trial
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy

_OURS: Final = "#D55E00"
_TWIN: Final = "#0072B2"
_MOST_COLUMNS: Final = 5


def write_tuning_figure(path: Path, result: TuningResult) -> None:
    """Write the picture as PNG."""
    with figure_style("tuning"):
        figure = draw_tuning(result)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    with replacing(path) as file:
        file.write(buffer.getvalue())


def draw_tuning(result: TuningResult) -> Figure:
    """The trials in their order above; below, a panel for each setting that was searched."""
    sides = [(result.ours, _OURS), *([(result.twin, _TWIN)] if result.twin else [])]
    space = {
        name: entry for name, entry in result.ours.contestant.space.items() if len(entry.ends) > 1
    }
    rows = ceil(len(space) / _MOST_COLUMNS)
    columns = ceil(len(space) / rows)
    figure = Figure(figsize=(WIDTH, 3.4 + 2.1 * rows), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[1.5, *[1.0] * rows])
    floor = _floor(sides)
    history = figure.add_subplot(grid[0, :])
    for tuned, colour in sides:
        _draw_history(history, tuned, colour, floor)
    history.set_ylabel("validation accuracy, %")
    history.set_xlabel("trial")
    history.xaxis.set_major_locator(MaxNLocator(integer=True))
    history.set_title(f"{result.ours.contestant.base.dataset}: mean over splits, and best so far")
    tidy(history)
    for place, (name, entry) in enumerate(space.items()):
        axes = figure.add_subplot(grid[1 + place // columns, place % columns], sharey=history)
        for tuned, colour in reversed(sides):
            if name in tuned.contestant.space:
                _draw_setting(axes, tuned, name, entry, colour, floor)
        _set_x_axis(axes, entry)
        axes.set_title(name)
        tidy(axes)
        if place % columns:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("validation, %")
    _add_legend(figure, sides, floor)
    return figure


def _draw_history(axes: Axes, tuned: TunedModel, colour: str, floor: float) -> None:
    best: list[float] = []
    numbers: list[int] = []
    for trial in tuned.trials:
        if trial.score is None:
            axes.plot(trial.number, floor, marker="x", color=colour, clip_on=False, zorder=5)
            continue
        _draw_trial(axes, trial.number, trial.score, colour, floor)
        best.append(max([100 * trial.score, *best[-1:]]))
        numbers.append(trial.number)
    if numbers[-1] != tuned.trials[-1].number:
        numbers.append(tuned.trials[-1].number)
        best.append(best[-1])
    axes.plot(numbers, best, drawstyle="steps-post", color=colour)
    _draw_chosen(axes, tuned.chosen.number, tuned.chosen, colour)


def _draw_setting(
    axes: Axes, tuned: TunedModel, name: str, entry: Entry, colour: str, floor: float
) -> None:
    for trial in tuned.trials:
        if trial.score is not None and trial is not tuned.chosen:
            _draw_trial(axes, _place(entry, trial.values[name]), trial.score, colour, floor)
    _draw_chosen(axes, _place(entry, tuned.chosen.values[name]), tuned.chosen, colour)


def _draw_trial(axes: Axes, x: float, score: float, colour: str, floor: float) -> None:
    """A dot, or at the floor a triangle for what lies below it."""
    below = 100 * score < floor
    axes.plot(
        x,
        max(100 * score, floor),
        marker="v" if below else "o",
        color=colour,
        alpha=0.5,
        markeredgewidth=0,
        linestyle="none",
        clip_on=False,
    )


def _draw_chosen(axes: Axes, x: float, chosen: Trial, colour: str) -> None:
    assert chosen.score is not None
    axes.plot(x, 100 * chosen.score, zorder=6, **_star(colour))


def _star(colour: str) -> dict[str, Any]:
    return {
        "marker": "*",
        "color": colour,
        "markersize": 12,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
        "linestyle": "none",
        "clip_on": False,
    }


def _place(entry: Entry, value: Any) -> float:
    """Where a value is on its axis: a choice is counted."""
    return float(entry.values.index(value) if isinstance(entry, Choices) else value)


def _set_x_axis(axes: Axes, entry: Entry) -> None:
    if isinstance(entry, Choices):
        axes.set_xticks(range(len(entry.values)), [_label(value) for value in entry.values])
        axes.set_xlim(-0.5, len(entry.values) - 0.5)
        return
    if entry.log:
        axes.set_xscale("log")
        span = entry.high / entry.low
        subs = (1.0,) if span > 30 else (1.0, 3.0) if span > 8 else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(entry.low / span**0.05, entry.high * span**0.05)
    else:
        room = 0.05 * (entry.high - entry.low)
        axes.set_xlim(entry.low - room, entry.high + room)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=entry.whole, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(number: float) -> str:
    digits = f"{number:.0e}" if 0 < number < 1e-3 else f"{number:g}"
    return digits.replace("e-0", "e-")


def _label(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _floor(sides: Sequence[tuple[TunedModel, str]]) -> float:
    """Where the axis starts: far failures must not flatten what is worth looking at."""
    scores = [
        100 * trial.score for tuned, _ in sides for trial in tuned.trials if trial.score is not None
    ]
    best = max(scores)
    return max(min(scores), best - max(4 * (best - median(scores)), 2.0))


def _add_legend(figure: Figure, sides: Sequence[tuple[TunedModel, str]], floor: float) -> None:
    handles = [
        Line2D([], [], color=colour, marker="o", label=tuned.config.model)
        for tuned, colour in sides
    ]
    handles.append(Line2D([], [], label="chosen", **(_star(INK) | {"clip_on": True})))
    trials = [trial for tuned, _ in sides for trial in tuned.trials]
    if any(trial.score is not None and 100 * trial.score < floor for trial in trials):
        handles.append(Line2D([], [], color=INK, marker="v", linestyle="none", label="below"))
    if any(trial.score is None for trial in trials):
        handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="failed"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
