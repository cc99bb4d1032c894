from __future__ import annotations

import numpy as np
import pytest

loops = pytest.importorskip("crossgcn.kernels.cpu.loops")
wide = pytest.importorskip("crossgcn.kernels.cpu.loops")
single = np.float32


@pytest.mark.parametrize("shared", [0, 1])
def test_decay_alone_is_adam_with_no_gradient_to_the_bit(shared: int) -> None:
    start = np.random.default_rng(0).normal(size=2500).astype(single)
    weight, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    nothing, count = np.zeros_like(start), np.arange(1, 61)
    sizes = (0.02 / (1 - 0.9**count)).astype(single)
    corrections = ((1 - 0.999**count) ** -0.5).astype(single)
    for size, correction in zip(sizes, corrections, strict=True):
        loops.adam[0](weight, nothing, mean, square, size, correction, single(0.05))
    alone = start.copy()
    wide.decay_alone[shared](alone, sizes, corrections, single(0.05))
    np.testing.assert_array_equal(alone, weight)


@pytest.mark.parametrize("shared", [0, 1])
def test_dropping_in_another_order_drops_the_same_entries(shared: int) -> None:
    random = np.random.default_rng(1)
    values, order = random.random(999, dtype=single), random.permutation(999).astype(np.uint32)
    least, scale = np.uint32(2**31), single(2.0)
    own, other = np.empty_like(values), np.empty_like(values)
    seeds = np.array([2**32 - 3])
    bounds = np.array([0, values.size])
    loops.drop[0](values, values, own, bounds, seeds, 5, 0, least, scale, False)
    wide.drop_ordered[shared](values[order], order, other, seeds[0], 5, least, scale)
    np.testing.assert_array_equal(other, own[order])
    assert 0.4 < np.mean(own == 0) < 0.6
