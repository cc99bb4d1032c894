"""Sparse-dense products on a GPU.

Rows differ in length by orders of magnitude, so programs work on segments of bounded length, and
a second kernel adds the segments of a row. Column blocks are the slow axis of the grid, so that
one block of columns of the dense matrix stays in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from crossgcn.kernels.gpu.products import TILE, halve
from crossgcn.kernels.reference import Pattern

SEGMENT_LENGTH = 128
_CACHE = 1 << 28
"""Dense matrices of more bytes do not fit a GPU's cache."""


@dataclass(frozen=True)
class Segments:
    """Rows cut into segments of bounded length, so that GPU programs have similar work.

    A long row has several segments. Each writes its sum into a slot, and the slots of a row
    are added in order, so the result does not depend on scheduling. The longest segments come
    first, so that neighbouring programs work on segments of similar length.

    Attributes:
        row: Row of each segment, ``[segments]``.
        begin: First entry of each segment, ``[segments]``.
        end: One past the last entry of each segment, ``[segments]``.
        slot: Slot of the sum of each segment; ``-1`` if the segment is a whole row.
        long_rows: Rows with several segments.
        long_slots: First slots of the long rows, and the total number, ``[long rows + 1]``.
        num_slots: Total number of slots.
    """

    row: Tensor
    begin: Tensor
    end: Tensor
    slot: Tensor
    long_rows: Tensor
    long_slots: Tensor
    num_slots: int


class RowSumShape(NamedTuple):
    """Launch parameters.

    All but ``num_warps`` are powers of two.

    Attributes:
        block_columns: Columns of a program.
        unroll: Entries of a segment that are gathered at once.
        group: Segments of a program.
    """

    block_columns: int
    unroll: int
    group: int
    num_warps: int


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """See :func:`crossgcn.kernels.reference.row_sums`.

    In TF32, a wide dense factor is first rounded to the high part of its
    :class:`~crossgcn.kernels.gpu.products.Halves`; sums are in float32.

    The first call cuts the pattern into segments, which synchronises with the device. Make one
    call before recording a CUDA graph.
    """
    if pattern.segments is None:
        pattern.segments = cut_into_segments(pattern.row_offsets, SEGMENT_LENGTH)
    segments: Segments = pattern.segments
    shrink = None
    is_tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    if dense.dtype == torch.float32 and dense.size(1) >= TILE and is_tf32:
        dense, _, shrink = halve(dense, exact=False)
    beyond_cache = dense.numel() * dense.element_size() > _CACHE
    shape = _row_sum_shape(dense.size(1), dense.element_size(), beyond_cache)
    if shrink is not None:
        shape = shape._replace(block_columns=min(shape.block_columns, TILE))
    width = dense.size(1)
    dtype = dense.dtype if shrink is None else torch.float32
    out = dense.new_empty(pattern.num_rows, width, dtype=dtype)
    if out.numel() == 0:
        return out
    dense = dense if dense.stride(1) == 1 else dense.contiguous()
    slots = dense.new_empty(segments.num_slots, width, dtype=torch.float32)
    num_segments, num_blocks = segments.row.numel(), triton.cdiv(width, shape.block_columns)
    with torch.cuda.device_of(dense):
        _sum_segments[(triton.cdiv(num_segments, shape.group), num_blocks)](
            dense,
            shrink,
            pattern.columns,
            values,
            segments.row,
            segments.begin,
            segments.end,
            segments.slot,
            out,
            slots,
            num_segments,
            WIDTH=width,
            STRIDE=dense.stride(0),
            TILE=TILE,
            GROUP=shape.group,
            UNROLL=shape.unroll,
            BLOCK_COLUMNS=shape.block_columns,
            num_warps=shape.num_warps,
        )
        if segments.num_slots:
            _add_slots[(segments.long_rows.numel(), num_blocks)](
                slots,
                segments.long_rows,
                segments.long_slots,
                out,
                WIDTH=width,
                UNROLL=shape.unroll,
                BLOCK_COLUMNS=shape.block_columns,
                num_warps=shape.num_warps,
            )
    return out


