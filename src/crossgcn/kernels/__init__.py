"""The inner loops, without autograd: plain PyTorch, compiled for the CPU, Triton for GPUs."""

from crossgcn.kernels.dispatch import cross, cross_backward, drop, drop_backward, row_sums, score
from crossgcn.kernels.draws import Draws
from crossgcn.kernels.pattern import Pattern

__all__ = [
    "Draws",
    "Pattern",
    "cross",
    "cross_backward",
    "drop",
    "drop_backward",
    "row_sums",
    "score",
]
