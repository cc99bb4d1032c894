from __future__ import annotations

from dataclasses import replace

import pytest

from research.scale.cost_model import Kept, Rates, kept_quantities
from research.scale.cost_points import StepShape, Work, full_batch, step_work

RATES = Rates({"fp32": 100.0, "bf16": 200.0}, memory=10.0, near=20.0, far=5.0, cache=30.0, step=0.5)
SHAPE = full_batch(100, 700, 30, 8, 3, 2, train_share=0.5)


def test_a_part_takes_as_long_as_its_slowest_resource() -> None:
    product = RATES.part(Work("product", operations=300, memory_bytes=10), "fp32")
    assert (product.seconds, product.bound) == (3.0, "operations")
    assert RATES.part(Work("product", operations=300, memory_bytes=10), "bf16").seconds == 1.5
    copy = RATES.part(Work("copy", operations=100, memory_bytes=50), "fp32")
    assert (copy.seconds, copy.bound) == (5.0, "memory")


def test_what_does_not_fit_into_the_cache_is_gathered_from_memory() -> None:
    small = RATES.part(Work("gather", gathered_bytes=80), "fp32")
    assert (small.seconds, small.bound) == (4.0, "gathering")
    half = RATES.part(Work("gather", memory_bytes=30, gathered_bytes=80), "fp32")
    assert half.seconds == pytest.approx(40 / 20 + 40 / 5)
    huge = RATES.part(Work("gather", memory_bytes=3 * 10**9, gathered_bytes=8 * 10**12), "fp32")
    assert huge.seconds == pytest.approx(8e12 / 5, rel=1e-6)


def test_a_step_is_the_sum_of_its_parts_and_a_constant() -> None:
    parts = [Work("a", operations=300), Work("b", memory_bytes=50)]
    assert RATES.seconds(parts, "fp32") == pytest.approx(0.5 + 3.0 + 5.0)


def test_stored_features_gather_their_weights_forward_and_back() -> None:
    sparse = {part.name: part for part in step_work(replace(SHAPE, stored=4), 2)}
    for name in ("project features", "gradient of first weights"):
        assert sparse[name].operations == 0
        assert sparse[name].gathered_bytes == 2 * 100 * 4 * 16
    weights, entries = 4 * 30 * 16, 8 * 100 * 4
    assert sparse["project features"].memory_bytes == 2 * 100 * 3 * 8 + entries + weights
    dense = {part.name: part for part in step_work(SHAPE, 2)}
    same = set(dense) - {"project features", "gradient of first weights"}
    assert all(sparse[name] == dense[name] for name in same)


def test_a_full_batch_reads_every_row_and_scores_those_that_train() -> None:
    assert (SHAPE.inputs, SHAPE.hidden, SHAPE.targets) == (100, 100, 50)
    assert (SHAPE.first_edges, SHAPE.second_edges) == (700, 350)
    assert SHAPE.parameters == 2 * 8 * 30 + 2 * 3 * 8


def test_memory_counts_each_thing_as_often_as_it_is_held() -> None:
    kept = Kept((2.0, 1.0, 64.0, 56.0, 3.0, 1000.0))
    dense = 2 * (4 * 100 * 8 * 2) + 4 * 100 * 8 + 64 * 700 + 3 * (4 * 100 * 30) + 1000
    weights = 16 * SHAPE.parameters
    assert kept.bytes(SHAPE, 4) == dense + weights
    stored = kept.bytes(replace(SHAPE, stored=4), 4)
    assert stored == dense + weights - 3 * (4 * 100 * 30) + 56 * 400


def test_only_values_shrink_with_their_precision() -> None:
    whole, half = kept_quantities(SHAPE, 4), kept_quantities(SHAPE, 2)
    ratios = [b / a for a, b in zip(whole, half, strict=True) if a]
    assert ratios == [0.5, 0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("what", ["inputs", "first_edges", "features", "hidden_channels"])
def test_work_grows_linearly_in_every_size(what: str) -> None:
    def total(shape: StepShape) -> tuple[int, ...]:
        parts = list(step_work(shape, 4))
        return tuple(
            sum(getattr(part, name) for part in parts)
            for name in ("operations", "memory_bytes", "gathered_bytes")
        )

    one, two, three = (
        total(replace(SHAPE, **{what: factor * getattr(SHAPE, what)})) for factor in (1, 2, 3)
    )
    assert all(c - b == b - a for a, b, c in zip(one, two, three, strict=True))
    assert sum(two) > sum(one)
