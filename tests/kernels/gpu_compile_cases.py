"""Kernels are compiled for GPUs, which needs none, and not launched; run by ``test_gpu.py``.

The interpreter accepts code that the compiler refuses.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import (
    GPUTarget,
)
from triton.runtime.jit import JITFunction

from crossgcn.kernels import gpu
from crossgcn.kernels.gpu.products import halve, multiply
from crossgcn.kernels.reference import DropoutBits, Pattern

A100, H200 = 80, 90
BITS = DropoutBits(torch.tensor(5), torch.tensor(2), 1)
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


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("terms", "width"), [(602, 32), (602, 300), (32, 64), (20, 300)], ids=str)
def test_products(terms: int, width: int, exact: bool, compiled: dict[str, Any]) -> None:
    sizes = (ROWS, terms), (terms, width), (ROWS, width)
    left, right, along = (halve(torch.randn(size), exact) for size in sizes)
    multiply(left, right)
    multiply(left, along, turn_left=True)
    multiply(along, right, turn_right=True)
    assert compiled.keys() >= {"_halve", "_multiply"}


@pytest.mark.parametrize(("order", "channels"), [(2, 20), (3, 128)])
def test_the_rest_of_a_step(order: int, channels: int, compiled: dict[str, Any]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        projections = torch.randn(ROWS, order * channels, dtype=dtype)
        given, slope = (projections, torch.randn(order)), projections[:, :channels]
        gpu.cross(*given, False, True)
        gpu.cross_backward(slope, *given, False, True, True)
        gpu.drop(projections, BITS, 0.5, True)
        gpu.drop_backward(projections, projections, BITS, 0.5, True)
        pattern = Pattern(torch.tensor([0, 3, 900, 901]), torch.arange(901) % ROWS)
        gpu.row_sums(pattern, torch.randn(901), projections)
        gpu.drop(projections[:, :19], BITS, 0.5, False)
        long = replace(pattern.segments, begin=pattern.segments.begin.long())
        long = replace(long, end=long.end.long())  # as from 2**31 entries on
        pattern.segments = long
        gpu.row_sums(pattern, torch.randn(901), projections)
    names = {"_cross", "_cross_backward", "_drop", "_sum_segments", "_add_slots"}
    assert compiled.keys() == names
