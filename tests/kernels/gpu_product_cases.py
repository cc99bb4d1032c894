"""Products with dropped features on a GPU, against float64; run by ``test_gpu.py``."""

import pytest
import torch
from gpu_cases import HERE, draws_of, random
from torch import Tensor

from crossgcn.graph import DenseFeatures
from crossgcn.kernels import plain
from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.gpu import products as gpu_products
from crossgcn.kernels.gpu.products import DroppedProduct, Plan, Precision, ProductShape

PRECISIONS = ["fp32", "tf32", "bf16"]
# Relative to the norm; the interpreter computes TF32 products in float32.
PRODUCT_ERROR = {"fp32": 1e-6, "tf32": 2e-3 if HERE == "cuda" else 1e-6, "bf16": 1e-2}


def assert_product(actual: Tensor, exact: Tensor, precision: Precision) -> None:
    assert actual.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert actual.shape == exact.shape
    wrong = float((actual.double() - exact).norm())
    assert wrong <= PRODUCT_ERROR[precision] * float(exact.norm())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("rows", "features", "width", "p"), [(70, 37, 24, 0.4), (33, 64, 1, 0.0)])
def test_products_with_a_dropped_matrix_equal_the_plain_ones(
    rows: int, features: int, width: int, p: float, precision: Precision
) -> None:
    draws = draws_of(1, step=8, site=2)
    x, weight = random(rows, features, seed=1), random(features, width, seed=2)
    gradient = random(rows, width, seed=3)
    exact = plain.drop(x.double(), None, draws, p, False)
    product = DroppedProduct(x, draws, p, precision).project(weight)
    assert_product(product, exact @ weight.double(), precision)
    for_weight = DroppedProduct(x, draws, p, precision).project_backward(gradient)
    assert_product(for_weight, exact.t() @ gradient.double(), precision)


@pytest.mark.parametrize("turn", [False, True], ids=["straight", "turned"])
@pytest.mark.parametrize("keep_it", [False, True], ids=["drawn anew", "kept"])
@pytest.mark.parametrize(
    ("chunks", "features", "precision"), [(3, 45, "fp32"), (3, 70, "tf32"), (1, 45, "bf16")]
)
def test_products_do_not_hang_on_how_they_are_computed(
    chunks: int, features: int, keep_it: bool, turn: bool, precision: Precision
) -> None:
    draws = draws_of(1, step=1, site=0)
    x, weight = random(71, features, seed=1), random(features, 40, seed=2)
    gradient = random(71, 40, seed=3)
    shape = ProductShape(64, 32, 32, num_warps=4, num_stages=2, chunks=chunks)
    plan = Plan(keep_it, turn, shape, shape)
    exact = plain.drop(x.double(), None, draws, 0.5, False)
    product = DroppedProduct(x, draws, 0.5, precision)
    assert_product(product.project(weight, plan), exact @ weight.double(), precision)
    for_weight = product.project_backward(gradient, plan)
    assert_product(for_weight, exact.t() @ gradient.double(), precision)


def test_sums_over_many_rows_are_cut_into_enough_parts_for_the_device() -> None:
    few, many = (gpu_products.plan_for(512, rows, 100).backward for rows in (30_000, 2_450_000))
    assert few.chunks == gpu_products.plan_for(512).backward.chunks
    assert many.chunks * 4 >= 256
    assert gpu_products.plan_for(512, 2_450_000, 5000).backward == few


@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_drop_the_same_entries_as_everywhere(precision: Precision) -> None:
    draws = draws_of(1, step=2**31 + 5, site=3)
    ones, unit = torch.ones(37, 37, device=HERE), torch.eye(37, device=HERE)
    expected = keep(draws, None, ones.numel(), 0.5).view(37, 37) * 2.0
    for keep_it in (False, True):
        plan = gpu_products.plan_for(37)._replace(keep=keep_it, turn=keep_it)
        product = DroppedProduct(ones, draws, 0.5, precision)
        assert torch.equal(product.project(unit, plan).float(), expected)
        assert torch.equal(product.project_backward(unit, plan).float(), expected.t())


@pytest.mark.parametrize("keep_it", [False, True], ids=["drawn anew", "kept"])
def test_what_lies_between_the_rows_of_a_matrix_does_not_matter(keep_it: bool) -> None:
    draws = draws_of(1, step=1, site=0)
    x, weight = random(40, 37, seed=1), random(37, 5, seed=2)
    gradient = random(40, 5, seed=3)
    padded = gpu_products.pad_rows(x)
    assert padded.stride(0) % 4 == 0
    torch.as_strided(padded, (40, padded.stride(0)), padded.stride())[:, 37:] = float("nan")
    plan = gpu_products.plan_for(5)._replace(keep=keep_it)
    product, same = (DroppedProduct(m, draws, 0.5, "fp32") for m in (x, padded))
    assert torch.equal(product.project(weight, plan), same.project(weight, plan))
    for_weight = product.project_backward(gradient, plan)
    assert torch.equal(for_weight, same.project_backward(gradient, plan))
    last = padded[:, 3:]
    for_some = DroppedProduct(last, None, 0.0, "fp32").project(weight[3:])
    assert_product(for_some, last.double() @ weight[3:].double(), "fp32")


