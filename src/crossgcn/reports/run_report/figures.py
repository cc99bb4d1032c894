"""Draw the figures of a run report, and prepare its matrices.

Figures contain only numbers and this package's own words. The page shows names from the user's
tables as text, which it wraps, shortens and escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.figure_style import INK, figure_style, tidy, to_svg
from crossgcn.reports.format import get_metric, percent, shorten
from crossgcn.reports.run_report.scores import Calibration, Confusion, Errors
from crossgcn.reports.run_report.view import (
    ComparisonView,
    Curve,
    FieldStrengths,
    LayerWeights,
    RunView,
)

BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
GREY: Final = "#7b8494"

_HALF: Final = 4.7
_MOST_POINTS: Final = 120


def draw_figures(view: RunView) -> dict[str, str | None]:
    """Draw all figures as SVG; ``None`` where there is nothing to draw.

    Of the curves, one for each split, that of the shown split is emphasised.
    """
    losses = {"train_loss": BLUE, "validation_loss": ORANGE}
    metric = get_metric(view.metric)
    score = f"validation {metric.label}"
    return {
        "comparison": None if view.comparison is None else _draw_comparison(view.comparison),
        "order_weights": _draw_order_weights(view.order_weights),
        "loss": _draw_curves("loss", view, losses),
        "score": _draw_curves(score, view, {"validation_score": ORANGE}, percent=metric.percent),
        "calibration": None if view.calibration is None else _draw_calibration(view.calibration),
        "predicted": None if view.errors is None else _draw_predicted(view.errors),
        "residuals": None if view.errors is None else _draw_residuals(view.errors),
    }


def _draw_order_weights(layers: Sequence[LayerWeights]) -> str | None:
    """Draw the order weights of each layer; ``None`` if no layer has more than one order."""
    rows = [
        (f"layer {layer}, order {order}", weights, BLUE)
        for layer, each in enumerate(layers, start=1)
        if max(map(len, each.weights), default=0) > 1
        for order, weights in enumerate(zip(*each.weights, strict=True), start=1)
    ]
    if not rows:
        return None
    label = "Order weights, a dot for each split: " + "; ".join(
        f"{name}: mean {fmean(weights):.2f}" for name, weights, _ in rows
    )
    return _draw_dots("order-weights", rows, "weight |α|", label, from_zero=True)


def _draw_calibration(calibration: Calibration) -> str | None:
    """Draw accuracy over confidence, and the number of predictions; ``None`` without bins."""
    if not calibration.bins:
        return None
    confidence = [each.confidence for each in calibration.bins]
    accuracy = [each.accuracy for each in calibration.bins]
    counts = [each.size for each in calibration.bins]
    with figure_style("calibration"):
        figure = Figure(figsize=(_HALF, 4.3), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], color="#9aa1ad", linewidth=1, linestyle="--")
        above.vlines(confidence, confidence, accuracy, color=ORANGE, linewidth=1.4)
        above.plot(confidence, accuracy, "o", color=BLUE)
        above.set(xlim=(0, 1), ylim=(-0.03, 1.03), ylabel="share that is right")
        above.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        below.bar(confidence, counts, width=0.035, color=BLUE, alpha=0.6)
        below.set(xlabel="confidence", ylabel="nodes")
        below.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        below.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        tidy(above)
        tidy(below)
        label = f"Reliability of {calibration.total} predictions in {len(counts)} bins"
        return to_svg(figure, "calibration", label)


def _draw_predicted(errors: Errors) -> str:
    """Draw predicted over true numbers."""
    truth, predicted = zip(*errors.points, strict=True)
    ends = [min(*truth, *predicted), max(*truth, *predicted)]
    return _draw_points(
        "predicted", truth, predicted, ends, ends, ("true", "predicted"), errors.total
    )


def _draw_residuals(errors: Errors) -> str:
    """Draw what was missed over what was predicted."""
    predicted = [prediction for _, prediction in errors.points]
    missed = [truth - prediction for truth, prediction in errors.points]
    ends = [min(predicted), max(predicted)]
    labels = ("predicted", "true − predicted")
    return _draw_points("residuals", predicted, missed, ends, [0, 0], labels, errors.total)


def _draw_points(
    name: str,
    across: Sequence[float],
    up: Sequence[float],
    line_across: Sequence[float],
    line_up: Sequence[float],
    labels: tuple[str, str],
    total: int,
) -> str:
    """Draw a dot per node, and the dashed line on which a prediction is right."""
    with figure_style(name):
        figure = Figure(figsize=(_HALF, 3.8), layout="constrained")
        axes = figure.subplots()
        axes.plot(line_across, line_up, color="#9aa1ad", linewidth=1, linestyle="--")
        axes.plot(across, up, "o", color=BLUE, alpha=0.35, markersize=3)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        axes.xaxis.set_major_locator(MaxNLocator(5))
        tidy(axes)
        words = f"{labels[1]} over {labels[0]} number, {len(across)} of {total} test nodes"
        return to_svg(figure, name, words)


def _draw_comparison(comparison: ComparisonView) -> str:
    """Draw the scores of every model; the two that were judged are coloured."""
    judged = {comparison.with_crosses: ORANGE, comparison.without_crosses: BLUE}
    metric = get_metric(comparison.metric)
    scale = 100 if metric.percent else 1
    rows = [
        (each.name, [scale * value for value in each.test], judged.get(each.name, GREY))
        for each in comparison.models
    ]
    label = f"Test {metric.label} of every model that was compared"
    title = f"test {metric.label}, %" if metric.percent else f"test {metric.label}"
    return _draw_dots("comparison", rows, title, label)


def _draw_dots(
    name: str,
    rows: Sequence[tuple[str, Sequence[float], str]],
    title: str,
    label: str,
    *,
    from_zero: bool = False,
) -> str:
    """Draw rows of small dots, with a large dot for the mean and a line of one deviation."""
    with figure_style(name), rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(_HALF, 0.75 + 0.34 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for place, (_, values, colour) in enumerate(rows):
            summary = summarise(values)
            axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.3, markersize=3.5)
            axes.errorbar(
                summary.mean,
                place,
                xerr=summary.sd,
                fmt="o",
                markersize=7,
                color=colour,
                zorder=3,
            )
        if from_zero:
            axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [words for words, *_ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(title)
        tidy(axes)
        return to_svg(figure, name, label)


def _draw_curves(
    title: str, view: RunView, colours: Mapping[str, str], *, percent: bool = False
) -> str | None:
    """Draw metrics over the epochs, each in its colour with one line per split."""
    if not view.curves:
        return None
    name = f"{title.split()[0]}-curves"
    with figure_style(name):
        figure = Figure(figsize=(_HALF, 3.2), layout="constrained")
        axes = figure.subplots()
        for metric, colour in colours.items():
            for split, curve in enumerate(view.curves, start=1):
                _draw_line(axes, curve, metric, colour, strong=split == view.shown_split)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if percent:
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_title(title)
        handles = [
            Line2D([], [], color=colour, label=metric.partition("_")[0])
            for metric, colour in colours.items()
        ]
        handles.append(Line2D([], [], color=INK, marker="o", linestyle="", label="chosen epoch"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        tidy(axes)
        return to_svg(figure, name, f"{title} over the epochs")


def _draw_line(axes: Axes, curve: Curve, metric: str, colour: str, *, strong: bool) -> None:
    epochs, values = curve.metrics["epoch"], curve.metrics[metric]
    chosen = [i for i in range(len(values)) if epochs[i] == curve.chosen_epoch]
    evenly = np.linspace(0, len(values) - 1, min(len(values), _MOST_POINTS)).round().astype(int)
    places = sorted({*evenly.tolist(), *chosen})
    axes.plot(
        [epochs[i] for i in places],
        [values[i] for i in places],
        color=colour,
        linewidth=1.8 if strong else 0.8,
        alpha=1.0 if strong else 0.3,
        zorder=3 if strong else 2,
    )
    axes.plot(
        [epochs[i] for i in chosen],
        [values[i] for i in chosen],
        "o",
        color=INK,
        markersize=5.5 if strong else 2.5,
        alpha=1.0 if strong else 0.5,
        zorder=5,
    )


@dataclass(frozen=True)
class Cell:
    """One cell of a matrix: its text, shade from 0 to 1, colour, and tooltip."""

    text: str
    shade: float
    tone: Literal["plus", "minus"]
    title: str

    @property
    def deep(self) -> bool:
        """Whether the cell is too dark for dark text."""
        return self.shade > 0.55


@dataclass(frozen=True)
class Matrix:
    """A square table with the same names on both sides.

    ``left_out`` is the number of rows that are not shown.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int

    @property
    def upright(self) -> bool:
        """Whether the column names are short and few enough to be written horizontally."""
        return len(self.names) <= 8 and max(map(len, self.names), default=0) <= 10


