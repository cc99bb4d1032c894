"""What a neighbour sampler does per batch: compiled where Numba is here, else plain NumPy."""

from __future__ import annotations

from typing import Any

from crossgcn.kernels import plain_sampling
from crossgcn.kernels.ops import has_numba
from crossgcn.kernels.plain_sampling import ALL, NoRow, draw_key, shuffle

__all__ = ["ALL", "NoRow", "draw_key", "loops", "shuffle"]


def loops() -> Any:
    """The module that does it; see :mod:`crossgcn.kernels.plain_sampling`."""
    if not has_numba():
        return plain_sampling
    from crossgcn.kernels.cpu import sampling as cpu_sampling

    return cpu_sampling
