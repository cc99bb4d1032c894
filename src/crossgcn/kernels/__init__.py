"""The inner loops of training, in plain PyTorch, Numba for the CPU and Triton for GPUs."""

from crossgcn.kernels.ops import (
    cross,
    drop,
    has_numba,
    has_triton,
    may_use_kernels,
    project,
    row_sums,
)
from crossgcn.kernels.reference import DropoutBits, Pattern

__all__ = [
    "DropoutBits",
    "Pattern",
    "cross",
    "drop",
    "has_numba",
    "has_triton",
    "may_use_kernels",
    "project",
    "row_sums",
]
