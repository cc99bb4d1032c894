"""Results for high orders and many layers: tables, and sentences computed from them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from crossgcn.data.files import replacing
from crossgcn.reports.figure_style import INK, WIDTH, figure_style, tidy
from crossgcn.reports.format import markdown_table

_SWEEPS: Final = {"order": "order", "depth": "layers"}
_PLAIN: Final = "plain"
_MOST_LOST: Final = 10.0
"""A point this many percentage points below the best of its curve counts as not trained."""

Record = Mapping[str, Any]


class _Curve(NamedTuple):
    """Accuracies of a variant on a dataset, as a function of the order or of the depth.

    Attributes:
        sweep: ``order`` or ``depth``.
        dataset: Name of the dataset.
        variant: Name of the variant.
        points: Measurement at each value, by value.
    """

    sweep: str
    dataset: str
    variant: str
    points: Mapping[int, Record]

    def mean(self, value: int) -> float | None:
        """Return the mean test accuracy in percent over the splits that did not diverge."""
        point = self.points.get(value)
        accuracies = point["test_accuracy"] if point else []
        return 100 * fmean(accuracies) if accuracies else None

    def worst(self) -> tuple[float, int]:
        """Return the largest drop below the best point, and its position.

        Order 1 is left out because it has no crosses. The drop is 0 if every run diverged.
        """
        means = {value: self.mean(value) for value in self.points if _crosses(self.sweep, value)}
        trained = {value: mean for value, mean in means.items() if mean is not None}
        low = min(trained, key=trained.__getitem__, default=max(self.points))
        return max(trained.values(), default=0.0) - trained.get(low, 0.0), low

    def diverged(self) -> int:
        """Return the number of diverged runs."""
        return sum(point["diverged"] for point in self.points.values())


def depth_markdown(record: Record | None, *, figure: str = "") -> str:
    """Render accuracy against order and depth, or a note that it was not measured.

    Args:
        record: The record written by ``research/scripts/measure_depth.py``.
        figure: Path of the figure.
    """
    if record is None:
        return "Not measured yet."
    curves = list(_curves(record))
    parts = [
        "\n".join(f"- {line}" for line in (*_verdicts(curves), *_against_plain(curves))),
        _settings(record),
        *filter(None, (_table(sweep, curves) for sweep in _SWEEPS)),
    ]
    if figure:
        parts.append(f"![Accuracy and gradients against order and depth]({figure})")
    return "\n\n".join(parts)


def _curves(record: Record) -> Iterator[_Curve]:
    found: dict[tuple[str, str, str], dict[int, Record]] = {}
    for point in record["accuracy"]:
        place = point["sweep"], point["dataset"], point["variant"]
        found.setdefault(place, {})[point["value"]] = point
    for place, points in found.items():
        yield _Curve(*place, dict(sorted(points.items())))


def _crosses(sweep: str, value: int) -> bool:
    return sweep != "order" or value > 1


def _verdicts(curves: Sequence[_Curve]) -> Iterator[str]:
    """State which variants train at every value, and where the others fail."""
    for sweep in _SWEEPS:
        here = [curve for curve in curves if curve.sweep == sweep]
        if not here:
            continue
        values = [value for value in here[0].points if _crosses(sweep, value)]
        trained, failed = [], []
        for variant in dict.fromkeys(curve.variant for curve in here):
            own = [curve for curve in here if curve.variant == variant]
            troubles = "; ".join(_troubles(own))
            if troubles:
                failed.append(f"*{variant}* does not ({troubles})")
                continue
            lowest = max(own, key=_Curve.worst)
            points, value = lowest.worst()
            trained.append(
                f"*{variant}* trains (at most {points:.1f} points below the best of its row, "
                f"on {lowest.dataset} at {_at(sweep, value)})"
            )
        reach = f"From {values[0]} to {values[-1]} layers"
        if sweep == "order":
            reach = f"From order {values[0]} to order {values[-1]}"
        yield f"{reach}: {'; '.join((*trained, *failed))}."


def _troubles(curves: Sequence[_Curve]) -> Iterator[str]:
    for curve in curves:
        if curve.diverged():
            total = sum(len(p["test_accuracy"]) + p["diverged"] for p in curve.points.values())
            yield f"{curve.diverged()} of {total} runs diverged on {curve.dataset}"
        points, value = curve.worst()
        if points > _MOST_LOST:
            yield f"{points:.1f} points lost on {curve.dataset} at {_at(curve.sweep, value)}"


def _against_plain(curves: Sequence[_Curve]) -> Iterator[str]:
    """Compare each variant with the plain model at value 2 and at the largest value."""
    plain = {(c.sweep, c.dataset): c for c in curves if c.variant == _PLAIN}
    for sweep in _SWEEPS:
        twins = [c for c in curves if c.sweep == sweep and c.variant != _PLAIN]
        if not twins:
            continue
        for value in (2, max(twins[0].points)):
            texts = []
            for variant in dict.fromkeys(curve.variant for curve in twins):
                gains = [
                    f"{_difference(curve, plain[sweep, curve.dataset], value)} on {curve.dataset}"
                    for curve in twins
                    if curve.variant == variant
                ]
                texts.append(f"*{variant}* {', '.join(gains)}")
            yield f"Against *{_PLAIN}* at {_at(sweep, value)}, in points: {'; '.join(texts)}."


def _difference(ours: _Curve, plain: _Curve, value: int) -> str:
    mine, other = ours.mean(value), plain.mean(value)
    if mine is None or other is None:
        return "diverged"
    lost = ours.points[value]["diverged"] + plain.points[value]["diverged"]
    return f"{mine - other:+z.1f}" + (f" ({lost} diverged)" if lost else "")


def _at(sweep: str, value: int) -> str:
    return f"order {value}" if sweep == "order" else f"{value} layer{'s' * (value > 1)}"


def _settings(record: Record) -> str:
    settings = record["settings"]
    graphs = []
    for dataset, own in settings["datasets"].items():
        nodes = (
            "all labelled nodes" if own["train"] == "all" else f"{own['train']} nodes of each class"
        )
        graphs.append(f"{nodes} training and dropout {own['dropout']:g} on {dataset}")
    return (
        f"Test accuracies in percent, means over {settings['splits']} splits (over those that came "
        f"to an end, where some diverged): {settings['epochs']} epochs, "
        f"{settings['hidden_channels']} hidden units, learning rate {settings['learning_rate']:g}, "
        f"decay {settings['weight_decay']:g}, {', '.join(graphs)}; two layers against the order, "
        f"order 2 against depth. A curve counts as trained when no run diverged and no point is "
        f"more than {_MOST_LOST:g} points below its best one, order 1 aside; with "
        f"{settings['splits']} splits, smaller differences are not judged."
    )


def _table(sweep: str, curves: Sequence[_Curve]) -> str:
    curves = [curve for curve in curves if curve.sweep == sweep]
    values = sorted({value for curve in curves for value in curve.points})
    rows = [
        [f"{curve.dataset}: {curve.variant}", *(_cell(curve, value) for value in values)]
        for curve in curves
    ]
    return markdown_table([_SWEEPS[sweep], *map(str, values)], rows) if rows else ""


def _cell(curve: _Curve, value: int) -> str:
    mean, point = curve.mean(value), curve.points.get(value)
    if point is None:
        return "—"
    text = "—" if mean is None else f"{mean:.1f}"
    return f"{text}<br>{point['diverged']} diverged" if point["diverged"] else text


_SWEEP_AXES: Final = {
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
"""Smaller gradients count as vanished and are drawn at the lower edge."""

Points = Sequence[Record]


class _Style(NamedTuple):
    """The drawing style of a variant."""

    colour: str
    marker: str


def write_depth_figure(path: Path, record: Record) -> None:
    """Write the figure as PNG.

    Args:
        record: The record written by ``research/scripts/measure_depth.py``.
    """
    with figure_style("depth"):
        figure = draw_depth(record)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(buffer.getvalue())


def draw_depth(record: Record) -> Figure:
    """Draw two rows per dataset, accuracy above gradients, and one column per sweep.

    Args:
        record: The record written by ``research/scripts/measure_depth.py``.
    """
    datasets = list(dict.fromkeys(each["dataset"] for each in record["gradients"]))
    deep = [each for each in record["gradients"] if each["sweep"] == "depth"]
    variants = list(dict.fromkeys(each["variant"] for each in deep))
    figure = Figure(figsize=(WIDTH, 0.7 + 4.4 * len(datasets)), layout="constrained")
    heights = [1.25, 1.0] * len(datasets)
    grid = figure.subplots(2 * len(datasets), 2, squeeze=False, height_ratios=heights)
    for row, dataset in enumerate(datasets):
        for column, sweep in enumerate(_SWEEP_AXES):
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
    title, label, _ = _SWEEP_AXES[sweep]
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
    axes.set_xlabel(_SWEEP_AXES[sweep][2])
    axes.set_ylabel(_GRADIENTS[sweep])
    axes.xaxis.set_major_locator(FixedLocator(range(1, 17) if sweep == "depth" else range(1, 9)))
    axes.yaxis.set_minor_locator(NullLocator())
    tidy(axes)
