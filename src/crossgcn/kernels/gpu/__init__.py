"""The kernels of :mod:`crossgcn.kernels.reference` for GPUs, in Triton.

They take float32 and bfloat16 and sum in float32. None synchronises with the host or uses atomic
additions, so CUDA graphs can record them and results are reproducible to the bit.
"""

from crossgcn.kernels.gpu.elementwise import cross, cross_backward, drop, drop_backward
from crossgcn.kernels.gpu.rows import row_sums

__all__ = ["cross", "cross_backward", "drop", "drop_backward", "row_sums"]
