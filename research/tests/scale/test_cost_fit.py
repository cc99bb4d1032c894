from __future__ import annotations

import math
from dataclasses import replace

import pytest

from research.scale.cost_model import (
    Fitted,
    Kept,
    Rates,
    fit_kept,
    fit_rates,
    judge_kept,
    judge_rates,
    rms_log,
)
from research.scale.cost_points import CostPoint, drawn_entries, full_batch, step_work

TRUE = Rates({"fp32": 3e13, "bf16": 6e13}, memory=1.6e12, near=1e13, far=4e12, cache=5e8, step=1e-4)
HELD = Kept((2.0, 1.0, 64.0, 56.0, 3.0, 2e7))


def made_points() -> list[CostPoint]:
    """Return steps of many sizes with exactly the time and memory of the model."""
    points = []
    for number, precision in enumerate(("fp32", "bf16") * 14):
        nodes, hidden = 10_000 * (1 + number % 5) ** 2, 32 * 4 ** (number % 3)
        shape = full_batch(
            nodes,
            nodes * (3 + number * 7 % 60),
            (64, 512, 2048)[number // 2 % 3],
            hidden,
            8,
            1 + number // 3 % 3,
            stored=(None, 20, 100)[number // 4 % 3],
        )
        parts = tuple(step_work(shape, 2 if precision == "bf16" else 4))
        point = CostPoint(
            ("one", "two")[number // 2 % 2], f"{number}", precision, parts, 1.0, shape
        )
        points.append(
            replace(
                point,
                seconds=TRUE.seconds(parts, precision),
                peak_bytes=HELD.bytes(shape, point.value_bytes),
            )
        )
    return points


def test_rates_that_made_the_times_are_found_again() -> None:
    found = fit_rates(made_points(), TRUE.far)
    assert found.operations == pytest.approx(TRUE.operations, rel=1e-3)
    for name in ("memory", "near", "cache", "step"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-3)


def test_counts_that_made_the_bytes_are_found_again() -> None:
    assert fit_kept(made_points()).counts == pytest.approx(HELD.counts, rel=1e-3)


def test_memory_is_as_fast_as_copies_until_a_step_gathers_from_gigabytes() -> None:
    points = [
        point
        for point in made_points()
        if max(part.memory_bytes for part in point.parts if part.gathered_bytes) < 1e9
    ]
    assert fit_rates(points, 2e12).far == 2e12
    large = full_batch(3_000_000, 90_000_000, 64, 256, 8, 2)
    parts = tuple(step_work(large, 4))
    far = CostPoint("large", "large", "fp32", parts, TRUE.seconds(parts, "fp32"), large)
    assert fit_rates([*points, far], 2e12).far == pytest.approx(TRUE.far, rel=1e-2)


def test_a_record_with_four_times_the_steps_counts_twice() -> None:
    point = made_points()[0]
    points = [replace(point, record="few", peak_bytes=1e9)] * 4
    points += [replace(point, record="many", peak_bytes=4e9)] * 16
    assert point.shape is not None
    middle = fit_kept(points).bytes(point.shape, point.value_bytes)
    assert middle == pytest.approx(1e9 * 4 ** (2 / 3), rel=1e-3)


def test_a_point_that_is_left_out_is_not_looked_at() -> None:
    points = made_points()
    wrong = replace(points[3], seconds=5 * points[3].seconds)
    judged = judge_rates([*points[:3], wrong, *points[4:]], TRUE.far)[3]
    assert judged.measured == wrong.seconds
    assert judged.left_out == pytest.approx(points[3].seconds, rel=1e-3)
    assert judged.predicted > 1.01 * judged.left_out


def test_a_record_that_is_left_out_is_not_looked_at() -> None:
    more = Kept(tuple(2 * count for count in HELD.counts))
    points = [
        replace(point, peak_bytes=more.bytes(point.shape, point.value_bytes))
        if point.record == "two" and point.shape is not None
        else point
        for point in made_points()
    ]
    for judged in judge_kept(points):
        other = HELD if judged.point.record == "two" else more
        assert judged.point.shape is not None
        expected = other.bytes(judged.point.shape, judged.point.value_bytes)
        assert judged.record_left_out == pytest.approx(expected, rel=1e-3)


def test_a_precision_that_no_other_record_has_is_not_predicted_from_them() -> None:
    points = [
        replace(point, record="half" if point.precision == "bf16" else "whole")
        for point in made_points()
    ]
    fitted = Fitted.to_points(points, TRUE.far)
    assert fitted is not None
    assert all(judged.record_left_out is None for judged in fitted.times)
    assert fitted.spread == pytest.approx(2.0)


def test_too_few_steps_are_not_fitted() -> None:
    assert Fitted.to_points(made_points()[:6], TRUE.far) is None


def test_errors_are_of_logarithms() -> None:
    assert rms_log([(2.0, 1.0), (1.0, 2.0)]) == pytest.approx(math.log(2))


def test_pairs_that_are_drawn_twice_count_once() -> None:
    nodes, degree = 400, 60
    pairs = nodes * (nodes - 1) // 2
    missed = (1 - 1 / pairs) ** (nodes * degree // 2)
    assert drawn_entries(nodes, degree) == pytest.approx(2 * pairs * (1 - missed) + nodes, rel=1e-4)