def confusion_matrix(confusion: Confusion, most: int) -> Matrix:
    """Return counts, shaded by the share of the true class, for at most ``most`` classes.

    The classes with the most test nodes are kept, in their order.
    """
    support = [sum(row) for row in confusion.counts]
    kept = sorted(_greatest(support, most))
    names = [shorten(name) for name in confusion.classes]

    def make_cell(true: int, predicted: int) -> Cell:
        count = confusion.counts[true][predicted]
        share = count / support[true] if support[true] else 0.0
        return Cell(
            f"{count:,}" if count else "",
            round(share, 3),
            "plus" if true == predicted else "minus",
            f"{names[true]} taken for {names[predicted]}: {count:,} ({percent(share)})",
        )

    return _matrix(names, kept, make_cell)


def field_matrix(strengths: FieldStrengths, most: int) -> Matrix:
    """Return the ``most`` strongest fields, in hundredths of the strongest pair."""
    kept = _greatest([sum(row) for row in strengths.values], most)
    greatest = max((value for row in strengths.values for value in row), default=0.0)
    names = [shorten(name) for name in strengths.fields]

    def make_cell(one: int, other: int) -> Cell:
        value = strengths.values[one][other]
        share = value / greatest if greatest > 0 else 0.0
        text = f"{100 * share:.0f}"
        title = f"{names[one]} & {names[other]}: {value:.4g}"
        return Cell("" if text == "0" else text, round(share, 3), "plus", title)

    return _matrix(names, kept, make_cell)


def _greatest(values: Sequence[float], most: int) -> list[int]:
    """Return the positions of the largest values, largest first; ties in their order."""
    return sorted(range(len(values)), key=lambda i: -values[i])[:most]


def _matrix(
    names: Sequence[str], kept: Sequence[int], make_cell: Callable[[int, int], Cell]
) -> Matrix:
    return Matrix(
        tuple(names[i] for i in kept),
        tuple(tuple(make_cell(i, j) for j in kept) for i in kept),
        len(names) - len(kept),
    )
