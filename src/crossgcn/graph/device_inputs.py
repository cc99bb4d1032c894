"""A model's inputs on the CPU or on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["DeviceMatrix", "Inputs", "choose_device", "move_inputs"]

Inputs = tuple[Tensor | SparseMatrix, tuple[SparseMatrix, ...]]


class DeviceMatrix(SparseMatrix):
    """A constant sparse matrix on any device, multiplied by ``torch.sparse``'s product.

    The transpose is kept as a second matrix, so a backward pass is one product too.

    Args:
        matrix: What to hold; its values do not change afterwards.
        device: Where to.
    """

    def __init__(self, matrix: SparseMatrix, device: torch.device) -> None:
        super().__init__(matrix.row_offsets, matrix.columns, matrix.values, matrix.shape)
        offsets, columns, order = matrix._transposed_pattern()
        rows, width = matrix.shape
        self._forward = csr_tensor(
            matrix.row_offsets, matrix.columns, matrix.values, (rows, width)
        ).to(device)
        self._backward = csr_tensor(offsets, columns, matrix.values[order], (width, rows)).to(
            device
        )

    def _multiply(self, dense: Tensor) -> Tensor:
        return self._forward @ dense

    def _multiply_transposed(self, dense: Tensor) -> Tensor:
        return self._backward @ dense


def choose_device(name: str) -> torch.device:
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
    """What a model takes, on a device; on a GPU, features are dense.

    Args:
        inputs: From :meth:`~crossgcn.graph.PreparedGraph.view`.
        device: Where to.
    """
    if device.type == "cpu":
        return inputs
    x, blocks = inputs
    if isinstance(x, SparseMatrix):
        x = torch.from_numpy(x.to_scipy().toarray())
    return x.to(device), tuple(DeviceMatrix(block, device) for block in blocks)
