"""The kernels for GPUs, in Triton.

Each equals its namesake in :mod:`crossgcn.kernels.plain`, for float32 and bfloat16, with
sums in float32. None waits for the device or adds atomically, so all may be captured in a
CUDA graph and give the same bits every time.
"""

from crossgcn.kernels.gpu.cross import cross, cross_backward
from crossgcn.kernels.gpu.elementwise import adam, drop, drop_backward, score
from crossgcn.kernels.gpu.rows import row_sums

__all__ = ["adam", "cross", "cross_backward", "drop", "drop_backward", "row_sums", "score"]
