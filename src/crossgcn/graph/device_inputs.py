"""A model's inputs on the CPU or on a GPU."""

from __future__ import annotations

import torch

from crossgcn.errors import BadInput
from crossgcn.graph.stacked_matrix import Inputs

__all__ = ["choose_device", "move_inputs"]


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
    """What a model takes, on a device; sparse features stay sparse.

    Args:
        inputs: From :meth:`~crossgcn.graph.PreparedGraph.view`, or stacked.
        device: Where to.
    """
    x, blocks = inputs
    return (x.to(device), tuple(block.to(device) for block in blocks))
