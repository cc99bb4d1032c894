"""The inner loops of training, in plain PyTorch, Numba for the CPU and Triton for GPUs."""

from crossgcn.kernels.draws import Draws
from crossgcn.kernels.ops import (
    add_rows,
    cross,
    drop,
    has_numba,
    has_triton,
    may_use_kernels,
    row_sums,
    score,
)
from crossgcn.kernels.pattern import Pattern

__all__ = [
    "Draws",
    "Pattern",
    "add_rows",
    "cross",
    "drop",
    "has_numba",
    "has_triton",
    "may_use_kernels",
    "row_sums",
    "score",
]
