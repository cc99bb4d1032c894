from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from research.scale.cluster import (
    FAST,
    SLOW,
    Job,
    distinct,
    full_batch_cost,
    sampled_cost,
    sampled_shape,
    touched_columns,
)
from research.scale.cost_model import Kept, Rates
from research.scale.cost_points import step_work

RATES = Rates({"bf16": 3e14}, memory=1.6e12, near=1e13, far=4e12, cache=1e9, step=1e-4)
KEPT = Kept((2.5, 0.5, 64.0, 56.0, 3.0, 1e7))
JOB = Job(1_000_000, 10_000_000, 128, 64, 16, 2, "bf16")


def test_distinct_things_are_as_many_as_drawing_finds() -> None:
    random = np.random.default_rng(0)
    found = [np.unique(random.integers(5_000, size=4_000)).size for _ in range(50)]
    assert distinct(4_000, 5_000) == pytest.approx(np.mean(found), rel=0.01)
    assert distinct(10.0, 1e12) == pytest.approx(10.0)


def test_touched_columns_are_as_many_as_drawing_finds() -> None:
    shares = 1 / (np.arange(2_000) + 10)
    random = np.random.default_rng(0)
    draws = [random.choice(2_000, size=3_000, p=shares / shares.sum()) for _ in range(20)]
    found = np.mean([np.unique(draw).size for draw in draws])
    assert touched_columns(3_000, 2_000) == pytest.approx(found, rel=0.01)


def test_one_gpu_sends_nothing() -> None:
    full = full_batch_cost(JOB, 1, RATES, KEPT, SLOW)
    whole = step_work(JOB.share(1), 2)
    assert full.seconds == full.compute == pytest.approx(RATES.seconds(list(whole), "bf16"))
    assert full.gpu_bytes == KEPT.bytes(JOB.share(1), 2)
    sampled = sampled_cost(JOB, 1, RATES, KEPT, SLOW)
    assert (sampled.fetch, sampled.all_reduce) == (0.0, 0.0)


def test_halos_are_the_rows_that_a_partition_at_random_asks_for() -> None:
    nodes, edges, gpus = 4_000, 20_000, 4
    random = np.random.default_rng(0)
    ends = random.integers(nodes, size=(2, edges))
    both = np.concatenate([ends, ends[::-1]], axis=1)
    part = random.permutation(nodes) % gpus
    asked = [
        np.unique(both[1][(part[both[0]] == own) & (part[both[1]] != own)]).size
        for own in range(gpus)
    ]
    job = Job(nodes, edges, 8, 16, 4, 2, "bf16")
    cost = full_batch_cost(job, gpus, RATES, KEPT, SLOW)
    rows = cost.exchange * SLOW.inside / (2 * 2 * (16 + 4))
    assert rows == pytest.approx(np.mean(asked), rel=0.02)
    held = cost.gpu_bytes - KEPT.bytes(job.share(gpus), 2)
    assert held == pytest.approx(rows * 16 * 2)


def test_bytes_come_over_both_links_at_once() -> None:
    assert FAST.travel(7e9, 8) == pytest.approx(7e9 / FAST.inside)
    far = 1e9 * 56 / 63
    assert FAST.travel(1e9, 64) == pytest.approx(far / FAST.between)
    assert replace(FAST, between=1e15).travel(1e9, 64) == pytest.approx(1e9 * 7 / 63 / FAST.inside)


def test_gradients_are_summed_over_all_links_of_a_machine() -> None:
    latency = 2 * math.log2(8) * FAST.hop_seconds
    assert FAST.all_reduce(4e9, 8) == pytest.approx(2 * 4e9 * 7 / 8 / FAST.inside + latency)
    latency = 2 * math.log2(16) * SLOW.hop_seconds
    rate = 8 * SLOW.between
    assert SLOW.all_reduce(4e9, 16) == pytest.approx(2 * 4e9 * 15 / 16 / rate + latency)


def test_a_batch_holds_what_two_hops_reach() -> None:
    shape = sampled_shape(replace(JOB, nodes=10**12, edges=10**13, fanouts=(15, 10)))
    assert shape.hidden == 1024 * 16
    assert shape.inputs == 1024 * 16 * 11
    assert (shape.first_edges, shape.second_edges) == (1024 * 16 * 11, 1024 * 16)
    few = sampled_shape(replace(JOB, nodes=10**12, edges=10**12, fanouts=(15, 10)))
    assert few.hidden == 1024 * 3


def test_an_epoch_is_shared_by_all_gpus() -> None:
    one, eight = (sampled_cost(JOB, gpus, RATES, KEPT, FAST) for gpus in (1, 8))
    assert one.steps == math.ceil(600_000 / 1024)
    assert eight.steps == math.ceil(600_000 / 8192)
    assert one.epoch == one.steps * one.seconds
    assert eight.gpu_bytes < one.gpu_bytes


def test_without_overlap_everything_adds_up() -> None:
    cost = sampled_cost(JOB, 64, RATES, KEPT, SLOW)
    parts = cost.compute + cost.drawing + cost.fetch + cost.all_reduce
    assert cost.seconds == pytest.approx(parts)
    fast = sampled_cost(JOB, 64, RATES, KEPT, FAST)
    assert fast.seconds < fast.compute + fast.drawing + fast.fetch + fast.all_reduce


def test_spread_weights_take_memory_of_one_share_and_of_what_a_batch_touches() -> None:
    wide = replace(JOB, features=10**6, stored=50, nodes=100_000_000, edges=10**9)
    shared, spread = (
        sampled_cost(wide, 64, RATES, KEPT, FAST, shared_weights=each) for each in (True, False)
    )
    shape = sampled_shape(wide)
    column = 4 * 2 * 64
    columns = touched_columns(shape.inputs * 50, 10**6)
    # The second layer's weights are few and stay on every GPU.
    expected = 4 * column * 10**6 * (1 - 1 / 64) - 2 * column * columns
    assert shared.gpu_bytes - spread.gpu_bytes == pytest.approx(expected, rel=1e-3)
    assert spread.all_reduce == pytest.approx(FAST.travel(2 * 63 / 64 * columns * column, 64))
    assert spread.compute < shared.compute
