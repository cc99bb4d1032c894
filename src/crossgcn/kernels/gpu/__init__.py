"""The kernels of :mod:`crossgcn.kernels.plain` for GPUs, in Triton.

They take float32 and bfloat16 and sum in float32. None synchronises with the host or adds
atomically, so CUDA graphs can record them and results are reproducible to the bit.
"""

from crossgcn.kernels.gpu.cross import (
    cross,
    cross_backward,
    cross_backward_to_multiply,
    cross_to_sum,
)
from crossgcn.kernels.gpu.elementwise import adam, drop, drop_backward, score
from crossgcn.kernels.gpu.rows import row_sums

__all__ = [
    "adam",
    "cross",
    "cross_backward",
    "cross_backward_to_multiply",
    "cross_to_sum",
    "drop",
    "drop_backward",
    "row_sums",
    "score",
]
