"""The transform against the paper's own definition, written out slowly in float64."""

from __future__ import annotations

import copy
from itertools import product
from math import prod

import pytest
import torch
from order_lstm import order_weights_named
from torch import Tensor, nn

from crossgcn import BadInput, CrossFeatureTransform
from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix
from crossgcn.layers.order_weights import ORDER_WEIGHTS

ORDERS = (1, 2, 3, 4)
NAMES = (*ORDER_WEIGHTS, "lstm")


def to_csr(dense: Tensor) -> Tensor:
    matrix = SparseMatrix.from_scipy(dense.numpy())
    return csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, matrix.shape)


def outer_product_contraction(weight: Tensor, x: Tensor) -> Tensor:
    """Equation 5 for every output unit: sum(X^k ⊙ W^k) with W^k = w^1 ⊗ … ⊗ w^k.

    Args:
        weight: ``[k, out, in]``.
        x: One row, ``[in]``.
    """
    order, out_channels, in_channels = weight.shape
    units = []
    for unit in range(out_channels):
        total = 0.0
        for indices in product(range(in_channels), repeat=order):
            cross_feature = prod(float(x[i]) for i in indices)
            parameter = prod(float(weight[k, unit, i]) for k, i in enumerate(indices))
            total += cross_feature * parameter
        units.append(total)
    return torch.tensor(units, dtype=torch.float64)


