"""Whether graph and models fit into a device, and what to do if they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

import torch
from torch import nn

from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.layers import CrossFeatureTransform, NodeAggregation
from crossgcn.layers.other_crossings.feature_crossing import FeatureCrossing
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import Precision

_SIGNS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "alloc_failed",
    "insufficient resources",
    "size calculation overflowed",
)
_COPIES_OF_WEIGHTS = 8  # the weights, their gradient, Adam's two means, start, best and spare
_VIEWS = 3  # of the graph: for training, validation and test nodes
_USABLE = 0.8


def estimate_bytes(model: NodeClassifier, graph: PreparedGraph) -> int:
    """Memory that training one model on the whole graph takes at most, roughly.

    Args:
        model: Its widths and orders count.
        graph: Its nodes, edges and features count.
    """
    weights = sum(parameter.numel() for parameter in model.parameters())
    numbers = sum(
        _kept_by_layer(layer, graph, position == 0) for position, layer in enumerate(model.layers)
    )
    entries = graph.adjacency.nonzeros * model.num_hops
    inputs = 0
    if isinstance(graph.x, SparseMatrix):
        entries += graph.x.nonzeros
    else:
        inputs = (_VIEWS - 1) * graph.x.size(0) * graph.x.size(1)
    # A recipe that makes several draws agree keeps what all of them went through.
    return 4 * (
        _COPIES_OF_WEIGHTS * weights + model.draws * numbers + inputs + 8 * _VIEWS * entries
    )


def _kept_by_layer(layer: nn.Module, graph: PreparedGraph, is_first: bool) -> int:
    """Numbers between a layer's input and output, each with its gradient."""
    nodes, edges, kept = graph.x.size(0), graph.adjacency.nonzeros, 0
    reads_features = is_first
    for module in layer.modules():
        if isinstance(module, NodeAggregation):
            steps = 1 if module.linear else len(module.propagations)
            vectors = nodes * (steps + 1) + edges * module.vectors_per_edge
            kept += module.channels * vectors
        elif isinstance(module, CrossFeatureTransform | FeatureCrossing):
            per_row, per_feature = module.kept_numbers
            kept += nodes * (per_row + 2 * module.out_channels)
            if not reads_features:
                kept += nodes * module.in_channels * per_feature
            elif isinstance(graph.x, SparseMatrix):
                kept += graph.x.nonzeros * (per_feature - 1)
            else:
                kept += nodes * graph.x.size(1) * per_feature
            reads_features = False
    return 2 * kept


def stack_limit(model: NodeClassifier, graph: PreparedGraph, device: torch.device) -> int:
    """How many such models a GPU has room for at once, at least 1."""
    return max(1, int(_USABLE * _free_bytes(device) / max(1, estimate_bytes(model, graph))))


def check_memory(model: NodeClassifier, graph: PreparedGraph, device: torch.device) -> None:
    """Refuse, before anything is moved, what cannot fit.

    Raises:
        WorkFailed: With the sizes, and the options that make them smaller.
    """
    if device.type != "cuda":
        return
    free, total = _free_bytes(device), torch.cuda.mem_get_info(device)[1]
    needed = estimate_bytes(model, graph)
    if needed > free:
        raise WorkFailed(
            f"{describe_sizes(model, graph)} needs about {_gib(needed)} of memory, and {device} "
            f"has {_gib(free)} free of {_gib(total)}; {_REMEDY}"
        )


@contextmanager
def enough_memory(what: str, device: torch.device, remedy: str | None = None) -> Iterator[None]:
    """Turn the many ways in which torch says that memory is short into one.

    Args:
        what: The work and its sizes.
        device: Where it is done.
        remedy: What to do about it; what helps when the whole graph is trained on, if left out.
    """
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


def describe_sizes(model: NodeClassifier, graph: PreparedGraph) -> str:
    """Model and graph in numbers, for a message."""
    weights = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"{type(model).__name__} with {len(model.layers)} layers and {weights:,} weights on "
        f"{graph.x.size(0):,} nodes, {graph.adjacency.nonzeros:,} directed edges (self-loops "
        f"included) and {graph.x.size(1):,} features"
    )


def _free_bytes(device: torch.device) -> int:
    """What is free, with what PyTorch holds for later use."""
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + kept


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"


WARM_UPS = 3
"""How often a function is called before it is recorded."""


def capture(
    function: Callable[[], None], restart: Callable[[], None], device: torch.device
) -> Callable[[], None]:
    """Record what a function launches on the GPU, to be launched again as a whole.

    Args:
        function: Works in place on tensors that stay where they are, waits for nothing
            and does the same at every call.
        restart: Undoes the calls that warm the function up.
        device: The GPU.

    Returns:
        What does the function's work at every call.
    """
    with torch.cuda.device(device):
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        restart()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
    replay: Callable[[], None] = graph.replay
    return replay


PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that the device does not have.

    Args:
        precision: ``fp32``; on a GPU also ``tf32``, whose products round their factors to
            10 bits after the point, or ``bf16``, which also holds what lies between the
            layers in 16 bits. Weights, sums and losses are 32 bits in each.
        device: Where the work is done.
    """
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if precision != "fp32" and device.type != "cuda":
        raise BadInput(
            f"precision {precision!r} needs a CUDA GPU, and this runs on the {device.type}: "
            "use --precision fp32, or --device cuda where there is a GPU"
        )


@contextmanager
def multiplying_in(precision: str, device: torch.device) -> Iterator[None]:
    """Let matrix products have that precision, as before afterwards."""
    if device.type != "cuda":
        yield
        return
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        with torch.autocast(
            "cuda", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False
        ):
            yield
    finally:
        products.fp32_precision = before
