"""The kernels as operations: in Triton on a GPU, in plain PyTorch elsewhere.

Dropout of inputs without a gradient has a compiled loop on the CPU.

``torch.library.custom_op`` could replace the two autograd functions, but adds 12 µs of CPU time to
a forward call of 15 µs, and 75 µs to a forward and backward call of 137 µs (a tiny elementwise
product in torch 2.13).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from crossgcn.kernels import reference
from crossgcn.kernels.reference import DropoutBits, Pattern

PLAIN = "CROSSGCN_PLAIN_KERNELS"
"""Set this environment variable to 1 to use plain PyTorch everywhere."""

_LARGE_PRODUCT = 1 << 25
"""Multiplications from which a product of matrices is large."""


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Multiply a sparse and a dense matrix; see :func:`crossgcn.kernels.reference.row_sums`.

    The function has no gradient; :class:`~crossgcn.graph.SparseMatrix` adds one.
    """
    kernels: Any = gpu_kernels() if _is_for_gpu(dense) else reference
    result: Tensor = kernels.row_sums(pattern, values, dense)
    return result


def drop(x: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
    """Apply dropout, after a ReLU if asked for; see :func:`crossgcn.kernels.reference.drop`."""
    is_plain_input = x.device.type == "cpu" and x.dtype == torch.float32 and not x.requires_grad
    if is_plain_input and not activate and may_use_kernels(x) and has_numba():
        return _drop_compiled(x, bits, p)
    if not _is_for_gpu(x) or not may_use_kernels(x):
        return reference.drop(x, bits, p, activate)
    dropped: Tensor = _Drop.apply(x, bits, p, activate)  # type: ignore[no-untyped-call]
    return dropped


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Return ``x @ weight.t()``, faster if both are large and ``x`` needs no gradient."""
    is_plain = not x.requires_grad and may_use_kernels(x, weight)
    if not is_plain or not is_large_product(x, weight):
        return torch.nn.functional.linear(x, weight)
    projected: Tensor = _Project.apply(x, weight)  # type: ignore[no-untyped-call]
    return projected


def is_large_product(left: Tensor, right: Tensor) -> bool:
    """Return whether :func:`multiply_large` can multiply two matrices, and is worth its start."""
    is_plain = left.device.type == "cpu" and left.dtype == right.dtype == torch.float32
    is_large = left.size(0) * right.numel() >= _LARGE_PRODUCT
    return is_plain and is_large and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def multiply_large(left: Tensor, right: Tensor) -> Tensor:
    """Return ``left @ right.t()`` by oneDNN.

    PyTorch multiplies by MKL, which takes twice as long on processors that are not Intel's.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
    return product


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return multiply_large(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, multiply_large(gradient.t().contiguous(), x.t())


def _drop_compiled(x: Tensor, bits: DropoutBits, p: float) -> Tensor:
    loops: Any = import_module("crossgcn.kernels.cpu_loops")
    out, entries = torch.empty(x.shape), x.contiguous().view(-1).numpy()
    key = int(bits.seed), int(bits.step)
    loops.drop(entries, entries, out.view(-1).numpy(), key, p, site=bits.site)
    return out


def cross(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor:
    """Multiply up projections and sum the orders; see :func:`crossgcn.kernels.reference.cross`.

    With ``first_is_one``, the first order has the weight 1 instead of ``order_weights[0]``.
    """
    if not _is_for_gpu(projections) or not may_use_kernels(projections, order_weights):
        return reference.cross(projections, order_weights, release, first_is_one)
    crossed: Tensor = _Cross.apply(  # type: ignore[no-untyped-call]
        projections, order_weights, release, first_is_one
    )
    return crossed


class _Drop(torch.autograd.Function):
    """Dropout on a GPU; backward recomputes the random bits instead of storing a mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.options = bits, p, activate
        result: Tensor = gpu_kernels().drop(x, bits, p, activate)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if _needs_plain(gradient, x):
            found = _differentiate(reference.drop, (x,), ctx.options, gradient)
        else:
            found = [gpu_kernels().drop_backward(gradient, x, *ctx.options)]
        return *found, None, None, None


class _Cross(torch.autograd.Function):
    """Crosses on a GPU; backward recomputes the products instead of storing them."""

    @staticmethod
    def forward(
        ctx: Any, projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool
    ) -> Tensor:
        ctx.save_for_backward(projections, order_weights)
        ctx.options = release, first_is_one
        result: Tensor = gpu_kernels().cross(projections, order_weights, release, first_is_one)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved, with_order_weights = ctx.saved_tensors, ctx.needs_input_grad[1]
        if _needs_plain(gradient, *saved):
            found = _differentiate(reference.cross, saved, ctx.options, gradient)
        else:
            found = gpu_kernels().cross_backward(gradient, *saved, *ctx.options, with_order_weights)
        return *found, None, None


def _needs_plain(*tensors: Tensor) -> bool:
    """Return whether backward needs plain PyTorch: for double backward, or while tracing."""
    return torch.is_grad_enabled() or not may_use_kernels(*tensors)


def _differentiate(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], options: Sequence[Any], grad: Tensor
) -> list[Tensor | None]:
    """Compute the gradients in plain PyTorch, so that they can be differentiated again."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        out = function(*inputs, *options)
    wanted = [each for each in inputs if each.requires_grad]
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=create_graph))
    return [next(found) if each.requires_grad else None for each in inputs]


@cache
def has_numba() -> bool:
    """Return whether training steps can be compiled for the CPU on this machine."""
    return _can_import("numba", "crossgcn.kernels.cpu_loops")


@cache
def has_triton() -> bool:
    """Return whether kernels can be compiled for GPUs on this machine."""
    return _can_import("triton", "crossgcn.kernels.gpu")


def may_use_kernels(*tensors: Tensor) -> bool:
    """Return whether these tensors are plain data that a kernel can read.

    Tracing (``torch.compile``, ``torch.export``, ``make_fx``, ``torch.jit.trace``, ONNX), dispatch
    modes, ``torch.func``, batched gradients and forward-mode differentiation need to see PyTorch's
    own operations instead.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._ops._len_torch_dispatch_stack_pre_dispatch() > 0  # type: ignore[no-untyped-call]
        or forward_ad._current_level >= 0
        or any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in tensors)
        or any(torch._C._functorch.is_legacy_batchedtensor(tensor) for tensor in tensors)
    )


def gpu_kernels() -> Any:
    """Import the kernels for GPUs, which need Triton."""
    return import_module("crossgcn.kernels.gpu")


def _is_for_gpu(tensor: Tensor) -> bool:
    return tensor.is_cuda and tensor.dtype in (torch.float32, torch.bfloat16) and has_triton()


def _can_import(compiler: str, module: str) -> bool:
    if os.environ.get(PLAIN) == "1" or find_spec(compiler) is None:
        return False
    try:
        import_module(module)
    except ImportError as error:
        warnings.warn(f"{compiler} cannot be used ({error}): training is slower", stacklevel=2)
        return False
    return True
