"""Products with dropped features on a GPU, against float64; run by ``test_gpu.py``."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch
from gpu_cases import HERE, draws_of, exact_sums, random, random_pattern
from torch import Tensor

from crossgcn import CrossGCNConv
from crossgcn.graph import DenseFeatures, ModelBatchMatrix, SparseMatrix
from crossgcn.kernels import gpu, plain
from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.gpu import products as gpu_products
from crossgcn.kernels.gpu.halves import Dropping, halve, pad_rows
from crossgcn.kernels.gpu.products import DroppedProduct, Precision, ProductShape
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.model_batch import stack_models

PRECISIONS = ["fp32", "tf32", "bf16"]
# Relative to the norm.
PRODUCT_ERROR = {"fp32": 1e-6, "tf32": 5e-4, "bf16": 1e-2}


def assert_product(actual: Tensor, exact: Tensor, precision: Precision) -> None:
    assert actual.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert actual.shape == exact.shape
    wrong = float((actual.double() - exact).norm())
    assert wrong <= PRODUCT_ERROR[precision] * float(exact.norm())


SIZES = [(70, 37, 24, 0.4), (33, 64, 1, 0.0), (300, 150, 140, 0.5)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("rows", "features", "width", "p"), SIZES)
def test_products_with_a_dropped_matrix_equal_the_plain_ones(
    rows: int, features: int, width: int, p: float, precision: Precision
) -> None:
    draws = draws_of(1, step=8, site=2)
    x, weight = random(rows, features, seed=1), random(features, width, seed=2)
    gradient = random(rows, width, seed=3)
    exact = plain.drop(x.double(), None, draws, p, False)
    product = DroppedProduct(x, draws, p, precision)
    assert_product(product.project(weight), exact @ weight.double(), precision)
    for_weight, for_x = product.backward(gradient)
    assert_product(for_weight, exact.t() @ gradient.double(), precision)
    assert for_x is None


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.parametrize("activate", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize(("rows", "features", "width", "p"), SIZES)
def test_hidden_features_are_dropped_as_they_are_multiplied(
    rows: int, features: int, width: int, p: float, precision: Precision, activate: bool
) -> None:
    draws = draws_of(1, step=3, site=1)
    x, weight = random(rows, features, seed=1), random(features, width, seed=2)
    gradient = random(rows, width, seed=3)
    hidden = x.double().requires_grad_()
    exact = plain.drop(hidden, None, draws, p, activate) @ weight.double()
    (expected,) = torch.autograd.grad(exact, hidden, gradient.double())
    product = DroppedProduct(x, draws, p, precision, activate)
    assert_product(product.project(weight), exact.detach(), precision)
    _, for_x = product.backward(gradient, with_x=True)
    assert for_x is not None
    assert_product(for_x, expected, precision)
    assert torch.equal(for_x == 0.0, expected == 0.0)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "shape",
    [ProductShape(64, 32, 32, 4, 2, chunks=3), ProductShape(128, 64, 128, 4, 2, chunks=2)],
)
@pytest.mark.parametrize("exact", [True, False])
def test_products_do_not_hang_on_how_they_are_computed(
    exact: bool, shape: ProductShape, turned: tuple[bool, bool]
) -> None:
    left, right = random(150, 270, seed=1), random(270, 140, seed=2)
    first, second = (
        halve(matrix.t() if turn else matrix, exact)
        for matrix, turn in zip((left, right), turned, strict=True)
    )
    product = gpu_products.multiply(
        first, second, 2.0, turn_left=turned[0], turn_right=turned[1], shape=shape
    )
    precision: Precision = "fp32" if exact else "tf32"
    assert_product(product, 2.0 * left.double() @ right.double(), precision)


def test_sums_of_many_terms_are_cut_into_enough_parts_for_the_device() -> None:
    for terms in (30_000, 2_450_000):
        shape = gpu_products.shape_of(602, 64, terms, True, turn_left=True, turn_right=False)
        rounds = -(-shape.chunks * 5 // 132)
        assert shape.chunks * 5 / (132 * rounds) > 0.95
    sizes = ((30_000, 2048, 602), (16, 16, 200), (0, 3, 10), (3, 3, 0))
    for (rows, columns, terms), turned in product(sizes, (False, True)):
        assert gpu_products.shape_of(rows, columns, terms, True, False, turned).chunks == 1


@pytest.mark.parametrize(
    ("room", "stages"), [(232_448, 3), (166_912, 2), (101_376, 1), (0, 1)], ids=str
)
def test_processors_with_less_shared_memory_load_fewer_tiles_ahead(room: int, stages: int) -> None:
    shape = gpu_products.shape_of(30_000, 2048, 602, True, False, False)
    assert shape.within(room, exact=True) == shape._replace(num_stages=stages)
    assert shape.within(100_000, exact=False) == shape


def test_known_powers_of_two_need_not_be_found_again() -> None:
    x, draws = random(150, 140, seed=1), draws_of(1, step=1, site=0)
    shrink = halve(x, exact=True).shrink
    dropping = Dropping(draws, 0.5)
    found, known = (halve(x, True, dropping, given) for given in (None, shrink))
    assert torch.equal(known.shrink, shrink)
    for halves in (found, known):
        assert halves.low is not None
        whole = halves.high.double() + halves.low.double() / 2048
        tiles = halves.shrink.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        dropped = plain.drop(x.double(), None, draws, 0.5, False) / 2
        torch.testing.assert_close(whole * tiles[:150, :140], dropped, rtol=2**-22, atol=0)


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1.0, 1e20, 1e38])
def test_halves_hold_numbers_of_any_size(size: float) -> None:
    x = random(130, 140, seed=1)
    x[:, 1] *= 1e-4
    x[0, 0], x[1, 1] = 0.0, 1e-6
    x = x / x.abs().max() * size
    high, low, shrink = halve(x, exact=True)
    assert low is not None
    whole = high.double() + low.double() / 2048
    tiles = shrink.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:130, :140]
    wrong = (whole * tiles - x.double()).abs()
    assert bool((wrong <= x.double().abs() * 2.0**-22).all())
    assert float(high.abs().max()) < 2.0**15


def test_entries_far_below_the_largest_of_their_tile_have_a_small_absolute_error() -> None:
    x = random(40, 128, seed=1)
    x *= torch.logspace(0, -16, 128, device=HERE)
    high, low, shrink = halve(x, exact=True)
    assert low is not None
    whole = (high.double() + low.double() / 2048) * shrink.double()
    wrong, size = (whole - x.double()).abs(), x.double().abs()
    assert bool((wrong <= torch.maximum(2.0**-22 * size, 2.0**-49 * size.max())).all())


def test_tiles_of_one_matrix_may_differ_in_size() -> None:
    x, weight = random(300, 150, seed=1), random(150, 5, seed=2)
    x[128:] *= 1e-12
    product = DroppedProduct(x, None, 0.0, "fp32").project(weight)
    for rows in (slice(0, 128), slice(128, 300)):
        assert_product(product[rows], x[rows].double() @ weight.double(), "fp32")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_drop_the_same_entries_as_everywhere(precision: Precision) -> None:
    draws = draws_of(1, step=2**31 + 5, site=3)
    ones, unit = torch.ones(37, 37, device=HERE), torch.eye(37, device=HERE)
    expected = keep(draws, None, ones.numel(), 0.5).view(37, 37) * 2.0
    product = DroppedProduct(ones, draws, 0.5, precision)
    assert torch.equal(product.project(unit).float(), expected)
    assert torch.equal(product.backward(unit)[0].float(), expected.t())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_lies_between_the_rows_of_a_matrix_does_not_matter(precision: Precision) -> None:
    draws = draws_of(1, step=1, site=0)
    x, weight = random(40, 37, seed=1), random(37, 5, seed=2)
    gradient = random(40, 5, seed=3)
    padded = pad_rows(x)
    assert padded.stride(0) % 4 == 0
    torch.as_strided(padded, (40, padded.stride(0)), padded.stride())[:, 37:] = float("nan")
    product, same = (DroppedProduct(m, draws, 0.5, precision) for m in (x, padded))
    assert torch.equal(product.project(weight), same.project(weight))
    assert torch.equal(product.backward(gradient)[0], same.backward(gradient)[0])
    last = padded[:, 3:]
    for_some = DroppedProduct(last, None, 0.0, "fp32").project(weight[3:])
    assert_product(for_some, last.double() @ weight[3:].double(), "fp32")


def test_products_without_draws_drop_nothing_and_take_views() -> None:
    x, weight = random(37, 24, seed=1).t(), random(5, 37, seed=2).t()
    gradient = random(5, 24, seed=3).t()
    product = DroppedProduct(x, None, 0.5, "fp32").project(weight)
    assert_product(product, x.double() @ weight.double(), "fp32")
    for_weight, _ = DroppedProduct(x, None, 0.5, "fp32").backward(gradient)
    assert_product(for_weight, x.double().t() @ gradient.double(), "fp32")


def test_products_of_half_precision_take_half_precision() -> None:
    if HERE == "cpu":
        pytest.skip("the interpreter multiplies the bits of bfloat16 numbers")
    half = torch.bfloat16
    x, weight = random(50, 37, seed=1, dtype=half), random(37, 24, seed=2, dtype=half)
    product = DroppedProduct(x, None, 0.0, "bf16").project(weight)
    assert_product(product, x.double() @ weight.double(), "bf16")
    for_weight, _ = DroppedProduct(x, None, 0.0, "bf16").backward(product)
    assert_product(for_weight, x.double().t() @ product.double(), "bf16")


def test_no_gradient_of_features_is_left_out_in_half_precision() -> None:
    product = DroppedProduct(random(5, 3, seed=1), None, 0.0, "bf16")
    with pytest.raises(AssertionError):
        product.backward(random(5, 2, seed=2), with_x=True)


@pytest.mark.parametrize("width", [64, 82, 1024] if HERE == "cuda" else [82])
def test_three_products_are_as_exact_as_those_of_float32(width: int) -> None:
    draws = draws_of(1, step=1, site=1)
    rows = 5000 if HERE == "cuda" else 300
    x, weight = random(rows, 602, seed=1).abs(), random(602, width, seed=2)
    gradient = random(rows, width, seed=3)
    exact = plain.drop(x.double(), None, draws, 0.5, False)
    product = DroppedProduct(x, draws, 0.5, "fp32")
    assert_product(product.project(weight), exact @ weight.double(), "fp32")
    for_weight, _ = product.backward(gradient)
    assert_product(for_weight, exact.t() @ gradient.double(), "fp32")


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_number_gone_wrong_is_not_hidden_by_the_products() -> None:
    # What GPUs write for NaN: with all bits set, rounding could carry into the sign.
    wrong = torch.tensor([0x7FFFFFFF], dtype=torch.int32, device=HERE).view(torch.float32)
    x, good = torch.ones(4, 3, device=HERE), torch.ones(4, 2, device=HERE)
    x[1, 2] = wrong[0]
    product = DroppedProduct(x, None, 0.0, "fp32")
    rows = product.project(torch.ones(3, 2, device=HERE)).isnan().any(1)
    assert rows.tolist() == [False, True, False, False]
    assert product.backward(good)[0].isnan().any(1).tolist() == [False, False, True]
    gradient = good.clone()
    gradient[0, 1] = wrong[0]
    clean = DroppedProduct(torch.ones(4, 3, device=HERE), None, 0.0, "fp32")
    assert clean.backward(gradient)[0].isnan().any(0).tolist() == [False, True]
    endless = torch.tensor([[1.0, float("inf")], [1.0, 2.0]], device=HERE)
    rows = DroppedProduct(endless, None, 0.0, "fp32").project(torch.ones(2, 1, device=HERE))
    assert not rows[0].isfinite()
    assert float(rows[1]) == 3.0


@pytest.mark.parametrize(("rows", "features", "width"), [(0, 3, 2), (4, 0, 2), (4, 3, 0)])
def test_empty_products_are_zero(rows: int, features: int, width: int) -> None:
    draws = draws_of(1, step=0, site=0)
    x, weight = torch.ones(rows, features, device=HERE), torch.ones(features, width, device=HERE)
    product = DroppedProduct(x, draws, 0.5, "fp32").project(weight)
    assert torch.equal(product, torch.zeros(rows, width, device=HERE))
    for_weight, _ = DroppedProduct(x, draws, 0.5, "fp32").backward(product)
    assert torch.equal(for_weight, torch.zeros(features, width, device=HERE))


@pytest.mark.skipif(HERE == "cpu", reason="graphs are captured on a GPU")
@pytest.mark.parametrize("width", [24, 600])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_products_may_be_captured_in_a_graph_and_follow_the_step(
    precision: Precision, width: int
) -> None:
    x, weight = random(300, 37, seed=1), random(37, width, seed=2)
    gradient = random(300, width, seed=3)
    draws = draws_of(1, step=0, site=0)

    def work() -> tuple[Tensor, Tensor]:
        product = DroppedProduct(x, draws, 0.5, precision)
        return product.project(weight), product.backward(gradient)[0]

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = work()
    for step in (5, 6):
        draws.step.fill_(step)
        graph.replay()
        for actual, expected in zip(captured, work(), strict=True):
            assert torch.equal(actual, expected)


@pytest.mark.parametrize("activate", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize(("rows", "features", "width", "p"), [*SIZES, (150, 140, 60, 0.5)])
def test_dense_features_are_dropped_as_they_are_multiplied(
    rows: int, features: int, width: int, p: float, precision: Precision, activate: bool
) -> None:
    x, weight = random(1, rows, features, seed=1), random(1, features, width, seed=2)
    x[:, :, :1] *= 1e-3
    draws = Draws(torch.tensor([5], device=HERE), torch.tensor(2, device=HERE), 1)
    held, weight = DenseFeatures(x), weight.requires_grad_()
    assert held.shape == x.shape
    slope = random(1, rows, width, seed=3)
    with matmul_precision(precision):
        product = held.drop(draws, p, activate) @ weight
        (gradient,) = torch.autograd.grad((product * slope).sum(), weight)
    dropped = plain.drop(x.double(), None, draws, p, activate)
    assert_product(product.detach(), dropped @ weight.detach().double(), precision)
    assert_product(gradient, dropped.mT @ slope.double(), precision)


@pytest.mark.parametrize("first_is_one", [False, True])
@pytest.mark.parametrize(
    ("order", "channels", "release"),
    [(2, 24, False), (2, 128, True), (2, 256, False), (3, 128, True)],
)
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_crossed_products_and_their_gradients_are_those_of_autograd(
    precision: Precision, order: int, channels: int, release: bool, first_is_one: bool
) -> None:
    draws = Draws(torch.tensor([5], device=HERE), torch.tensor(2, device=HERE), 1)
    given = [
        random(1, 140, 37, seed=1),
        random(1, 37, order * channels, seed=2),
        random(1, order, seed=3),
    ]
    slope = random(1, 140, channels, seed=4)
    exact = [each.double().requires_grad_() for each in given]
    dropped = plain.drop(exact[0], None, draws, 0.5, True)
    expected = plain.cross(dropped @ exact[1], exact[2], release, first_is_one)
    gradients = torch.autograd.grad(expected, exact, slope.double(), allow_unused=True)

    x, weight, order_weights = (each.requires_grad_() for each in given)
    with matmul_precision(precision):
        features = DenseFeatures(x).drop(draws, 0.5, activate=True)
        actual = features.cross(weight, order_weights, release, first_is_one)
        found = torch.autograd.grad(actual, (x, weight, order_weights), slope)
    near = {"fp32": 1e-5, "tf32": 1e-2}[precision]
    pairs = zip((actual.detach(), *found), (expected.detach(), *gradients), strict=True)
    for mine, true in pairs:
        assert float((mine.double() - true).norm()) <= near * float(true.norm())


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2},
        {"order": 3, "order_weights": "fixed"},
        {"order": 2, "first_order": "release"},
        {"order": 2, "order_weights": "per-unit"},
        {"order": 2, "scaling": "unit"},
        {"order": 1},
        {"order": 2, "aggregate_first": True},
    ],
)
@pytest.mark.parametrize("channels", [20, 128])
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_layer_computes_the_same_of_dense_features(
    precision: Precision, channels: int, settings: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = NodeClassifier([CrossGCNConv(37, channels, **settings)], dropout=0.0)
    layer = stack_models([model]).layers[0].to(HERE)
    for name, weight in layer.named_parameters():
        if "order_weights" in name or "gates" in name:
            torch.nn.init.constant_(weight, 0.7)
    edges = torch.randint(60, (2, 300), generator=torch.Generator().manual_seed(1))
    matrix = ModelBatchMatrix([SparseMatrix.from_edges(edges, torch.ones(300), 60)]).to(HERE)
    x, slope = random(1, 60, 37, seed=1), random(1, 60, channels, seed=3)
    weights = list(layer.parameters())
    with matmul_precision("fp32"):
        expected = layer(x, (matrix,))
        gradients = torch.autograd.grad(expected, weights, slope)
    with matmul_precision(precision):
        actual = layer(DenseFeatures(x), (matrix,))
        found = torch.autograd.grad(actual, weights, slope)
    near = {"fp32": 1e-5, "tf32": 1e-2}[precision]
    pairs = zip((actual.detach(), *found), (expected.detach(), *gradients), strict=True)
    for mine, true in pairs:
        assert float((mine - true).norm()) <= near * float(true.norm())


@pytest.mark.parametrize("width", [64, 128, 300])
def test_wide_row_sums_in_tf32_round_what_they_add(width: int) -> None:
    pattern = random_pattern([3, 0, 40, 1, 200], num_columns=150, seed=1)
    values, dense = random(244, seed=2), random(150, width, seed=3)
    dense[:, 5] *= 1e-3
    with matmul_precision("tf32"):
        actual = gpu.row_sums(pattern, values, dense)
    exact = exact_sums(pattern, values, dense)
    assert actual.dtype == torch.float32
    wrong = float((actual.double() - exact).norm() / exact.norm())
    assert wrong <= (3e-4 if width >= 128 else 1e-6)
    assert width < 128 or wrong > 1e-6


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before
