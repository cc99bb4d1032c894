"""The Triton kernels against plain PyTorch in float64; run by ``test_gpu.py``."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from crossgcn.kernels import gpu, ops, reference
from crossgcn.kernels.gpu import products
from crossgcn.kernels.gpu import rows as gpu_rows
from crossgcn.kernels.gpu.products import FastProducts, ProductShape, halve, multiply
from crossgcn.kernels.gpu.rows import SEGMENT_LENGTH, cut_into_segments
from crossgcn.kernels.reference import DropoutBits, Pattern, keep

HERE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE)


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(dtype).to(HERE)


def assert_near(actual: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype == dtype
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


def random_pattern(lengths: list[int], num_columns: int, seed: int) -> Pattern:
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randint(num_columns, (int(offsets[-1]),), generator=generator)
    return Pattern(offsets, columns).to(HERE)


def exact_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    out = torch.zeros(pattern.num_rows, dense.size(1), dtype=torch.float64, device=HERE)
    terms = values.double().unsqueeze(1) * dense.double()[pattern.columns]
    return out.index_add_(0, pattern.rows, terms)


LENGTHS = {
    "empty rows": [0, 3, 0, 1, 9, 0],
    "no entry": [0, 0],
    "a heavy row": [2, 9 * SEGMENT_LENGTH + 7, 0, SEGMENT_LENGTH, 2 * SEGMENT_LENGTH + 1, 17, 1],
}


@pytest.mark.parametrize("in_cache", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "width"), [("empty rows", 200), ("no entry", 3), ("a heavy row", 41)]
)
def test_row_sums_add_what_each_row_names(
    rows: str, width: int, dtype: torch.dtype, in_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_cache:
        monkeypatch.setattr(gpu_rows, "_CACHE", 0)
    pattern = random_pattern(LENGTHS[rows], num_columns=11, seed=width)
    values, dense = random(sum(LENGTHS[rows]), seed=1), random(11, width, seed=2, dtype=dtype)
    exact, actual = exact_sums(pattern, values, dense), gpu.row_sums(pattern, values, dense)
    tolerance = 10 * TOLERANCE[dtype]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


def test_row_sums_of_half_precision_add_up_in_float32() -> None:
    # A sum kept in bfloat16 would stop growing at 256.
    pattern = random_pattern([1000, 3], num_columns=5, seed=0)
    values = torch.ones(1003, device=HERE)
    actual = gpu.row_sums(pattern, values, torch.ones(5, 6, dtype=torch.bfloat16, device=HERE))
    assert actual.tolist() == [[1000.0] * 6, [3.0] * 6]


@pytest.mark.parametrize("width", [64, 300])
def test_wide_row_sums_in_tf32_round_what_they_add(width: int) -> None:
    pattern = random_pattern([3, 0, 40, 1, 200], num_columns=150, seed=1)
    values, dense = random(244, seed=2), random(150, width, seed=3)
    dense[:, 5] *= 1e-3
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    actual, exact = gpu.row_sums(pattern, values, dense), exact_sums(pattern, values, dense)
    matmul.fp32_precision = before
    assert actual.dtype == torch.float32
    wrong = float((actual.double() - exact).norm() / exact.norm())
    assert wrong <= (3e-4 if width >= 128 else 1e-6) and (width < 128 or wrong > 1e-6)


@pytest.mark.parametrize(("shape", "length"), [((16, 2, 4, 2), 3), ((32, 16, 1, 1), 64)])
def test_row_sums_do_not_hang_on_how_work_is_shared_out(
    shape: tuple[int, int, int, int], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = random_pattern([7, 0, 31, 2, 5], num_columns=9, seed=3)
    values, dense = random(45, seed=4), random(9, 33, seed=5)
    pattern.segments = cut_into_segments(pattern.row_offsets, length)
    monkeypatch.setattr(gpu_rows, "_row_sum_shape", lambda *_: gpu_rows.RowSumShape(*shape))
    actual = gpu.row_sums(pattern, values, dense)
    assert_near(actual, exact_sums(pattern, values, dense), torch.float32)


def test_segments_cover_each_entry_once_and_start_with_the_longest() -> None:
    offsets = torch.tensor([0, 3, 3, 33, 40, 54])
    segments = cut_into_segments(offsets, 7)
    lengths = segments.end - segments.begin
    assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
    places = zip(segments.row.tolist(), segments.begin, segments.end, strict=True)
    covered = [(row, entry) for row, begin, end in places for entry in range(begin, end)]
    expected = [(r, e) for r in range(5) for e in range(int(offsets[r]), int(offsets[r + 1]))]
    assert sorted(covered) == expected


def test_segments_of_more_entries_than_32_bits_can_count() -> None:
    last = 2**31 + 10
    segments = cut_into_segments(torch.tensor([0, 5, last]), 2**30)
    assert sorted(segments.end.tolist()) == [5, 2**30 + 5, 2**31 + 5, last]
    assert int(segments.begin.max()) == 2**31 + 5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activate", [False, True])
def test_drop_and_its_gradient_equal_the_plain_ones(activate: bool, dtype: torch.dtype) -> None:
    seed, step = torch.tensor(2**32 - 1, device=HERE), torch.tensor(2**31 + 5, device=HERE)
    bits = DropoutBits(seed, step, 3)
    ones = torch.ones(1500, device=HERE)
    assert torch.equal(gpu.drop(ones, bits, 0.9, False) != 0, keep(bits, 1500, 0.9))
    x, gradient = random(50, 50, seed=1, dtype=dtype).t(), random(50, 50, seed=2, dtype=dtype)
    x[3, :7] = 0.0
    exact = reference.drop(x.double(), bits, 0.3, activate)
    assert_near(gpu.drop(x, bits, 0.3, activate), exact, dtype)
    twin = x.double().requires_grad_()
    out = reference.drop(twin, bits, 0.3, activate)
    (exact,) = torch.autograd.grad(out, twin, gradient.double())
    assert_near(gpu.drop_backward(gradient, x, bits, 0.3, activate), exact, dtype)
    dropped = gpu.drop(x[:, :37], bits, 0.3, activate)
    assert dropped.shape == (50, 37) and dropped.stride(0) * dropped.itemsize % 16 == 0
    assert_near(dropped, reference.drop(x[:, :37].double(), bits, 0.3, activate), dtype)
    wrong = gpu.drop(torch.tensor([torch.nan, -1.0, 1.0], device=HERE), bits, 0.0, True)
    assert wrong.isnan().tolist() == [True, False, False]


@pytest.mark.skipif(HERE == "cpu", reason="needs a GPU")
def test_under_autocast_dropout_rounds_at_once() -> None:
    bits = DropoutBits(torch.tensor(1, device=HERE), torch.tensor(2, device=HERE), 0)
    x = random(30, 37, seed=1).requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        dropped = ops.drop(x, bits, 0.5, False)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert dropped.dtype == torch.bfloat16 and gradient.dtype == torch.float32
    expected = reference.drop(x.detach(), bits, 0.5, False)
    assert torch.equal(dropped, expected.bfloat16()) and torch.equal(gradient != 0, expected != 0)


@pytest.mark.parametrize("first_is_one", [False, True])
@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize(
    ("order", "channels", "dtype"),
    [
        *((1, 3, torch.float32), (2, 41, torch.bfloat16), (3, 64, torch.float32)),
        *((2, 130, torch.float32), (8, 2, torch.float32)),
    ],
)
def test_cross_and_its_gradients_equal_the_plain_ones(
    order: int, channels: int, release: bool, first_is_one: bool, dtype: torch.dtype
) -> None:
    how = release, first_is_one
    projections = random(19, order * channels, seed=1, dtype=dtype)
    weights, gradient = random(order, seed=2), random(19, channels, seed=3, dtype=dtype)
    g, p, w = (each.double() for each in (gradient, projections, weights))
    expected = reference.cross(p.requires_grad_(), w.requires_grad_(), *how)
    assert_near(gpu.cross(projections, weights, *how), expected.detach(), dtype)
    for_projections, for_weights = torch.autograd.grad(expected, (p, w), g)
    actual, actual_weights = gpu.cross_backward(gradient, projections, weights, *how, True)
    assert_near(actual, for_projections, dtype)
    assert actual_weights is not None
    for_weights[0] = 0.0  # never trained
    torch.testing.assert_close(actual_weights.double(), for_weights, rtol=1e-4, atol=1e-4)
    alone, none = gpu.cross_backward(gradient, projections, weights, *how, False)
    assert torch.equal(alone, actual) and none is None


def test_nothing_to_do_is_done() -> None:
    bits = DropoutBits(torch.tensor(0, device=HERE), torch.tensor(0, device=HERE), 0)
    nothing, weights = torch.empty(0, 6, device=HERE), torch.ones(3, device=HERE)
    assert gpu.drop(nothing, bits, 0.5, True).shape == (0, 6)
    assert gpu.cross(nothing, weights, False, False).shape == (0, 2)
    _, for_weights = gpu.cross_backward(nothing[:, :2], nothing, weights, False, False, True)
    assert for_weights is not None and for_weights.tolist() == [0.0] * 3
    pattern = Pattern(torch.tensor([0]), torch.tensor([], dtype=torch.long)).to(HERE)
    values, dense = torch.ones(0, device=HERE), torch.ones(4, 3, device=HERE)
    assert gpu.row_sums(pattern, values, dense).shape == (0, 3)
    for rows, terms, columns in ((0, 3, 2), (4, 0, 2), (4, 3, 0)):
        left, right = torch.ones(rows, terms, device=HERE), torch.ones(terms, columns, device=HERE)
        assert torch.equal(multiply(halve(left), halve(right)), left @ right)


def assert_product(actual: Tensor, expected: Tensor, exact: bool = True) -> None:
    assert actual.dtype == torch.float32 and actual.shape == expected.shape
    error = 1e-6 if exact else 5e-4
    assert float((actual.double() - expected).norm()) <= error * float(expected.norm())


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("shape", [None, ProductShape(64, 32, 32, 4, 2, chunks=3)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(150, 270, 140), (33, 64, 1), (5, 3, 41)])
def test_products_are_as_exact_as_those_of_float32_or_tf32(
    rows: int,
    terms: int,
    columns: int,
    turned: tuple[bool, bool],
    shape: ProductShape | None,
    exact: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if shape is not None:
        monkeypatch.setattr(products, "shape_of", lambda *_: shape)
    left, right = random(rows, terms, seed=1), random(terms, columns, seed=2)
    left[:, -1] *= 1e-12
    left[128:] *= 1e12  # tiles of one matrix may differ in size
    first, second = (
        halve(matrix.t() if turn else matrix, exact)
        for matrix, turn in zip((left, right), turned, strict=True)
    )
    actual = multiply(first, second, turn_left=turned[0], turn_right=turned[1])
    for part in (slice(0, 128), slice(128, None)):
        assert_product(actual[part], left[part].double() @ right.double(), exact)


@pytest.mark.parametrize("size", [1e-38, 1.0, 1e38])
def test_halves_hold_numbers_of_any_size(size: float) -> None:
    x = random(130, 140, seed=1)
    x[:, 1] *= 1e-4
    x[0, 0], x[1, 1] = 0.0, 1e-6
    x = x / x.abs().max() * size
    high, low, shrink = halve(x)
    assert low is not None
    whole = high.double() + low.double() / 2048
    tiles = shrink.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:130, :140]
    wrong = (whole * tiles - x.double()).abs()
    assert bool((wrong <= x.double().abs() * 2.0**-22).all())
    assert float(high.abs().max()) < 2.0**15


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_number_gone_wrong_is_not_hidden_by_products() -> None:
    # What GPUs write for NaN: with all bits set, rounding could carry into the sign.
    wrong = torch.tensor([0x7FFFFFFF], dtype=torch.int32, device=HERE).view(torch.float32)
    x = torch.ones(4, 3, device=HERE)
    x[1, 2] = wrong[0]
    x[3, 0] = torch.inf
    rows = multiply(halve(x), halve(torch.ones(3, 2, device=HERE)))
    assert rows.isfinite().all(1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("exact", [True, False])
def test_the_context_replaces_products_of_two_matrices_and_their_gradients(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_all(*pair: Tensor) -> bool:
        return pair[0].dim() == pair[1].dim() == 2

    if HERE == "cpu":
        monkeypatch.setattr(products, "_can_multiply", take_all)
    x, weight = random(70, 37, seed=1).requires_grad_(), random(37, 2, 20, seed=2).requires_grad_()
    slope = random(70, 40, seed=3)
    with FastProducts(exact):
        out = torch.relu(x) @ weight.flatten(1)
        found = torch.autograd.grad(out, (x, weight), slope)
        assert (x.unsqueeze(0) @ weight[:, 0]).shape == (1, 70, 20)
    assert type(out.grad_fn).__name__.startswith("_Product")
    twins = [each.detach().double().requires_grad_() for each in (x, weight)]
    true_out = torch.relu(twins[0]) @ twins[1].flatten(1)
    expected = torch.autograd.grad(true_out, twins, slope.double())
    assert_product(out.detach(), true_out.detach(), exact)
    for mine, true in zip(found, expected, strict=True):
        assert_product(mine, true, exact)


def test_sums_of_many_terms_are_cut_into_enough_parts_for_the_device() -> None:
    for terms in (30_000, 2_450_000):
        shape = products.shape_of(602, 64, terms, True, turn_left=True, turn_right=False)
        rounds = -(-shape.chunks * 5 // 132)
        assert shape.chunks * 5 / (132 * rounds) > 0.95
    sizes = ((30_000, 2048, 602), (16, 16, 200), (0, 3, 10), (3, 3, 0))
    for (rows, columns, terms), turned in product(sizes, (False, True)):
        assert products.shape_of(rows, columns, terms, True, False, turned).chunks == 1
    wide = products.shape_of(30_000, 2048, 602, True, False, False)
    for room, stages in ((232_448, 3), (166_912, 2), (101_376, 1), (0, 1)):
        assert wide.within(room, exact=True) == wide._replace(num_stages=stages)


def work_of_a_step() -> tuple[DropoutBits, Callable[[], list[Tensor]]]:
    pattern = random_pattern(LENGTHS["a heavy row"], num_columns=10, seed=1)
    values, dense = random(pattern.columns.numel(), seed=2), random(10, 8, seed=3)
    weights, matrix = random(2, seed=4), random(8, 600, seed=5)
    bits = DropoutBits(torch.tensor(5, device=HERE), torch.tensor(0, device=HERE), 0)

    def work() -> list[Tensor]:
        dropped = gpu.drop(gpu.row_sums(pattern, values, dense), bits, 0.5, True)
        crossed = gpu.cross(dropped, weights, False, False)
        backward, for_weights = gpu.cross_backward(crossed, dropped, weights, False, True, True)
        assert for_weights is not None
        with FastProducts():
            return [dropped @ matrix, backward, for_weights]

    return bits, work


@pytest.mark.skipif(HERE == "cpu", reason="graphs are captured on a GPU")
def test_all_may_be_captured_in_a_graph_and_follow_the_step() -> None:
    bits, work = work_of_a_step()
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = work()
    for step in (5, 6):
        bits.step.fill_(step)
        graph.replay()
        for actual, expected in zip(captured, work(), strict=True):
            assert torch.equal(actual, expected)


def test_gradients_of_gradients_and_batched_ones_are_those_of_plain_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ops, "_is_for_gpu", lambda tensor: True)
    bits = DropoutBits(torch.tensor(5, device=HERE), torch.tensor(0, device=HERE), 0)
    projections, weights = random(9, 6, seed=1).requires_grad_(), random(2, seed=2).requires_grad_()

    def results(kernels: Any) -> list[Tensor]:
        out = kernels.cross(kernels.drop(projections, bits, 0.5, True), weights, True, True)
        inputs = projections, weights
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(torch.cat([g.flatten() for g in first]).square().sum(), inputs)
        out = kernels.cross(kernels.drop(projections, bits, 0.5, True), weights, True, True)
        directions = random(4, *out.shape, seed=3)
        return [
            *first,
            *second,
            *torch.autograd.grad(out, inputs, directions, is_grads_batched=True),
        ]

    for actual, expected in zip(results(ops), results(reference), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
