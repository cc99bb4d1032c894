"""Kernels are compiled for GPUs, which needs none, and not launched; run by ``test_gpu.py``.

The interpreter accepts code that the compiler refuses.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
from triton.backends.compiler import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    GPUTarget,
)
from triton.runtime.jit import JITFunction  # type: ignore[import-not-found, import-untyped, unused-ignore]

from crossgcn.kernels import gpu
from crossgcn.kernels.draws import Draws
from crossgcn.kernels.gpu.halves import halve, pad_rows
from crossgcn.kernels.gpu.products import DroppedProduct, Precision
from crossgcn.kernels.pattern import Pattern

A100, H200 = 80, 90
DRAWS = Draws(torch.tensor([5]), torch.tensor(2), 1)
ROWS = 200


class Driver:
    """What the compiler asks of the driver of a GPU."""

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.architecture, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.fixture(params=[A100, H200], autouse=True)
def compiled(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The kernels of a test, by name; all must be for the GPU that was asked for."""
    kernels: dict[str, Any] = {}
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        kernels[self.fn.__name__] = kernel
        return kernel

    monkeypatch.setattr(JITFunction, "run", compile_only)
    # Caches of kernels are kept per device.
    monkeypatch.setattr(Driver, "get_current_device", lambda self: request.param)
    triton.runtime.driver.set_active(Driver(request.param))
    yield kernels
    for kernel in kernels.values():
        assert f".target sm_{request.param}" in kernel.asm["ptx"]


@pytest.fixture(params=["ieee", "tf32"])
def precision(request: pytest.FixtureRequest) -> Iterator[Precision]:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = request.param
    yield "tf32" if request.param == "tf32" else "fp32"
    matmul.fp32_precision = before


@pytest.mark.parametrize("width", [32, 64, 300])
@pytest.mark.parametrize("activate", [False, True])
def test_products(
    precision: Precision, activate: bool, width: int, compiled: dict[str, Any]
) -> None:
    x = pad_rows(torch.randn(ROWS, 602))
    shrink = None if activate else halve(x, exact=False).shrink
    product = DroppedProduct(x, DRAWS, 0.5, precision, activate, shrink)
    product.project(torch.randn(602, width))
    product.backward(torch.randn(ROWS, width), with_x=True)
    assert compiled.keys() >= {"_halve", "_multiply"}


@pytest.mark.parametrize(("order", "channels"), [(2, 20), (2, 128), (3, 128)])
def test_crosses(precision: Precision, order: int, channels: int, compiled: dict[str, Any]) -> None:
    projections, slope = torch.randn(1, ROWS, order * channels), torch.randn(1, ROWS, channels)
    given, how = (projections, torch.randn(1, order)), (False, True, True)
    gpu.cross(*given, False)
    gpu.cross_to_sum(*given, False, True)
    gpu.cross_backward(slope, *given, *how)
    gpu.cross_backward_to_multiply(slope, *given, *how, exact=precision == "fp32")
    assert compiled.keys() == {"_cross", "_cross_backward"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [16, 128, 300])
def test_sums_over_rows(
    precision: Precision, width: int, dtype: torch.dtype, compiled: dict[str, Any]
) -> None:
    lengths = torch.tensor([0, 3, 900, 901])
    pattern = Pattern(lengths, torch.arange(901) % ROWS)
    gpu.row_sums(pattern, torch.randn(901), torch.randn(ROWS, width, dtype=dtype))
    assert compiled.keys() >= {"_sum_segments", "_add_slots"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rest_of_a_step(dtype: torch.dtype, compiled: dict[str, Any]) -> None:
    x = torch.randn(ROWS, 7, dtype=dtype)
    gpu.drop(x, None, DRAWS, 0.5, True)
    gpu.drop_backward(x, x, None, DRAWS, 0.5, True)
    scores, labels = x.unsqueeze(0), torch.zeros(1, ROWS, dtype=torch.long)
    gpu.score(scores, labels, torch.tensor([ROWS]), 5)
    weights = [torch.randn(3000), torch.randn(7)]
    steps = [torch.ones(()), torch.ones(())]
    gpu.adam(weights, weights, weights, weights, steps, 0.1, (0.1, 0.0))
    assert compiled.keys() == {"_drop", "_score", "_add_scores", "_adam"}
