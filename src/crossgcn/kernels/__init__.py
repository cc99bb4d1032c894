"""The inner loops of training, in plain PyTorch, Numba for the CPU and Triton for GPUs."""

from crossgcn.kernels.dropout_bits import DropoutBits
from crossgcn.kernels.ops import (
    add_rows,
    cross,
    drop,
    has_numba,
    has_triton,
    may_use_kernels,
    row_sums,
)
from crossgcn.kernels.pattern import Pattern

__all__ = [
    "DropoutBits",
    "Pattern",
    "add_rows",
    "cross",
    "drop",
    "has_numba",
    "has_triton",
    "may_use_kernels",
    "row_sums",
]