def cut_into_segments(row_offsets: Tensor, length: int) -> Segments:
    """Cut the rows of a CSR matrix into segments of at most ``length`` entries."""
    offsets = row_offsets.long()
    lengths = offsets.diff()
    pieces = ((lengths + length - 1) // length).clamp(min=1)
    row = torch.repeat_interleave(pieces)
    first = pieces.cumsum(0) - pieces
    within = torch.arange(row.numel(), device=row.device) - first[row]
    begin = offsets[:-1][row] + within * length
    end = torch.minimum(begin + length, offsets[1:][row])
    long_rows = (pieces > 1).nonzero().flatten()
    is_long = pieces[row] > 1
    slot = torch.where(is_long, is_long.cumsum(0) - 1, -1)
    long_slots = pieces.new_zeros(long_rows.numel() + 1)
    long_slots[1:] = pieces[long_rows].cumsum(0)
    longest_first = (begin - end).argsort(stable=True)

    small = torch.int32 if int(offsets[-1]) < 2**31 else torch.int64
    return Segments(
        row=row[longest_first].to(torch.int32),
        begin=begin[longest_first].to(small),
        end=end[longest_first].to(small),
        slot=slot[longest_first].to(torch.int32),
        long_rows=long_rows.to(torch.int32),
        long_slots=long_slots.to(torch.int32),
        num_slots=int(long_slots[-1]),
    )


def _row_sum_shape(width: int, bytes_each: int, beyond_cache: bool) -> RowSumShape:
    """Return the fastest shape on an H200, for 30,000 rows of 27 entries, 3,539 at most.

    Beyond the cache, it was measured for 2,450,000 rows of 52 entries, 21,943 at most.
    """
    columns = triton.next_power_of_2(width)
    if beyond_cache and columns > 32:
        block = min(columns, 64 if bytes_each == 4 else 128)
        return RowSumShape(block, unroll=4, group=4 if block == 64 else 2, num_warps=1)
    if columns <= 32:
        return RowSumShape(columns, unroll=8, group=min(128 // columns, 8), num_warps=1)
    if bytes_each == 2:
        if columns <= 128:
            return RowSumShape(columns, unroll=4, group=2, num_warps=1)
        return RowSumShape(min(columns, 512), unroll=2, group=1, num_warps=1)
    if columns == 64:
        return RowSumShape(64, unroll=8, group=4, num_warps=2)
    return RowSumShape(128, unroll=4, group=2, num_warps=2)


@triton.jit
def _sum_segments(
    dense: tl.tensor,
    shrink: tl.tensor,
    columns: tl.tensor,
    values: tl.tensor,
    segment_rows: tl.tensor,
    segment_begins: tl.tensor,
    segment_ends: tl.tensor,
    segment_slots: tl.tensor,
    out: tl.tensor,
    slots: tl.tensor,
    num_segments: tl.int32,
    WIDTH: tl.constexpr,
    STRIDE: tl.constexpr,
    TILE: tl.constexpr,
    GROUP: tl.constexpr,
    UNROLL: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
) -> None:
    first = tl.program_id(0) * GROUP
    segment = first + tl.arange(0, GROUP)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    in_width = column < WIDTH
    here = segment < num_segments
    begin = tl.load(segment_begins + segment, mask=here, other=0)
    length = tl.load(segment_ends + segment, mask=here, other=0) - begin
    # Segments are sorted by length, longest first.
    longest = tl.load(segment_ends + first) - tl.load(segment_begins + first)
    sums = tl.zeros((GROUP, UNROLL, BLOCK_COLUMNS), dtype=tl.float32)
    done = 0
    while done < longest:
        place = done + tl.arange(0, UNROLL)
        within = place[None, :] < length[:, None]
        entry = begin[:, None] + place[None, :]
        source = tl.load(columns + entry, mask=within, other=0)
        weight = tl.load(values + entry, mask=within, other=0.0).to(tl.float32)
        if shrink is not None:
            tile = tl.program_id(1) * BLOCK_COLUMNS // TILE
            weight *= tl.load(shrink + source // TILE * ((WIDTH + TILE - 1) // TILE) + tile)
        gathered = tl.load(
            dense + source.to(tl.int64)[:, :, None] * STRIDE + column[None, None, :],
            mask=within[:, :, None] & in_width[None, None, :],
            other=0.0,
        )
        sums += weight[:, :, None] * gathered.to(tl.float32)
        done += UNROLL
    total = tl.sum(sums, axis=1)
    row = tl.load(segment_rows + segment, mask=here, other=0).to(tl.int64)
    slot = tl.load(segment_slots + segment, mask=here, other=-1).to(tl.int64)
    whole, cut = here & (slot < 0), slot >= 0
    tl.store(
        out + row[:, None] * WIDTH + column[None, :],
        total.to(out.dtype.element_ty),
        mask=whole[:, None] & in_width[None, :],
    )
    tl.store(
        slots + slot[:, None] * WIDTH + column[None, :],
        total,
        mask=cut[:, None] & in_width[None, :],
    )


@triton.jit
def _add_slots(
    slots: tl.tensor,
    long_rows: tl.tensor,
    long_slots: tl.tensor,
    out: tl.tensor,
    WIDTH: tl.constexpr,
    UNROLL: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
) -> None:
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    in_width = column < WIDTH
    done = tl.load(long_slots + tl.program_id(0))
    end = tl.load(long_slots + tl.program_id(0) + 1)
    sums = tl.zeros((UNROLL, BLOCK_COLUMNS), dtype=tl.float32)
    while done < end:
        slot = done + tl.arange(0, UNROLL)
        sums += tl.load(
            slots + slot.to(tl.int64)[:, None] * WIDTH + column[None, :],
            mask=(slot < end)[:, None] & in_width[None, :],
            other=0.0,
        )
        done += UNROLL
    row = tl.load(long_rows + tl.program_id(0)).to(tl.int64)
    total = tl.sum(sums, axis=0)
    tl.store(out + row * WIDTH + column, total.to(out.dtype.element_ty), mask=in_width)