def test_products_without_draws_drop_nothing_and_take_views() -> None:
    x, weight = random(37, 24, seed=1).t(), random(5, 37, seed=2).t()
    gradient = random(5, 24, seed=3).t()
    product = DroppedProduct(x, None, 0.5, "fp32").project(weight)
    assert_product(product, x.double() @ weight.double(), "fp32")
    for_weight = DroppedProduct(x, None, 0.5, "fp32").project_backward(gradient)
    assert_product(for_weight, x.double().t() @ gradient.double(), "fp32")


def test_products_of_half_precision_take_half_precision() -> None:
    if HERE == "cpu":
        pytest.skip("the interpreter multiplies the bits of bfloat16 numbers")
    half = torch.bfloat16
    x, weight = random(50, 37, seed=1, dtype=half), random(37, 24, seed=2, dtype=half)
    product = DroppedProduct(x, None, 0.0, "bf16").project(weight)
    assert_product(product, x.double() @ weight.double(), "bf16")
    for_weight = DroppedProduct(x, None, 0.0, "bf16").project_backward(product)
    assert_product(for_weight, x.double().t() @ product.double(), "bf16")


@pytest.mark.skipif(HERE == "cpu", reason="the interpreter has no TF32")
@pytest.mark.parametrize("width", [64, 82, 1024])
def test_three_products_are_as_exact_as_those_of_float32(width: int) -> None:
    draws = draws_of(1, step=1, site=1)
    x, weight = random(5000, 602, seed=1).abs(), random(602, width, seed=2)
    gradient = random(5000, width, seed=3)
    exact = plain.drop(x.double(), None, draws, 0.5, False)
    product = DroppedProduct(x, draws, 0.5, "fp32")
    assert_product(product.project(weight), exact @ weight.double(), "fp32")
    for_weight = product.project_backward(gradient)
    assert_product(for_weight, exact.t() @ gradient.double(), "fp32")


def test_a_number_gone_wrong_is_not_hidden_by_the_products() -> None:
    # What GPUs write for NaN: with all bits set, rounding could carry into the sign.
    wrong = torch.tensor([0x7FFFFFFF], dtype=torch.int32, device=HERE).view(torch.float32)
    x, good = torch.ones(4, 3, device=HERE), torch.ones(4, 2, device=HERE)
    x[1, 2] = wrong[0]
    for turn in (False, True):
        plan = gpu_products.plan_for(2)._replace(keep=turn, turn=turn)
        product = DroppedProduct(x, None, 0.0, "fp32")
        rows = product.project(torch.ones(3, 2, device=HERE), plan).isnan().any(1)
        assert rows.tolist() == [False, True, False, False]
        assert product.project_backward(good, plan).isnan().any(1).tolist() == [False, False, True]
        gradient = good.clone()
        gradient[0, 1] = wrong[0]
        clean = DroppedProduct(torch.ones(4, 3, device=HERE), None, 0.0, "fp32")
        assert clean.project_backward(gradient, plan).isnan().any(0).tolist() == [False, True]


@pytest.mark.parametrize(("rows", "features", "width"), [(0, 3, 2), (4, 0, 2), (4, 3, 0)])
def test_empty_products_are_zero(rows: int, features: int, width: int) -> None:
    draws = draws_of(1, step=0, site=0)
    x, weight = torch.ones(rows, features, device=HERE), torch.ones(features, width, device=HERE)
    product = DroppedProduct(x, draws, 0.5, "fp32").project(weight)
    assert torch.equal(product, torch.zeros(rows, width, device=HERE))
    for_weight = DroppedProduct(x, draws, 0.5, "fp32").project_backward(product)
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
        return product.project(weight), product.project_backward(gradient)

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


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_dense_features_are_dropped_as_they_are_multiplied(p: float) -> None:
    x, weight = random(1, 33, 37, seed=1), random(1, 37, 24, seed=2).requires_grad_()
    draws = Draws(torch.tensor([5], device=HERE), torch.tensor(2, device=HERE), 1)
    features = DenseFeatures(x)
    assert features.shape == x.shape
    product = (features.drop(draws, p) if p > 0.0 else features) @ weight
    slope = random(1, 33, 24, seed=3)
    (gradient,) = torch.autograd.grad((product * slope).sum(), weight)
    dropped = plain.drop(x.double(), None, draws, p, False)
    torch.testing.assert_close(product.double(), dropped @ weight.double(), rtol=2e-3, atol=2e-2)
    torch.testing.assert_close(gradient.double(), dropped.mT @ slope.double(), rtol=2e-3, atol=2e-2)
