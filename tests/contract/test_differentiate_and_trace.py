"""Every layer through every way of differentiating and tracing, against plain calls of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from contract_cases import CASES, EDGES, NODES, ORDERS, OUTPUTS, WEIGHTS, features, make, shake
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from crossgcn import CrossGCNConv, CrossHops

every_case = pytest.mark.parametrize("case", CASES)
X, OTHER = features(), features(seed=1)
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


def call(conv: CrossGCNConv, x: Tensor) -> Tensor:
    out: Tensor = conv(x, EDGES, WEIGHTS.to(x.dtype))
    return out


def rows_of_jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    out = function(x)
    rows = [torch.autograd.grad(each, x, retain_graph=True)[0] for each in out.flatten()]
    return torch.stack(rows).view(*out.shape, *x.shape)


@cache
def jacobian_of(case: str) -> Tensor:
    conv = make(case)
    return rows_of_jacobian(lambda x: call(conv, x), X)


def assert_close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@every_case
def test_vmap_and_jacrev(case: str) -> None:
    conv = make(case)

    outputs = vmap(lambda x: call(conv, x))(torch.stack([X, OTHER]))
    assert_close(outputs, torch.stack([call(conv, X), call(conv, OTHER)]))
    assert_close(jacrev(lambda x: call(conv, x))(X), jacobian_of(case))


@every_case
def test_batched_gradients(case: str) -> None:
    conv = make(case)
    wanted = jacobian_of(case)
    found: Any = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
        lambda x: call(conv, x), X, vectorize=True
    )
    assert_close(found, wanted)
    x = X.clone().requires_grad_()
    eye = torch.eye(NODES * OUTPUTS).view(-1, NODES, OUTPUTS)
    (batched,) = torch.autograd.grad(call(conv, x), x, eye, is_grads_batched=True)
    assert_close(batched.view_as(wanted), wanted)


@every_case
def test_forward_mode(case: str) -> None:
    conv = make(case)

    wanted = (jacobian_of(case) * OTHER).sum((-1, -2))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, OTHER)  # type: ignore[no-untyped-call]
        tangent = forward_ad.unpack_dual(call(conv, dual)).tangent  # type: ignore[no-untyped-call]
    assert_close(tangent, wanted)
    assert_close(jvp(lambda x: call(conv, x), (X,), (OTHER,))[1], wanted)


@every_case
def test_double_differentiation(case: str) -> None:
    conv = make(case).double()
    x = X.double()

    def slope(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_() if not x.requires_grad else x
        return torch.autograd.grad(call(conv, x).square().sum(), x, create_graph=True)[0]

    start, direction = x.clone().requires_grad_(), OTHER.double()
    (found,) = torch.autograd.grad((slope(start) * direction).sum(), start)
    step = 1e-6 * direction
    wanted = (slope(x + step) - slope(x - step)).detach() / 2e-6
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", ["coo edges", "sparse csr"])
@every_case
def test_edge_weights_get_gradients(case: str, layout: str) -> None:
    conv = make(case).double()
    order = torch.argsort(EDGES[1] * NODES + EDGES[0])
    source, target = EDGES[:, order]
    offsets = torch.zeros(NODES + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(target, minlength=NODES).cumsum(0)
    mix = features(NODES, OUTPUTS, seed=3).double()

    def objective(weight: Tensor) -> Tensor:
        shape = (NODES, NODES)
        if layout == "coo edges":
            out = conv(X.double(), EDGES[:, order], weight)
        else:
            out = conv(X.double(), torch.sparse_csr_tensor(offsets, source, weight, shape))
        total: Tensor = (out * mix).sum()
        return total

    weight = WEIGHTS.double()[order]
    start = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(start), start)
    direction = torch.linspace(-1, 1, weight.numel(), dtype=torch.float64)
    with torch.no_grad():
        step = 1e-6 * direction
        wanted = (objective(weight + step) - objective(weight - step)) / 2e-6
    torch.testing.assert_close((gradient * direction).sum(), wanted, rtol=1e-3, atol=1e-5)


TRACED = ["order 1", "order 2", "order 3", "aggr mean"]


@pytest.mark.parametrize("case", TRACED)
def test_make_fx(case: str) -> None:
    conv = make(case)

    def slope(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(call(conv, x).square().sum(), x)[0]

    assert_close(make_fx(lambda x: call(conv, x))(X)(OTHER), call(conv, OTHER))
    if case == "order 3":
        assert_close(make_fx(slope)(X)(OTHER), slope(OTHER))
        assert_close(
            make_fx(lambda x: call(conv, x), pre_dispatch=True)(X)(OTHER), call(conv, OTHER)
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("case", TRACED)
def test_jit_trace(case: str) -> None:
    conv = make(case)
    traced = torch.jit.trace(  # type: ignore[no-untyped-call]
        conv, (X, EDGES, WEIGHTS), check_trace=False
    )
    restored = io.BytesIO()
    torch.jit.save(traced, restored)
    restored.seek(0)
    loaded: Any = torch.jit.load(restored)  # type: ignore[no-untyped-call]
    assert_close(loaded(OTHER, EDGES, WEIGHTS), call(conv, OTHER))


@pytest.mark.parametrize("case", ["order 2", "order 3", "perceptron"])
def test_torch_export(case: str) -> None:
    conv = make(case)
    program: Any = torch.export.export(conv, (X, EDGES, WEIGHTS)).module()
    assert_close(program(OTHER, EDGES, WEIGHTS), call(conv, OTHER))


def run_onnx(model: bytes) -> Tensor:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = {"x": OTHER, "edge_index": EDGES, "edge_weight": WEIGHTS}
    inputs = {each.name: given[each.name].numpy() for each in session.get_inputs()}
    return torch.from_numpy(session.run(None, inputs)[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TRACED)
def test_onnx_by_dynamo(case: str) -> None:
    pytest.importorskip("onnxscript")
    conv = make(case)
    names = ["x", "edge_index", "edge_weight"]
    program: Any = torch.onnx.export(
        conv, (X, EDGES, WEIGHTS), dynamo=True, input_names=names, verbose=False
    )
    assert_close(run_onnx(program.model_proto.SerializeToString()), call(conv, OTHER))


@pytest.mark.parametrize("order", ORDERS)
def test_cross_hops_on_rows_of_columns(order: int) -> None:
    torch.manual_seed(0)
    model: CrossHops = shake(CrossHops(3, 4, 1, 2, order=order, bags=2))
    rows, other = (features(6, model.plan.num_columns, seed=seed) for seed in (0, 1))
    wanted = model(other)
    assert_close(make_fx(model)(rows)(other), wanted)
    if order == 3:
        exported: Any = torch.export.export(model, (rows,)).module()
        assert_close(exported(other), wanted)
    assert_close(vmap(lambda row: model(row.unsqueeze(0))[0])(other), wanted)
    jacobian = rows_of_jacobian(model, rows)
    assert_close(jacrev(model)(rows), jacobian)
    assert_close(jvp(model, (rows,), (other,))[1], (jacobian * other).sum((-1, -2)))
