"""The device that trains: its choice, memory, precision and CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.kernels import has_numba, has_triton
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.layers.order_weights import PerUnit


def choose_device(name: str | torch.device) -> torch.device:
    """Return a device by name; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise BadInput(f"device is {name!r}; give 'auto', 'cpu' or 'cuda'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BadInput(
            f"device is {name!r}, but torch sees {torch.cuda.device_count()} CUDA devices; "
            "give 'cpu', or install a CUDA build of torch where there is a GPU"
        )
    return device


_SIGNS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "alloc_failed",
    "insufficient resources",
    "size calculation overflowed",
)


@contextmanager
def enough_memory(what: str, device: torch.device, remedy: str | None = None) -> Iterator[None]:
    """Turn torch's various out-of-memory errors into one; ``what`` names the work and its sizes."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        text = str(error).lower()
        if not isinstance(error, MemoryError) and not any(sign in text for sign in _SIGNS):
            raise
        raise WorkFailed(
            f"{what} does not fit into the memory of {device}; {remedy or _REMEDY}"
        ) from None


_REMEDY = (
    "lower --hidden-channels, --num-layers or --order, or use a smaller graph or another device "
    "(--device cpu)"
)


def runs_plain_code(
    model: nn.Module, kinds: Sequence[type[nn.Module]], device: torch.device
) -> bool:
    """Return whether the CPU's compiled kernels may replace the Python code of a model.

    Its type must be one of ``kinds``, not a subclass, without hooks and frozen weights.
    """
    return (
        device.type == "cpu"
        and has_numba()
        and type(model) in kinds
        and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
    )


def can_be_recorded(model: nn.Module, device: torch.device) -> bool:
    """Return whether training steps of a model can be recorded as a CUDA graph.

    Sums of neighbours and of orders can be; that is unknown of other ways to combine them.
    """
    return device.type == "cuda" and has_triton() and all(map(_only_sums, model.modules()))


def _only_sums(module: nn.Module) -> bool:
    if isinstance(module, CrossGCNConv):
        return module.sums_neighbours
    if isinstance(module, CrossFeatureTransform):
        return isinstance(module.aggregator, PerUnit | None)
    return True


WARM_UPS = 3
"""Number of warm-up calls before a function is recorded."""


def capture(
    function: Callable[[], None], written: Sequence[Tensor], device: torch.device
) -> Callable[[], None]:
    """Record a function as a CUDA graph, and return a function that replays it.

    Args:
        function: Works in place on tensors that keep their addresses, does not synchronise, and
            launches the same kernels at every call.
        written: The tensors that a call changes. They are restored after the warm-up calls.
    """
    before = [tensor.clone() for tensor in written]
    with torch.cuda.device(device):
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        for tensor, value in zip(written, before, strict=True):
            tensor.copy_(value)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
    replay: Callable[[], None] = graph.replay
    return replay


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that the device does not support.

    On a GPU, ``tf32`` rounds the factors of matrix products to 10 bits of mantissa; ``bf16`` also
    stores activations in 16 bits. Weights, sums and losses always have 32 bits.
    """
    if precision != "fp32" and device.type != "cuda":
        raise BadInput(
            f"precision {precision!r} needs a CUDA GPU, and this runs on the {device.type}: "
            "use precision fp32, or --device cuda where there is a GPU"
        )


@contextmanager
def multiplying_in(precision: str, device: torch.device) -> Iterator[None]:
    """Set the precision of matrix products within a block, and restore it afterwards."""
    if device.type != "cuda":
        yield
        return
    fast_products: AbstractContextManager[object] = nullcontext()
    if precision != "bf16" and has_triton():
        from crossgcn.kernels.gpu.products import FastProducts

        # Computed on tensor cores, with the accuracy of float32 or of TF32.
        fast_products = FastProducts(exact=precision == "fp32")
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    in_bf16 = precision == "bf16"
    try:
        with (
            torch.autocast("cuda", torch.bfloat16, enabled=in_bf16, cache_enabled=False),
            fast_products,
        ):
            yield
    finally:
        products.fp32_precision = before
