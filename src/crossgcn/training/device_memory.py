"""Whether graph and models fit into a device, and what to do if they do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.stack import Stack

__all__ = ["check_memory", "describe_sizes", "enough_memory", "estimate_bytes", "stack_limit"]

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


def estimate_bytes(model: Stack, graph: PreparedGraph) -> int:
    """Memory that training one model on the whole graph takes at most, roughly.

    Args:
        model: Its widths and orders count.
        graph: Its nodes, edges and features count.
    """
    nodes = graph.x.size(0)
    weights = sum(parameter.numel() for parameter in model.parameters())
    between = 0
    for module in model.modules():
        if isinstance(module, CrossFeatureTransform):
            # Projections and outputs with their gradients, and the input with its own.
            between += 2 * (module.order + 2) * module.out_channels + 2 * module.in_channels
    entries = _VIEWS * graph.adjacency.nonzeros * model.num_hops
    if isinstance(graph.x, SparseMatrix):
        between -= 2 * graph.x.size(1)
        entries += _VIEWS * graph.x.nonzeros
    else:
        between += (_VIEWS - 1) * graph.x.size(1)
    return 4 * (_COPIES_OF_WEIGHTS * weights + nodes * between + 8 * entries)


def stack_limit(model: Stack, graph: PreparedGraph, device: torch.device) -> int:
    """How many such models a GPU has room for at once, at least 1."""
    return max(1, int(_USABLE * _free_bytes(device) / max(1, estimate_bytes(model, graph))))


def check_memory(model: Stack, graph: PreparedGraph, device: torch.device) -> None:
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
def enough_memory(what: str, device: torch.device) -> Iterator[None]:
    """Turn the many ways in which torch says that memory is short into one.

    Args:
        what: The work and its sizes.
        device: Where it is done.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        text = str(error).lower()
        if not isinstance(error, MemoryError) and not any(sign in text for sign in _SIGNS):
            raise
        raise WorkFailed(f"{what} does not fit into the memory of {device}; {_REMEDY}") from None


_REMEDY = (
    "lower --hidden-channels, --num-layers or --order, or use a smaller graph or another device "
    "(--device cpu)"
)


def describe_sizes(model: Stack, graph: PreparedGraph) -> str:
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
