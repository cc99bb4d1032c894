from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from crossgcn.kernels import reference
from crossgcn.kernels.reference import DropoutBits

loops = pytest.importorskip("crossgcn.kernels.cpu_loops")
hop_loops = pytest.importorskip("crossgcn.kernels.cpu_hop_loops")
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
    seed=st.integers(0, 2**16),
)
def test_row_sums_are_the_product_with_the_dense_matrix(
    rows: int, columns: int, width: int, density: float, seed: int
) -> None:
    matrix, dense = random_csr(rows, columns, density, seed), normal(columns, width, seed=seed + 1)
    out = np.full((rows, width), np.nan, dtype=single)
    offsets, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    loops.call(loops.row_sums, 1, offsets, indices, matrix.data, dense, out)
    expected = matrix.toarray().astype(float) @ dense
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@given(
    entries=st.integers(0, 200),
    p=st.sampled_from([0.0, 0.1, 0.9]),
    activate=st.booleans(),
    step=st.integers(0, 2**32 - 1),
)
def test_drop_and_its_gradient_equal_the_plain_ones(
    entries: int, p: float, activate: bool, step: int
) -> None:
    bits = DropoutBits(torch.tensor(2**32 - 1), torch.tensor(step), 3)
    x, gradient = normal(entries, seed=1), normal(entries, seed=2)
    x[::7] = 0.0
    exact = reference.drop(torch.from_numpy(x).double(), bits, p, activate)
    np.testing.assert_allclose(dropped(x, x, bits, p, activate), exact, rtol=1e-5, atol=1e-6)
    slope, twin = (torch.from_numpy(array).double() for array in (gradient, x))
    out = reference.drop(twin.requires_grad_(), bits, p, activate)
    (exact,) = torch.autograd.grad(out, twin, slope)
    actual = dropped(gradient, x, bits, p, activate)
    np.testing.assert_allclose(actual, exact, rtol=1e-5, atol=1e-6)


def dropped(taken: Any, x: Any, bits: DropoutBits, p: float, activate: bool) -> Any:
    out = np.empty_like(taken)
    key = bits.seed.item(), bits.step.item()
    loops.drop(taken, x, out, key, p, site=bits.site, activate=activate)
    return out


@given(
    order=st.integers(1, 5),
    rows=st.sampled_from([1, 5, 63, 64, 65, 130]),
    channels=st.integers(1, 9),
    release=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_cross_and_its_gradients_equal_the_plain_ones(
    order: int, rows: int, channels: int, release: bool, seed: int
) -> None:
    projections, weights = normal(rows, order * channels, seed=seed), normal(order, seed=seed + 1)
    gradient = normal(rows, channels, seed=seed + 2)
    g, p, w = (torch.from_numpy(array).double() for array in (gradient, projections, weights))
    expected = reference.cross(p.requires_grad_(), w.requires_grad_(), release, False)
    crossed = np.empty_like(gradient)
    loops.call(loops.cross, 5000, projections, weights, release, crossed)
    np.testing.assert_allclose(crossed, expected.detach(), rtol=1e-4, atol=1e-4)
    for_projections, for_weights = torch.autograd.grad(expected, (p, w), g)
    found, sums = crossed_backward(gradient, projections, weights, release)
    np.testing.assert_allclose(found, for_projections, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sums, for_weights[1:], rtol=1e-3, atol=1e-3)


def crossed_backward(gradient: Any, projections: Any, weights: Any, release: bool) -> Any:
    rows, channels = gradient.shape
    chunks = -(-rows // loops.ROWS_PER_CHUNK)
    sums = np.zeros((chunks, weights.size, channels), dtype=single)
    out = np.empty_like(projections)
    loops.call(loops.cross_backward, 5000, gradient, projections, weights, release, out, sums)
    return out, sums[:, 1:].sum(axis=(0, 2), dtype=float)


def test_a_sum_over_many_rows_keeps_its_digits() -> None:
    """One running float32 sum over these rows would stop growing long before the end."""
    rows = 30_000
    given = np.ones((rows, 1), single), np.full((rows, 2), 0.1, single), np.ones(2, single)
    assert crossed_backward(*given, False)[1] == pytest.approx([0.01 * rows], rel=2e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_gone_wrong_is_not_hidden(bad: float) -> None:
    for order in (1, 2, 3):
        projections, weights = np.ones((4, 2 * order), single), np.ones(order, single)
        projections[2, -1] = bad
        out = np.empty((4, 2), single)
        loops.call(loops.cross, 1, projections, weights, False, out)
        assert np.argwhere(~np.isfinite(out)).tolist() == [[2, 1]]
        back, sums = crossed_backward(
            projections[:, -2:].copy(), np.ones_like(projections), weights, False
        )
        assert (~np.isfinite(back[2])).tolist() == [False, True] * order
        assert not np.isfinite(sums).any()


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = DropoutBits(torch.tensor(5), torch.tensor(6), 0)
    hops = [normal(2, 24, 333, seed=10), normal(1, 24, seed=11), normal(3, 24, seed=12)]
    bias, slope = normal(4, 3, seed=13), normal(4, 3, 333, seed=14)

    def fill(kernel: Any, given: list[Any], filled: list[Any]) -> list[Any]:
        results = [np.empty_like(each) for each in filled]
        loops.call(kernel, 5000, *given, *results)
        return results

    def results() -> list[Any]:
        weights = [*(normal(5000, seed=seed) for seed in (6, 7, 8)), abs(normal(5000, seed=9))]
        loops.call(loops.adam, 5000, *weights, single(1), single(2), single(3))
        x = normal(20_500, seed=1)
        return [
            dropped(x, x, bits, 0.5, True),
            *crossed_backward(normal(333, 20, seed=1), normal(333, 60, seed=3), x[:3], True),
            *weights,
            *fill(hop_loops.score_units, [*hops, bias], [slope]),
            *fill(hop_loops.score_units_backward, [slope, *hops], [*hops, bias]),
        ]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results()
        monkeypatch.setattr(loops, "_PARALLEL_FROM", 1)
        torch.set_num_threads(2)
        shared = results()
    finally:
        torch.set_num_threads(before)
    for one, two in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, two)
