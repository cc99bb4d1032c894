"""The loops of :mod:`crossgcn.kernels.gpu_products`: float32 products on tensor cores.

The tensor cores round float32 operands to TF32, so each operand is cut into a high part,
which TF32 holds, and the rest; three of the four products are added up, the largest last,
and the fourth is too small to be seen in float32. They also cut off what their sums cannot
hold instead of rounding it, so they add up only a few terms before an ordinary addition
takes over.
"""

from __future__ import annotations

from crossgcn.kernels.gpu_aligned import drop_tile, high_part, model_key
from crossgcn.kernels.gpu_language import jit, tl

__all__ = ["add_chunks", "multiply_along_rows", "multiply_down_columns"]


@jit
def multiply_along_rows(
    left: tl.tensor,
    right_high: tl.tensor,
    right_low: tl.tensor,
    out: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    TERMS: tl.constexpr,
    LEFT_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    DROP: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """``out[chunk] = left[:, chunk] @ right[:, chunk].T``.

    Both operands lie along the summed dimension: the left one, ``[ROWS, TERMS]``, in rows
    of ``LEFT_STRIDE``, the right ones in rows of ``STRIDE``. A tile of the left one is read
    by all column blocks in turn, so that is the fast axis of the grid. Without ``SPLIT`` the
    right one comes whole and is cut here.
    """
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    chunk = tl.program_id(2)
    in_rows, in_width = row < ROWS, column < WIDTH
    left_rows = left + row.to(tl.int64)[:, None] * LEFT_STRIDE
    right_rows = column.to(tl.int64)[:, None] * STRIDE
    if DROP:
        key = model_key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(0, CHUNK, BLOCK_DEPTH):
        term = chunk * CHUNK + begin + tl.arange(0, BLOCK_DEPTH)
        # Whatever lies between rows is read too: so the loads of a tile stay vectors.
        within = in_rows[:, None] & (term < LEFT_STRIDE)[None, :]
        a = tl.load(left_rows + term[None, :], mask=within, other=0.0)
        if LEFT_STRIDE > TERMS:
            a = tl.where((term < TERMS)[None, :], a, 0.0)
        if DROP:
            a = drop_tile(a, row, term, key, drop_below, TERMS)
        within = in_width[:, None] & (term < STRIDE)[None, :]
        b = tl.load(right_high + right_rows + term[None, :], mask=within, other=0.0)
        if SPLIT:
            b_low = tl.load(right_low + right_rows + term[None, :], mask=within, other=0.0)
        else:
            b_low = b - high_part(b)
            b = high_part(b)
        near = high_part(a)
        part = tl.dot(a - near, tl.trans(b), input_precision="tf32")
        part = tl.dot(near, tl.trans(b_low), part, input_precision="tf32")
        sums += tl.dot(near, tl.trans(b), part, input_precision="tf32")
    places = (chunk * ROWS + row.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = in_rows[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale), mask=inside)


@jit
def multiply_down_columns(
    left: tl.tensor,
    right: tl.tensor,
    out: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    DROP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """``out[chunk] = left[chunk].T @ right[chunk]``, both turned on the way.

    The left operand is ``[ROWS, FEATURES]``, in rows of ``STRIDE``.
    """
    feature = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    chunk = tl.program_id(2)
    in_width = column < WIDTH
    if DROP:
        key = model_key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(0, CHUNK, BLOCK_DEPTH):
        row = chunk * CHUNK + begin + tl.arange(0, BLOCK_DEPTH)
        in_rows, long_row = row < ROWS, row.to(tl.int64)[:, None]
        # Beyond the features lie rows of the result that are not stored.
        within = in_rows[:, None] & (feature < STRIDE)[None, :]
        a = tl.load(left + long_row * STRIDE + feature[None, :], mask=within, other=0.0)
        if DROP:
            a = drop_tile(a, row, feature, key, drop_below, FEATURES)
        within = in_rows[:, None] & in_width[None, :]
        b = tl.load(right + long_row * WIDTH + column[None, :], mask=within, other=0.0)
        a = tl.trans(a)
        near_a, near_b = high_part(a), high_part(b)
        part = tl.dot(a - near_a, near_b, input_precision="tf32")
        part = tl.dot(near_a, b - near_b, part, input_precision="tf32")
        sums += tl.dot(near_a, near_b, part, input_precision="tf32")
    places = (chunk * FEATURES + feature.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = (feature < FEATURES)[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale), mask=inside)


@jit
def add_chunks(
    parts: tl.tensor,
    out: tl.tensor,
    num_entries: tl.int32,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Add up the chunks of a product, in order."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < num_entries
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.static_range(CHUNKS):
        first = parts + tl.cast(num_entries, tl.int64) * chunk
        sums += tl.load(first + entry, mask=inside, other=0.0)
    tl.store(out + entry, sums, mask=inside)
