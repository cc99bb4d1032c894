"""Copies of matrices whose rows start at aligned addresses, with dropout on the way.

Vector loads need aligned addresses, and tensor cores need the summed dimension to be contiguous.
For products as exact as float32, numbers are split into a TF32 number and a remainder.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.gpu.elementwise import entry_bits, mix
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, tl

_ALIGNED = 32
_BLOCK = 64


class Dropping(NamedTuple):
    """Random bits and probability of dropout; no entry is dropped if ``draws`` is ``None``."""

    draws: Draws | None
    p: float

    @property
    def scale(self) -> float:
        """The factor of kept entries."""
        return 1.0 if self.draws is None else 1.0 / (1.0 - self.p)

    @property
    def arguments(self) -> tuple[Tensor | None, Tensor | None, int, int]:
        """The random bits as arguments of a kernel."""
        if self.draws is None:
            return None, None, 0, 0
        return self.draws.seeds, self.draws.step, self.draws.site, threshold(self.p)


def with_readable_rows(matrix: Tensor) -> Tensor:
    """Return a matrix whose rows can be read up to the start of the next, copied if necessary."""
    rows, columns = matrix.shape
    if matrix.stride(1) == 1 and matrix.stride(0) >= columns:
        end = matrix.storage_offset() + rows * matrix.stride(0)
        if end * matrix.element_size() <= matrix.untyped_storage().nbytes():
            return matrix
    return matrix.clone(memory_format=torch.contiguous_format)


def aligned(
    source: Tensor, dtype: torch.dtype, turn: bool, split: bool, dropping: Dropping | None = None
) -> list[Tensor]:
    """Copy a matrix into aligned rows that are padded with zeros.

    Args:
        turn: Transpose.
        split: Write two matrices: the TF32 part of each number, and its remainder.
        dropping: Drop entries of the copy without scaling the others.
    """
    source = with_readable_rows(source)
    rows, columns = source.shape
    lines, length = (columns, rows) if turn else (rows, columns)
    stride = blocks(length, _ALIGNED) * _ALIGNED
    copies = [source.new_empty(lines, stride, dtype=dtype) for _ in range(1 + split)]
    if copies[0].numel() == 0:
        return copies
    covered = (stride, columns) if turn else (rows, stride)
    drawn = dropping or Dropping(None, 0.0)
    with on_device_of(source):
        _write_aligned[tuple(blocks(size, _BLOCK) for size in covered)](
            source,
            copies[0],
            copies[-1],
            *drawn.arguments,
            ROWS=rows,
            COLUMNS=columns,
            SOURCE_STRIDE=source.stride(0),
            STRIDE=stride,
            TURN=turn,
            DROP=drawn.draws is not None,
            SPLIT=split,
            BLOCK=_BLOCK,
            num_warps=4,
        )
    return copies


@jit
def model_key(seeds: tl.tensor, step: tl.tensor, site: tl.uint32) -> tl.tensor:
    """See :func:`crossgcn.kernels.draws.keys`, for one model."""
    key = mix(tl.load(seeds).to(tl.uint32))
    key = mix(key + tl.load(step).to(tl.uint32))
    return mix(key + tl.cast(site, tl.uint32))


@jit
def drop_tile(
    value: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    key: tl.tensor,
    drop_below: tl.uint32,
    COLUMNS: tl.constexpr,
) -> tl.tensor:
    """Zero the dropped entries of a tile; see :func:`crossgcn.kernels.draws.keep`."""
    # Positions count modulo 2³², as in the other kernels.
    position = (row.to(tl.uint32) * COLUMNS)[:, None] + column.to(tl.uint32)[None, :]
    bits = entry_bits(position, key)
    return tl.where(bits >= tl.cast(drop_below, tl.uint32), value, 0.0)


@jit
def high_part(value: tl.tensor) -> tl.tensor:
    """Round to TF32. A NaN may become a number, but then the remainder is NaN."""
    bits = value.to(tl.uint32, bitcast=True)
    return ((bits + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)


@jit
def _write_aligned(
    source: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SOURCE_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    TURN: tl.constexpr,
    DROP: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """See :func:`aligned`."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < ROWS)[:, None] & (column < COLUMNS)[None, :]
    places = row.to(tl.int64)[:, None] * SOURCE_STRIDE + column[None, :]
    value = tl.load(source + places, mask=inside, other=0.0).to(tl.float32)
    if DROP:
        value = drop_tile(value, row, column, model_key(seeds, step, site), drop_below, COLUMNS)
    if TURN:
        value = tl.trans(value)
        places = column.to(tl.int64)[:, None] * STRIDE + row[None, :]
        inside = (column < COLUMNS)[:, None] & (row < STRIDE)[None, :]
    else:
        places = row.to(tl.int64)[:, None] * STRIDE + column[None, :]
        inside = (row < ROWS)[:, None] & (column < STRIDE)[None, :]
    if SPLIT:
        near = high_part(value)
        tl.store(high + places, near, mask=inside)
        tl.store(low + places, value - near, mask=inside)
    else:
        tl.store(high + places, value.to(high.dtype.element_ty), mask=inside)
