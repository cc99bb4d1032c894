"""A model's inputs on the CPU or on a GPU."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.dense_features import DenseFeatures
from crossgcn.graph.sparse_matrix import SparseMatrix
from crossgcn.graph.stacked_matrix import Inputs
from crossgcn.kernels.dispatch import has_triton

__all__ = ["choose_device", "move_inputs"]

_MOST_ROWS = 128 * 65535


def choose_device(name: str | torch.device) -> torch.device:
    """A device by name; ``"auto"`` is a GPU where there is one.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
    """
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


def move_inputs(inputs: Inputs, device: torch.device) -> Inputs:
    """What a model takes, on a device.

    Sparse features stay sparse; the dense ones of one model become
    :class:`~crossgcn.graph.DenseFeatures` on a GPU.

    Args:
        inputs: From :meth:`~crossgcn.graph.PreparedGraph.view`, or stacked.
        device: Where to.
    """
    x, blocks = inputs
    assert not isinstance(x, DenseFeatures)
    moved: Tensor | SparseMatrix | DenseFeatures = x.to(device)
    if device.type == "cuda" and _is_one_models(moved) and has_triton():
        moved = DenseFeatures(moved)
    return moved, tuple(block.to(device) for block in blocks)


def _is_one_models(x: object) -> TypeGuard[Tensor]:
    """Whether these are dense features of one model, and no more rows than a launch can have."""
    return (
        isinstance(x, Tensor)
        and x.dim() == 3
        and x.size(0) == 1
        and x.size(1) < _MOST_ROWS
        and x.dtype == torch.float32
    )