@pytest.mark.parametrize("order", ORDERS)
def test_equals_the_outer_product_contraction_of_equation_5(order: int) -> None:
    torch.manual_seed(order)
    alphas = [0.5, -1.5, 2.0, 0.25][:order]
    transform = CrossFeatureTransform(5, 3, order, order_weights=alphas).double()
    assert transform.bias is not None
    nn.init.normal_(transform.bias)
    x = torch.randn(4, 5, dtype=torch.float64)

    expected = transform.bias.detach().expand(4, 3).clone()
    for row in range(4):
        for k in range(1, order + 1):
            weight = transform.weight.detach()[:k]
            expected[row] += alphas[k - 1] * outer_product_contraction(weight, x[row])

    torch.testing.assert_close(transform(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS[1:])
def test_a_gated_transform_starts_as_a_linear_layer_and_can_leave(order: int) -> None:
    transform = CrossFeatureTransform(7, 3, order, order_weights="gated")
    x = torch.randn(5, 7)
    torch.testing.assert_close(transform(x), x @ transform.weight[0].t())

    transform(x).square().sum().backward()
    assert isinstance(transform.order_weights, nn.Parameter)
    gradient = transform.order_weights.grad
    assert gradient is not None
    assert gradient[0] == 0
    assert (gradient[1:] != 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_the_release_adds_every_projection_to_the_first_order(order: int) -> None:
    transform = CrossFeatureTransform(
        6, 4, order, order_weights="fixed", first_order="release", bias=False
    )
    x = torch.randn(5, 6)
    projections = [x @ w.t() for w in transform.weight]
    expected = torch.stack(projections).sum(0)
    for k in range(2, order + 1):
        expected = expected + torch.stack(projections[:k]).prod(0)
    torch.testing.assert_close(transform(x), expected)


@pytest.mark.parametrize("order_weights", ["gated", "learned", [0.5, -2.0, 3.0]])
def test_a_sum_has_the_same_order_weights_in_every_unit(order_weights: str | list[float]) -> None:
    transform = CrossFeatureTransform(6, 4, 3, order_weights=order_weights, bias=False).double()
    if isinstance(transform.order_weights, nn.Parameter):
        nn.init.normal_(transform.order_weights)
    weights, x = transform.unit_order_weights(), torch.randn(5, 6, dtype=torch.float64)
    assert weights is not None and weights.shape == (3, 4)
    hidden = (x @ transform.weight.mT).cumprod(dim=0)
    torch.testing.assert_close(transform(x), (weights.unsqueeze(1) * hidden).sum(dim=0))


@pytest.mark.parametrize("order_weights", NAMES)
@pytest.mark.parametrize("first_order", ["paper", "release"])
def test_gradients_are_those_of_finite_differences(order_weights: str, first_order: str) -> None:
    torch.manual_seed(0)
    transform = CrossFeatureTransform(
        4,
        3,
        3,
        order_weights=order_weights_named(order_weights, 3),
        first_order=first_order,  # type: ignore[arg-type]
    ).double()
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*transform.named_parameters(), strict=True)

    def function(x: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        if "order_weights" in state:
            # α₁ is held by design: keep finite differences from moving it.
            alphas = state["order_weights"]
            state["order_weights"] = torch.cat([alphas[:1].detach() * 0 + 1, alphas[1:]])
        result: Tensor = torch.func.functional_call(transform, state, (x,))
        return result

    assert torch.autograd.gradcheck(function, (x, *values))


@pytest.mark.parametrize("order_weights", NAMES)
def test_sparse_input_equals_dense_input_in_values_and_gradients(order_weights: str) -> None:
    torch.manual_seed(1)
    transform = CrossFeatureTransform(
        30,
        4,
        3,
        order_weights=order_weights_named(order_weights, 4),
    ).double()
    dense = torch.randn(8, 30, dtype=torch.float64) * (torch.rand(8, 30) < 0.2)
    csr = to_csr(dense)
    results, gradients = [], []
    for x in (dense, csr, SparseMatrix.from_torch(csr)):
        transform.zero_grad()
        out = transform(x)
        out.square().sum().backward()
        assert transform.weight.grad is not None
        results.append(out.detach())
        gradients.append(transform.weight.grad.clone())
    for out, gradient in zip(results[1:], gradients[1:], strict=True):
        torch.testing.assert_close(out, results[0])
        torch.testing.assert_close(gradient, gradients[0])


@pytest.mark.parametrize("order_weights", ["gated", "learned"])
def test_the_first_order_stays_at_one_under_anyones_weight_decay(order_weights: str) -> None:
    """The usual recipe decays every parameter; the linear term must not fade with it."""
    transform = CrossFeatureTransform(
        6,
        4,
        2,
        order_weights=order_weights,
    )
    optimizer = torch.optim.Adam(transform.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(50):
        optimizer.zero_grad()
        transform(torch.randn(5, 6)).sum().backward()
        optimizer.step()
    weights = transform.unit_order_weights()
    assert weights is not None
    assert (weights[0] == 1.0).all()
    x = torch.randn(5, 6)
    first, second = (x @ w.t() for w in transform.weight)
    assert transform.bias is not None
    expected = first + weights[1] * first * second + transform.bias
    torch.testing.assert_close(transform(x), expected)


@pytest.mark.parametrize("order_weights", NAMES)
def test_leading_dimensions_are_kept_as_by_a_linear_layer(order_weights: str) -> None:
    transform = CrossFeatureTransform(
        6,
        4,
        3,
        order_weights=order_weights_named(order_weights, 4),
    )
    x = torch.randn(2, 3, 5, 6)
    out = transform(x)
    assert out.shape == (2, 3, 5, 4)
    torch.testing.assert_close(out[1, 2], transform(x[1, 2]))


def test_a_lazy_transform_is_copied_before_it_knows_its_width() -> None:
    lazy = CrossFeatureTransform(-1, 4, 2)
    duplicate = copy.deepcopy(lazy)
    for transform in (lazy, duplicate):
        transform(torch.randn(5, 9))
        assert transform.weight.shape == (2, 4, 9)
        assert transform.in_channels == 9
    assert not torch.equal(lazy.weight, duplicate.weight)


def test_reset_parameters_puts_gates_back_to_zero() -> None:
    transform = CrossFeatureTransform(6, 4, 3)
    before = transform.weight.detach().clone()
    assert transform.order_weights is not None
    with torch.no_grad():
        transform.order_weights.fill_(5.0)
    transform.reset_parameters()
    assert transform.order_weights.tolist() == [1.0, 0.0, 0.0]
    assert not torch.equal(before, transform.weight)


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
def test_an_impossible_order_is_refused_with_the_value(order: object) -> None:
    with pytest.raises(BadInput, match=rf"at least 1 .*got {order!r}"):
        CrossFeatureTransform(4, 3, order)  # type: ignore[arg-type]


def test_wrong_options_are_refused_with_what_would_work() -> None:
    with pytest.raises(BadInput, match=r"did you mean 'gated'"):
        CrossFeatureTransform(4, 3, order_weights="gate")
    with pytest.raises(BadInput, match=r"2 finite numbers, one per order; got \[1.0, 2.0, 3.0\]"):
        CrossFeatureTransform(4, 3, order_weights=[1.0, 2.0, 3.0])
    with pytest.raises(BadInput, match=r"finite number.*nan"):
        CrossFeatureTransform(4, 3, order_weights=[1.0, float("nan")])
    for nonsense in (None, 3, ["a", "b"]):
        with pytest.raises(BadInput, match=r"order_weights of a layer of order 2"):
            CrossFeatureTransform(4, 3, order_weights=nonsense)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"did you mean 'release'"):
        CrossFeatureTransform(4, 3, first_order="releases")  # type: ignore[arg-type]
