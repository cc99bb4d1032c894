"""A matrix with a row per node, in memory or in a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from crossgcn.errors import WorkFailed

__all__ = ["make_rows"]


def make_rows(rows: int, width: int, dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Zeros, ``[rows, width]``.

    Args:
        rows: How many.
        width: How wide.
        dtype: Of the entries.
        folder: Where to keep them in a file that is mapped into memory and gone when the tensor
            is; ``None`` for memory.
    """
    if folder is None or rows * width == 0:
        return torch.zeros(rows, width, dtype=dtype)
    num_bytes = rows * width * dtype.itemsize
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".rows", dir=folder)
        try:
            # Room is taken now: a disk found full while a page is written back kills the process.
            os.posix_fallocate(descriptor, 0, num_bytes)
            mapped = torch.from_file(name, shared=True, size=rows * width, dtype=dtype)
        finally:
            os.close(descriptor)
            Path(name).unlink()
    except OSError as error:
        raise WorkFailed(
            f"{folder}: cannot keep {num_bytes / 2**30:.1f} GiB of hidden values there "
            f"({error.strerror or error}): free some room, or name another folder"
        ) from error
    return mapped.view(rows, width)
