from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.lines import Line2D

from research.findings.depth import draw_depth, write_depth_figure

VARIANTS = ("plain", "scaled")


def drawn(line: Line2D) -> list[tuple[float, float]]:
    """Return the points of a line."""
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def point(dataset: str, variant: str, sweep: str, value: int, **changes: Any) -> dict[str, Any]:
    accuracy = 0.5 + 0.01 * value + (0.2 if variant == "scaled" else 0.0)
    return {
        "dataset": dataset,
        "variant": variant,
        "sweep": sweep,
        "value": value,
        "test_accuracy": [accuracy, accuracy + 0.02],
        "diverged": 0,
    } | changes


def record() -> dict[str, Any]:
    """Return a record of two datasets; order 3 diverges on one split, order 4 on all splits."""
    accuracy = [
        point(dataset, variant, sweep, value)
        for dataset in ("words", "numbers")
        for variant in VARIANTS
        for sweep, values in (("order", (1, 2)), ("depth", (1, 4, 16)))
        for value in values
    ]
    accuracy.append(point("words", "plain", "order", 3, diverged=1))
    accuracy.append(point("words", "plain", "order", 4, diverged=3, test_accuracy=[]))
    gradients = [
        {"dataset": d, "variant": v, "sweep": s, "norms": [0.1, 0.0, 1e-3]}
        for d in ("words", "numbers")
        for v in VARIANTS
        for s in ("order", "depth")
    ]
    return {"accuracy": accuracy, "gradients": gradients}


def test_every_dataset_has_its_rows_and_every_variant_its_lines() -> None:
    figure = draw_depth(record())
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title.partition(":")[0] for title in titles if title] == ["words"] * 2 + ["numbers"] * 2
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [*VARIANTS, "some split diverged"]
    assert all(len(axes.lines) >= 2 for axes in figure.axes)


def test_accuracies_are_means_over_splits_in_percent() -> None:
    depth = draw_depth(record()).axes[1]
    values, means = zip(*drawn(depth.lines[1]), strict=True)
    assert values == (1, 4, 16)
    assert means == pytest.approx((72.0, 75.0, 87.0))


def test_what_diverged_is_marked_where_it_is_missing() -> None:
    order = draw_depth(record()).axes[0]
    marks = [line for line in order.lines if line.get_marker() == "x"]
    assert [drawn(mark)[0] for mark in marks] == [(3, pytest.approx(54.0)), (4, 0.0)]
    assert [value for value, _ in drawn(order.lines[0])] == [1, 2, 3]


def test_a_gradient_that_is_gone_is_drawn_at_the_edge_and_axes_are_shared() -> None:
    axes = draw_depth(record()).axes
    gradients = axes[2]
    assert gradients.get_yscale() == "log"
    places, norms = zip(*drawn(gradients.lines[0]), strict=True)
    assert places == (2, 3, 4)
    assert min(norms) > 0
    assert gradients.get_ylim() == axes[6].get_ylim()


def test_the_picture_is_the_same_every_time_and_settings_are_left_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    for name in ("one.png", "two.png"):
        write_depth_figure(tmp_path / "new" / name, record())
    one, two = (tmp_path / "new" / name for name in ("one.png", "two.png"))
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before
