"""The loops of :mod:`crossgcn.kernels.gpu_products`.

The tensor cores round float32 operands to TF32 and want them stored along the summed
dimension. So the right operand is written out once that way; and for products as exact
as float32's, numbers are cut into a high part, which TF32 holds, and the low rest.
"""

from __future__ import annotations

from crossgcn.kernels.gpu_drop import _mix
from crossgcn.kernels.gpu_language import jit, tl

__all__ = ["add_chunks", "multiply", "multiply_turned", "prepare"]


@jit
def _key(seeds: tl.tensor, step: tl.tensor, site: tl.uint32) -> tl.tensor:
    """:func:`crossgcn.kernels.draws.keys` of one model."""
    key = _mix(tl.load(seeds).to(tl.uint32))
    key = _mix(key + tl.load(step).to(tl.uint32))
    return _mix(key + tl.cast(site, tl.uint32))


@jit
def _drop(
    value: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    key: tl.tensor,
    drop_below: tl.uint32,
    COLUMNS: tl.constexpr,
) -> tl.tensor:
    """Zero the dropped entries of a tile; see :func:`crossgcn.kernels.draws.keep`."""
    # Positions count modulo 2³², as those of the other kernels do.
    first = row.to(tl.uint32) * COLUMNS + key
    bits = _mix(_mix(first[:, None] + column.to(tl.uint32)[None, :]) ^ key)
    return tl.where(bits >= tl.cast(drop_below, tl.uint32), value, 0.0)


@jit
def _high(value: tl.tensor) -> tl.tensor:
    """The nearest TF32 number.

    A NaN may come out as a number, but then the rest is NaN.
    """
    bits = value.to(tl.uint32, bitcast=True)
    return ((bits + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)


@jit
def prepare(
    source: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    TURN: tl.constexpr,
    DROP: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Copy a matrix into rows of another stride, zeros at their ends.

    ``TURN`` transposes, ``DROP`` drops without scaling, ``SPLIT`` writes the high and the
    low parts.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < ROWS)[:, None] & (column < COLUMNS)[None, :]
    places = row.to(tl.int64)[:, None] * COLUMNS + column[None, :]
    value = tl.load(source + places, mask=inside, other=0.0).to(tl.float32)
    if DROP:
        value = _drop(value, row, column, _key(seeds, step, site), drop_below, COLUMNS)
    if TURN:
        value = tl.trans(value)
        places = column.to(tl.int64)[:, None] * STRIDE + row[None, :]
        inside = (column < COLUMNS)[:, None] & (row < STRIDE)[None, :]
    else:
        places = row.to(tl.int64)[:, None] * STRIDE + column[None, :]
        inside = (row < ROWS)[:, None] & (column < STRIDE)[None, :]
    if SPLIT:
        near = _high(value)
        tl.store(high + places, near, mask=inside)
        tl.store(low + places, value - near, mask=inside)
    else:
        tl.store(high + places, value.to(high.dtype.element_ty), mask=inside)


@jit
def multiply(
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
    DEPTH: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    DROP: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """``out[chunk] = left[:, chunk] @ right[:, chunk].T``.

    Both operands lie along the summed dimension: the left one, ``[ROWS, DEPTH]``, as it
    is; the right ones in rows of ``STRIDE``. A tile of the left one is read by all column
    blocks in turn, so that is the fast axis of the grid.
    """
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    chunk = tl.program_id(2)
    in_rows, in_width = row < ROWS, column < WIDTH
    left_rows = left + row.to(tl.int64)[:, None] * DEPTH
    right_rows = column.to(tl.int64)[:, None] * STRIDE
    if DROP:
        key = _key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, DEPTH), BLOCK_DEPTH):
        depth = begin + tl.arange(0, BLOCK_DEPTH)
        within = in_rows[:, None] & (depth < DEPTH)[None, :]
        a = tl.load(left_rows + depth[None, :], mask=within, other=0.0)
        if DROP:
            a = _drop(a, row, depth, key, drop_below, DEPTH)
        within = in_width[:, None] & (depth < STRIDE)[None, :]
        b = tl.load(right_high + right_rows + depth[None, :], mask=within, other=0.0)
        if SPLIT:
            b_low = tl.load(right_low + right_rows + depth[None, :], mask=within, other=0.0)
            a = a.to(tl.float32)
            near = _high(a)
            sums = tl.dot(a - near, tl.trans(b), sums, input_precision="tf32")
            sums = tl.dot(near, tl.trans(b_low), sums, input_precision="tf32")
            sums = tl.dot(near, tl.trans(b), sums, input_precision="tf32")
        else:
            sums = tl.dot(a.to(b.dtype), tl.trans(b), sums, input_precision="tf32")
    places = (chunk * ROWS + row.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = in_rows[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale).to(out.dtype.element_ty), mask=inside)


@jit
def multiply_turned(
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
    SPLIT: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """``out[chunk] = left[chunk].T @ right[chunk]``, both turned on the way.

    The left operand is ``[ROWS, FEATURES]`` in rows of ``STRIDE``.
    """
    feature = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    chunk = tl.program_id(2)
    in_width = column < WIDTH
    if DROP:
        key = _key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, ROWS), BLOCK_DEPTH):
        row = begin + tl.arange(0, BLOCK_DEPTH)
        in_rows, long_row = row < ROWS, row.to(tl.int64)[:, None]
        # The ends of padded rows hold zeros, and vectors of a tile stay whole.
        within = in_rows[:, None] & (feature < STRIDE)[None, :]
        a = tl.load(left + long_row * STRIDE + feature[None, :], mask=within, other=0.0)
        if DROP:
            a = _drop(a, row, feature, key, drop_below, FEATURES)
        within = in_rows[:, None] & in_width[None, :]
        b = tl.load(right + long_row * WIDTH + column[None, :], mask=within, other=0.0)
        if HALF:
            a, b = a.to(tl.bfloat16), b.to(tl.bfloat16)
            sums = tl.dot(tl.trans(a), b, sums)
        elif SPLIT:
            a, b = tl.trans(a.to(tl.float32)), b.to(tl.float32)
            near_a, near_b = _high(a), _high(b)
            sums = tl.dot(a - near_a, near_b, sums, input_precision="tf32")
            sums = tl.dot(near_a, b - near_b, sums, input_precision="tf32")
            sums = tl.dot(near_a, near_b, sums, input_precision="tf32")
        else:
            a, b = tl.trans(a.to(tl.float32)), b.to(tl.float32)
            sums = tl.dot(a, b, sums, input_precision="tf32")
    places = (chunk * FEATURES + feature.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = (feature < FEATURES)[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale).to(out.dtype.element_ty), mask=inside)


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
    tl.store(out + entry, sums.to(out.dtype.element_ty), mask=inside)
