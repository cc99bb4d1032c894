"""Matrices as float16 numbers and their remainders, with dropout on the way.

The tensor cores of a GPU multiply float16 numbers twice as fast as TF32 ones, which have as many
digits, and read both operands as they lie. What float16 lacks is range: each tile of 128 × 128
entries is multiplied by a power of two that brings its largest one just below 2¹⁵. An entry is then
the sum of a float16 number and a remainder, at most 2⁻¹¹ of it, which together have 23 of float32's
24 digits. (This holds for entries down to 2⁻²⁹ of the largest in their tile; the absolute error of
smaller ones is below 2⁻⁵⁰ of the largest.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.gpu.elementwise import entry_bits, mix
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, power_of_two, tl

TILE = 128
"""Rows and columns that share a power of two."""

_ALIGNED = 8
_PART = 32, 4
"""Rows and warps of a program that need not see all of a tile."""


class Dropping(NamedTuple):
    """What happens to a matrix on the way.

    Attributes:
        draws: Random bits of one model; ``None`` drops nothing.
        p: Probability that an entry is dropped. The others are not scaled.
        activate: Apply a ReLU first.
    """

    draws: Draws | None = None
    p: float = 0.0
    activate: bool = False

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


NOTHING = Dropping()


class Halves(NamedTuple):
    """A matrix ``(high + low / 2048) * shrink``, the last by tiles.

    Attributes:
        high: ``[rows, columns]`` in float16, with aligned rows.
        low: The remainders; ``None`` if they are left out.
        shrink: ``[rows of tiles, columns of tiles]``, powers of two.
    """

    high: Tensor
    low: Tensor | None
    shrink: Tensor


def halve(
    source: Tensor, exact: bool, dropping: Dropping = NOTHING, shrink: Tensor | None = None
) -> Halves:
    """Write a float32 matrix ``[rows, columns]`` in halves.

    Args:
        exact: Keep the remainders.
        shrink: The powers of two, of the matrix before dropout, if they are known.
    """
    rows, columns = source.shape
    halves = empty_halves(source, rows, columns, exact, shrink)
    _launch(source, halves.high, halves.low, halves.shrink, dropping, known=shrink is not None)
    return halves


def empty_halves(
    like: Tensor, rows: int, columns: int, exact: bool, shrink: Tensor | None = None
) -> Halves:
    """Allocate a matrix ``[rows, columns]`` in halves on the device of a tensor."""
    high = _empty(like, rows, columns, torch.float16)
    low = _empty(like, rows, columns, torch.float16) if exact else None
    if shrink is None:
        tiles = blocks(rows, TILE), blocks(columns, TILE)
        shrink = like.new_empty(tiles, dtype=torch.float32)
    return Halves(high[:, :columns], None if low is None else low[:, :columns], shrink)


def rounded(source: Tensor, dtype: torch.dtype, dropping: Dropping = NOTHING) -> Tensor:
    """Copy a matrix into aligned rows of another type, which are padded with zeros."""
    rows, columns = source.shape
    copy = _empty(source, rows, columns, dtype)
    _launch(source, copy, None, None, dropping)
    return copy


def pad_rows(x: Tensor) -> Tensor:
    """Copy a matrix into aligned rows, which are read faster."""
    return rounded(x, x.dtype)[:, : x.size(1)]


def _empty(like: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    return like.new_empty(rows, blocks(columns, _ALIGNED) * _ALIGNED, dtype=dtype)


def _launch(
    source: Tensor,
    high: Tensor,
    low: Tensor | None,
    shrink: Tensor | None,
    dropping: Dropping,
    known: bool = False,
) -> None:
    if source.numel() == 0:
        return
    source = source if source.stride(1) == 1 else source.contiguous()
    (rows, columns), stride = source.shape, high.stride(0)
    block_columns = min(TILE, power_of_two(stride))
    whole = shrink is not None and not known  # a program must see all of a tile
    block_rows, warps = (TILE, 16 if block_columns == TILE else 8) if whole else _PART
    with on_device_of(source):
        _halve[blocks(rows, block_rows), blocks(columns, TILE)](
            source,
            high,
            low,
            shrink,
            *dropping.arguments,
            ROWS=rows,
            COLUMNS=columns,
            SOURCE_STRIDE=source.stride(0),
            STRIDE=stride,
            DROP=dropping.draws is not None,
            ACTIVATE=dropping.activate,
            KNOWN=known,
            TILE=TILE,
            BLOCK_ROWS=block_rows,
            BLOCK_COLUMNS=block_columns,
            num_warps=warps,
        )


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
def largest(value: tl.tensor) -> tl.tensor:
    """Return the size of the largest finite entry of a tile."""
    size = tl.abs(value)
    return tl.max(tl.where(size < float("inf"), size, 0.0))


@jit
def powers_of_two(most: tl.tensor) -> Any:
    """Return the factor of a tile with this largest entry, and the one that undoes it."""
    # Its exponent, but never so small that its power of two overflows.
    exponent = tl.maximum(most.to(tl.int32, bitcast=True) >> 23, 27)
    stretch = ((268 - exponent) << 23).to(tl.float32, bitcast=True)
    return stretch, ((exponent - 14) << 23).to(tl.float32, bitcast=True)


@jit
def remainder(value: tl.tensor, near: tl.tensor) -> tl.tensor:
    """Return what is missing from a rounded number, times 2048."""
    return ((value - near.to(tl.float32)) * 2048.0).to(near.dtype)


@jit
def store_halves(
    value: tl.tensor, places: tl.tensor, inside: tl.tensor, high: tl.tensor, low: tl.tensor
) -> None:
    """Store numbers in the type of ``high``, and remainders if there is a ``low``."""
    near = value.to(high.dtype.element_ty)
    tl.store(high + places, near, mask=inside)
    if low is not None:
        tl.store(low + places, remainder(value, near), mask=inside)


@jit
def _halve(
    source: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
    shrink: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SOURCE_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    DROP: tl.constexpr,
    ACTIVATE: tl.constexpr,
    KNOWN: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
) -> None:
    """See :func:`halve`; without ``shrink``, only convert the numbers."""
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    in_rows, long_row = (row < ROWS)[:, None], row.to(tl.int64)[:, None]
    inside = in_rows & (column < COLUMNS)[None, :]
    value = tl.load(source + long_row * SOURCE_STRIDE + column[None, :], mask=inside, other=0.0)
    value = value.to(tl.float32)
    if ACTIVATE:
        value = tl.where(value <= 0.0, 0.0, value)
    if DROP:
        value = drop_tile(value, row, column, model_key(seeds, step, site), drop_below, COLUMNS)
    if shrink is not None:
        tile = tl.program_id(0) * BLOCK_ROWS // TILE * tl.num_programs(1) + tl.program_id(1)
        if KNOWN:
            value *= 1.0 / tl.load(shrink + tile)
        else:
            stretch, power = powers_of_two(largest(value))
            value *= stretch
            tl.store(shrink + tile, power)
    places = long_row * STRIDE + column[None, :]
    store_halves(value, places, in_rows & (column < STRIDE)[None, :], high, low)
