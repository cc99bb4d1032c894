from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

loops = pytest.importorskip("crossgcn.kernels.cpu.loops")
single = np.float32


def normal(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(single)


def random_csr(rows: int, columns: int, density: float, seed: int) -> Any:
    chosen = np.random.default_rng(seed).random((rows, columns)) < density
    return sp.csr_array(normal(rows, columns, seed=seed) * chosen)


@pytest.mark.parametrize("decay", [0.0, 5e-4, 0.3])
def test_adam_is_that_of_torch(decay: float) -> None:
    weight = normal(300, seed=1)
    twin = torch.nn.Parameter(torch.from_numpy(weight).double())
    optimizer = torch.optim.Adam([twin], lr=0.02, weight_decay=decay)
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    for step in range(1, 31):
        gradient = normal(300, seed=10 + step) * single(10.0 ** (step % 5 - 3))
        gradient[:3] = 0.0
        rates = single(0.02 / (1 - 0.9**step)), single((1 - 0.999**step) ** -0.5)
        loops.call(loops.adam, 300, weight, gradient, mean, square, *rates, single(decay))
        twin.grad = torch.from_numpy(gradient).double()
        optimizer.step()
        np.testing.assert_allclose(weight, twin.detach().numpy(), rtol=1e-5, atol=1e-6)


@given(
    rows=st.integers(1, 20),
    classes=st.integers(1, 9),
    size=st.sampled_from([0.0, 1.0, 90.0]),
    seed=st.integers(0, 2**16),
)
def test_cross_entropy_is_that_of_torch(rows: int, classes: int, size: float, seed: int) -> None:
    scores = normal(rows, classes, seed=seed) * single(size)
    labels = np.random.default_rng(seed).integers(classes, size=rows)
    gradient = np.full_like(scores, np.nan)
    loss, right = loops.cross_entropy(scores, labels, gradient)
    exact = torch.from_numpy(scores).double().requires_grad_()
    expected = functional.cross_entropy(exact, torch.from_numpy(labels))
    (slopes,) = torch.autograd.grad(expected, exact)
    assert loss == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    assert right == int((exact.argmax(1).numpy() == labels).sum())
    np.testing.assert_allclose(gradient, slopes.numpy(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_loss_of_a_score_gone_wrong_is_not_finite(place: int, bad: float) -> None:
    scores = np.zeros((4, 3), dtype=single)
    scores[2, place] = bad
    loss, _ = loops.cross_entropy(scores, np.array([0, 1, 1, 2]), np.empty_like(scores))
    assert not np.isfinite(loss)


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_compact_leaves_out_zeros_and_nothing_else(
    rows: int, columns: int, density: float, share: float, seed: int
) -> None:
    matrix = random_csr(rows, columns, density, seed)
    matrix.data *= np.random.default_rng(seed).random(matrix.nnz) < share
    # The transpose takes its values by position from those of the matrix itself.
    numbered = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    transposed = numbered.T.tocsr()
    orders = (np.empty(0, dtype=np.uint64), transposed.data.astype(np.uint64))
    for pattern, order, whole in zip(
        (matrix, transposed), orders, (matrix, matrix.T.tocsr()), strict=True
    ):
        offsets, indices = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)
        kept = [np.full_like(array, -1) for array in (offsets, indices, matrix.data)]
        loops.compact(offsets, indices, matrix.data, order, *kept)
        expected = whole.copy()
        expected.sort_indices()
        expected.eliminate_zeros()
        np.testing.assert_array_equal(kept[0], expected.indptr)
        np.testing.assert_array_equal(kept[1][: expected.nnz], expected.indices)
        np.testing.assert_array_equal(kept[2][: expected.nnz], expected.data)


def test_compact_does_not_take_nan_for_zero() -> None:
    values = np.array([0.0, np.nan, -0.0, np.inf], dtype=single)
    offsets, columns = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    kept = [np.zeros_like(array) for array in (offsets, columns, values)]
    loops.compact(offsets, columns, values, np.empty(0, dtype=np.uint64), *kept)
    assert kept[0].tolist() == [0, 1, 2] and kept[1][:2].tolist() == [1, 1]
    assert np.isnan(kept[2][0]) and np.isinf(kept[2][1])


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    width=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    with_bias=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_row_sums_are_the_product_with_the_dense_matrix(
    rows: int, columns: int, width: int, density: float, with_bias: bool, seed: int
) -> None:
    matrix = random_csr(rows, columns, density, seed)
    dense, bias = normal(columns, width, seed=seed + 1), normal(width, seed=seed + 2)
    bias = bias if with_bias else bias[:0]
    out = np.full((rows, width), np.nan, dtype=single)
    offsets, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    loops.call(loops.row_sums, 1, offsets, indices, matrix.data, dense, bias, out)
    expected = matrix.toarray().astype(float) @ dense + (bias if with_bias else 0.0)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_a_bias_is_added_to_every_row_and_its_gradient_is_their_sum() -> None:
    matrix, bias = normal(130, 7, seed=1), normal(7, seed=2)
    out, total = matrix.copy(), np.full(7, np.nan, dtype=single)
    loops.add_bias(bias, out)
    np.testing.assert_allclose(out, matrix + bias, rtol=1e-6)
    loops.column_sums(matrix, total)
    np.testing.assert_allclose(total, matrix.sum(0, dtype=float), rtol=1e-4, atol=1e-5)


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
    loops.decay_alone[shared](alone, sizes, corrections, single(0.05))
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
    loops.drop_ordered[shared](values[order], order, other, seeds[0], 5, least, scale)
    np.testing.assert_array_equal(other, own[order])
    assert 0.4 < np.mean(own == 0) < 0.6
