"""Products of a matrix after dropout, on the tensor cores of a GPU.

The dropped matrix is written once as float16 numbers, with remainders for products as exact as
those of float32 (see :mod:`~crossgcn.kernels.gpu.halves`). In bfloat16, PyTorch multiplies.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    TensorDescriptor,
)

from crossgcn.kernels.draws import Draws
from crossgcn.kernels.gpu.halves import (
    NOTHING,
    TILE,
    Dropping,
    Halves,
    drop_tile,
    empty_halves,
    halve,
    model_key,
    remainder,
    rounded,
)
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, tl

Precision = Literal["fp32", "tf32", "bf16"]
"""``fp32`` adds three products of float16 numbers and remainders; ``tf32`` rounds to 11 digits."""


class ProductShape(NamedTuple):
    """Launch parameters of a product.

    A program computes a tile of ``rows`` and ``columns``, at most 128 each; all sizes are powers
    of two.

    Attributes:
        depth: Terms that are read at once, at most 128.
        num_warps: Warps of a program; four together feed Hopper's tensor cores.
        num_stages: Tiles that are loaded ahead.
        chunks: Upper bound of the parts that the sum is cut into, one program each.
    """

    rows: int
    columns: int
    depth: int
    num_warps: int
    num_stages: int
    chunks: int = 1

    def within(self, room: int, exact: bool) -> ProductShape:
        """Load fewer tiles ahead where the shared memory of a processor has no room for more."""
        each = 2 * self.depth * (self.rows + self.columns) * (2 if exact else 1)
        return self._replace(num_stages=max(1, min(self.num_stages, (room - 1024) // each)))


_PROCESSORS = 132
"""Of an H200; each runs one program at a time."""

_ADD_BLOCK = 512
_FUSED = ProductShape(128, 64, 32, num_warps=4, num_stages=3)
"""Launch parameters of a product whose left matrix is written in halves by the same kernel. One
program must compute all columns."""


def shape_of(
    rows: int, columns: int, terms: int, exact: bool, turn_left: bool, turn_right: bool
) -> ProductShape:
    """Return what was fastest on an H200, with 30,000 rows of 602 features and 32 to 1024 units.

    A sum of many terms is cut into as many chunks as keep all processors busy, where that gains
    more than reading and writing the chunks costs.
    """
    if turn_right and terms <= TILE:
        shape = ProductShape(64, 128, 32, num_warps=4, num_stages=3)
        if columns <= 32:
            shape = ProductShape(128, 32, 64, num_warps=4, num_stages=2)
    elif turn_left and rows <= 64:
        shape = ProductShape(64, 64, 128, num_warps=4, num_stages=3)
    elif terms <= 32:
        shape = ProductShape(128, 64 if columns <= 64 else 128, 32, num_warps=8, num_stages=2)
    elif columns <= 64:
        depth = 128 if turn_left and not exact else 64
        shape = ProductShape(128, 64, depth, num_warps=4, num_stages=4 if depth == 64 else 3)
    elif exact:
        shape = ProductShape(128, 128, 64, num_warps=8, num_stages=3)
    elif turn_left:
        shape = ProductShape(128, 128, 128, num_warps=8, num_stages=3)
    else:
        shape = ProductShape(64, 128, 64, num_warps=4, num_stages=3)
    tiles = max(1, blocks(rows, shape.rows) * blocks(columns, shape.columns))

    def worth(chunks: int) -> float:
        rounds = blocks(tiles * chunks, _PROCESSORS)
        return tiles * chunks / (_PROCESSORS * rounds) - 150 * chunks / terms

    most = min(_PROCESSORS, terms // (2 * TILE))
    return shape._replace(chunks=max(range(1, most + 1), key=worth, default=1))


def multiply(
    left: Halves,
    right: Halves,
    scale: float = 1.0,
    *,
    turn_left: bool = False,
    turn_right: bool = False,
    gate: tuple[Halves, Dropping] | None = None,
    source: tuple[Tensor, Dropping] | None = None,
    shape: ProductShape | None = None,
) -> Tensor:
    """Multiply two matrices or their transposes.

    Args:
        scale: A factor of the result.
        turn_left: Multiply by the transpose of ``left``.
        turn_right: Multiply by the transpose of ``right``.
        gate: A matrix of the result's shape after dropout, and how it was dropped. The result is
            zero where its entries are zero by that. (After a ReLU, that includes entries below
            2⁻³⁹ of the largest in their tile.)
        source: A float32 matrix, and how it is dropped, without a ReLU. The same kernel then writes
            it in halves to the memory of ``left``, whose ``shrink`` must be known. The right matrix
            may have 64 columns at most.
    """
    gate_by, dropping = gate or (None, source[1] if source else NOTHING)
    rows, terms = left.high.shape[::-1] if turn_left else left.high.shape
    columns = right.high.size(0 if turn_right else 1)
    exact = left.low is not None and right.low is not None
    if shape is None and source is not None:
        shape = _FUSED
    shape = shape or shape_of(rows, columns, terms, exact, turn_left, turn_right)
    if left.high.is_cuda:
        device: Any = torch.cuda.get_device_properties(left.high.device)
        shape = shape.within(device.shared_memory_per_block_optin, exact)
    chunk = blocks(blocks(terms, shape.depth), shape.chunks) * shape.depth
    chunks = blocks(terms, chunk) if terms else 1
    parts = left.high.new_empty(chunks, rows, columns, dtype=torch.float32)
    if not terms:
        return parts.zero_()[0]
    if not parts.numel():
        return parts[0]
    left_tile = (shape.depth, shape.rows) if turn_left else (shape.rows, shape.depth)
    right_tile = (shape.columns, shape.depth) if turn_right else (shape.depth, shape.columns)
    tiles = blocks(rows, shape.rows) * blocks(columns, shape.columns)
    with on_device_of(parts):
        _multiply[(tiles, chunks)](
            None if source is None else _tiled(source[0], left_tile),
            *_tiles(left, left_tile, exact),
            *_tiles(right, right_tile, exact),
            left.shrink,
            right.shrink,
            None if gate_by is None else gate_by.high,
            *dropping.arguments,
            parts,
            scale,
            ROWS=rows,
            COLUMNS=columns,
            TERMS=terms,
            CHUNK=chunk,
            GATE_STRIDE=0 if gate_by is None else gate_by.high.stride(0),
            TURN_LEFT=turn_left,
            TURN_RIGHT=turn_right,
            EXACT=exact,
            DROP=dropping.draws is not None,
            ACTIVATE=dropping.activate,
            BLOCK_ROWS=shape.rows,
            BLOCK_COLUMNS=shape.columns,
            BLOCK_DEPTH=shape.depth,
            TILE=TILE,
            num_warps=shape.num_warps,
            num_stages=shape.num_stages,
        )
    return _add(parts)


def _tiles(halves: Halves, tile: tuple[int, int], exact: bool) -> tuple[Any, Any]:
    low = halves.low if exact else None
    return _tiled(halves.high, tile), None if low is None else _tiled(low, tile)


def _tiled(matrix: Tensor, tile: tuple[int, int]) -> Any:
    return TensorDescriptor(matrix, matrix.shape, matrix.stride(), tile)


@jit
def _multiply(
    source: tl.tensor,
    left_high: tl.tensor,
    left_low: tl.tensor,
    right_high: tl.tensor,
    right_low: tl.tensor,
    left_shrink: tl.tensor,
    right_shrink: tl.tensor,
    gate: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    out: tl.tensor,
    scale: tl.float32,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
    CHUNK: tl.constexpr,
    GATE_STRIDE: tl.constexpr,
    TURN_LEFT: tl.constexpr,
    TURN_RIGHT: tl.constexpr,
    EXACT: tl.constexpr,
    DROP: tl.constexpr,
    ACTIVATE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Compute a tile of a product, or of one chunk of its terms.

    Column blocks are the fast axis of the grid, because all of them read the same rows. Tensor
    cores truncate their sums, so the sum of each step goes to ordinary float32 addition.
    """
    across: tl.constexpr = (COLUMNS + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    first_row = tl.program_id(0) // across * BLOCK_ROWS
    first_column = tl.program_id(0) % across * BLOCK_COLUMNS
    chunk = tl.program_id(1)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    end = tl.minimum(chunk * CHUNK + CHUNK, TERMS)
    # The powers of two of the tiles that the terms lie in.
    tiles_of_terms: tl.constexpr = (TERMS + TILE - 1) // TILE
    tiles_of_rows: tl.constexpr = (ROWS + TILE - 1) // TILE
    tiles_of_columns: tl.constexpr = (COLUMNS + TILE - 1) // TILE
    if TURN_LEFT:
        left_shrink += first_row // TILE
    else:
        left_shrink += first_row // TILE * tiles_of_terms
    if TURN_RIGHT:
        right_shrink += first_column // TILE * tiles_of_terms
    else:
        right_shrink += first_column // TILE
    left_down: tl.constexpr = tiles_of_rows if TURN_LEFT else 1
    right_down: tl.constexpr = 1 if TURN_RIGHT else tiles_of_columns
    row = first_row + tl.arange(0, BLOCK_ROWS)
    if DROP:
        key = model_key(seeds, step, site)
    for begin in range(chunk * CHUNK, end, BLOCK_DEPTH):
        if source is not None:
            value = source.load([first_row, begin])
            if DROP:
                place = begin + tl.arange(0, BLOCK_DEPTH)
                value = drop_tile(value, row, place, key, drop_below, TERMS)
            value *= 1.0 / tl.load(left_shrink + begin // TILE)
            a = value.to(tl.float16)
            left_high.store([first_row, begin], a)
        elif TURN_LEFT:
            a = left_high.load([begin, first_row]).T
        else:
            a = left_high.load([first_row, begin])
        if TURN_RIGHT:
            b = right_high.load([first_column, begin]).T
        else:
            b = right_high.load([begin, first_column])
        part = tl.dot(a, b)
        if EXACT:
            if source is not None:
                a_low = remainder(value, a)
                left_low.store([first_row, begin], a_low)
            elif TURN_LEFT:
                a_low = left_low.load([begin, first_row]).T
            else:
                a_low = left_low.load([first_row, begin])
            if TURN_RIGHT:
                b_low = right_low.load([first_column, begin]).T
            else:
                b_low = right_low.load([begin, first_column])
            rest = tl.dot(a_low, b)
            rest = tl.dot(a, b_low, rest)
            part += rest * (1.0 / 2048.0)
        sums += part * (
            tl.load(left_shrink + begin // TILE * left_down)
            * tl.load(right_shrink + begin // TILE * right_down)
        )
    column = first_column + tl.arange(0, BLOCK_COLUMNS)
    in_rows, in_columns = row < ROWS, column < COLUMNS
    inside = in_rows[:, None] & in_columns[None, :]
    long_row = row.to(tl.int64)[:, None]
    if ACTIVATE:
        # What was negative or dropped is zero.
        kept = tl.load(gate + long_row * GATE_STRIDE + column[None, :], mask=inside, other=0.0)
        sums = tl.where(kept <= 0.0, 0.0, sums)
    elif DROP and source is None:
        sums = drop_tile(sums, row, column, key, drop_below, COLUMNS)
    places = (chunk * ROWS + long_row) * COLUMNS + column[None, :]
    tl.store(out + places, sums * scale, mask=inside)


@jit
def _add_chunks(
    parts: tl.tensor,
    out: tl.tensor,
    num_entries: tl.int32,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Add the chunks of a product in order."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < num_entries
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.static_range(CHUNKS):
        first = parts + tl.cast(num_entries, tl.int64) * chunk
        sums += tl.load(first + entry, mask=inside, other=0.0)
    tl.store(out + entry, sums, mask=inside)


def _add(parts: Tensor) -> Tensor:
    if parts.size(0) == 1:
        return parts[0]
    out = parts.new_empty(parts.shape[1:])
    entries = out.numel()
    with on_device_of(parts):
        _add_chunks[(blocks(entries, _ADD_BLOCK),)](
            parts, out, entries, CHUNKS=parts.size(0), BLOCK=_ADD_BLOCK, num_warps=4
        )
    return out


class DroppedProduct:
    """``drop(x) @ weight`` of one model, and its gradients.

    It drops the same entries as :func:`crossgcn.kernels.plain.drop`. One object serves one
    training step: it keeps the dropped matrix for the gradients.

    Args:
        x: ``[rows, features]``.
        draws: Random bits of one model; ``None`` drops nothing.
        precision: Of the products; sums are in float32.
        activate: Apply a ReLU to ``x`` first.
        shrink: That of :func:`~crossgcn.kernels.gpu.halves.halve` for ``x``, if it is known.
    """

    def __init__(
        self,
        x: Tensor,
        draws: Draws | None,
        p: float,
        precision: Precision,
        activate: bool = False,
        shrink: Tensor | None = None,
    ) -> None:
        self.precision: Precision = precision
        self._x, self._shrink = x, shrink
        self._dropping = Dropping(draws if p > 0.0 else None, p, activate)
        self._weight: Halves | None = None

    @cached_property
    def _left(self) -> Any:
        """The dropped matrix."""
        if self.precision == "bf16":
            return rounded(self._x, torch.bfloat16, self._dropping)
        return self._halve(self._x, self._dropping, self._shrink)

    def project(self, weight: Tensor) -> Tensor:
        """Multiply by a weight ``[features, width]``; the result has the type of the precision."""
        scale = self._dropping.scale
        if self.precision == "bf16":
            below = self._left.size(1) - weight.size(0)
            scaled = (weight * scale).to(torch.bfloat16)
            product: Tensor = self._left @ functional.pad(scaled, (0, 0, 0, below))
            return product
        self._weight = self._halve(weight)
        source = None
        if self._can_be_fused and weight.size(1) <= _FUSED.columns:
            (rows, columns), exact = self._x.shape, self.precision == "fp32"
            self._left = empty_halves(self._x, rows, columns, exact, self._shrink)
            source = self._x, self._dropping
        return multiply(self._left, self._weight, scale, source=source)

    def backward(
        self, gradient: Tensor | Halves, with_x: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the gradients of the weight and of ``x`` from that of the product.

        Args:
            gradient: ``[rows, width]``; not in halves in bfloat16.
            with_x: Compute that of ``x``, too; not in bfloat16.
        """
        scale = self._dropping.scale
        if self.precision == "bf16":
            assert isinstance(gradient, Tensor) and not with_x
            for_weight = self._left.t() @ gradient.to(torch.bfloat16)
            return for_weight[: self._x.size(1)] * scale, None
        along = self._halve(gradient) if isinstance(gradient, Tensor) else gradient
        for_weight = multiply(self._left, along, scale, turn_left=True)
        if not with_x:
            return for_weight, None
        assert self._weight is not None
        gate = (self._left, self._dropping)
        return for_weight, multiply(along, self._weight, scale, turn_right=True, gate=gate)

    @property
    def _can_be_fused(self) -> bool:
        """Whether one kernel can drop the matrix, write it in halves and multiply it."""
        x = self._x
        aligned = x.stride(1) == 1 and x.stride(0) % 4 == 0 and x.data_ptr() % 16 == 0
        return aligned and self._shrink is not None and not self._dropping.activate

    def _halve(
        self, matrix: Tensor, dropping: Dropping = NOTHING, shrink: Tensor | None = None
    ) -> Halves:
        return halve(matrix, self.precision == "fp32", dropping, shrink)
