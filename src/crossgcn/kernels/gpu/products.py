"""Products of float32 matrices on a GPU's tensor cores, with the accuracy of float32 or TF32.

Tensor cores multiply float16 numbers more than ten times as fast as float32 numbers, but float16
has less range and fewer digits. For the range, each tile of 128 × 128 entries is scaled by a power
of two that brings its largest entry just below 2¹⁵. For the digits, an entry is the sum of a
float16 number and a remainder of at most 2⁻¹¹ of it; their sum has 23 of float32's 24 digits. (This
holds for entries down to 2⁻²⁹ of the largest in their tile; the absolute error of smaller ones is
below 2⁻⁵⁰ of the largest.) For float32 accuracy, three products of such numbers are added. One
product without remainders has the accuracy of TF32 and takes half the time of TF32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode
from triton.tools.tensor_descriptor import TensorDescriptor

from crossgcn.kernels.ops import may_use_kernels

TILE = 128
"""Rows and columns that share a power of two."""

_ALIGNED = 8
_PROCESSORS = 132
"""Multiprocessors of an H200; each runs one program at a time."""


class FastProducts(TorchFunctionMode):
    """Within this context, ``@`` multiplies float32 matrices on the GPU by :func:`multiply`.

    Double backward is not supported.

    Args:
        exact: Multiply with the accuracy of float32 instead of TF32.
    """

    def __init__(self, exact: bool = True) -> None:
        super().__init__()
        self.exact = exact

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Replace the product of two matrices."""
        if func in _MATRIX_PRODUCTS and _can_multiply(*args):
            return _Product.apply(*args, self.exact)
        return func(*args, **(kwargs or {}))


_MATRIX_PRODUCTS = (Tensor.matmul, Tensor.__matmul__, torch.matmul)


def _can_multiply(left: Any, right: Any) -> bool:
    pair = (left, right)
    return all(
        isinstance(matrix, Tensor)
        and matrix.layout == torch.strided
        and matrix.is_cuda
        and matrix.dim() == 2
        and matrix.dtype == torch.float32
        for matrix in pair
    ) and may_use_kernels(*pair)


class _Product(torch.autograd.Function):
    """A product of two matrices; backward reuses their halves."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, exact: bool) -> Tensor:
        ctx.left, ctx.right, ctx.exact = halve(left, exact), halve(right, exact), exact
        return multiply(ctx.left, ctx.right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        with_left, with_right, _ = ctx.needs_input_grad
        grad = halve(gradient, ctx.exact)
        return (
            multiply(grad, ctx.right, turn_right=True) if with_left else None,
            multiply(ctx.left, grad, turn_left=True) if with_right else None,
            None,
        )


class Halves(NamedTuple):
    """A matrix ``(high + low / 2048) * shrink``, where ``shrink`` has one entry per tile.

    Attributes:
        high: ``[rows, columns]`` in float16, with aligned rows.
        low: The remainders, in the same form; ``None`` if they are left out.
        shrink: ``[rows of tiles, columns of tiles]``, powers of two.
    """

    high: Tensor
    low: Tensor | None
    shrink: Tensor


def halve(source: Tensor, exact: bool = True) -> Halves:
    """Split a float32 matrix ``[rows, columns]`` into halves; keep remainders only if ``exact``."""
    source = source if source.stride(1) == 1 else source.contiguous()
    rows, columns = source.shape
    stride = triton.cdiv(columns, _ALIGNED) * _ALIGNED
    high = source.new_empty(rows, stride, dtype=torch.float16)
    low = torch.empty_like(high) if exact else None
    tiles = triton.cdiv(rows, TILE), triton.cdiv(columns, TILE)
    shrink = source.new_empty(tiles, dtype=torch.float32)
    if source.numel():
        block_columns = min(TILE, triton.next_power_of_2(stride))
        with torch.cuda.device_of(source):
            _halve[tiles](
                source,
                high,
                low,
                shrink,
                ROWS=rows,
                COLUMNS=columns,
                SOURCE_STRIDE=source.stride(0),
                STRIDE=stride,
                BLOCK_ROWS=TILE,
                BLOCK_COLUMNS=block_columns,
                num_warps=16 if block_columns == TILE else 8,
            )
    return Halves(high[:, :columns], None if low is None else low[:, :columns], shrink)


@triton.jit
def _halve(
    source: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
    shrink: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SOURCE_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
) -> None:
    """Split one tile into halves; one program handles the whole tile."""
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    in_rows, long_row = (row < ROWS)[:, None], row.to(tl.int64)[:, None]
    inside = in_rows & (column < COLUMNS)[None, :]
    value = tl.load(source + long_row * SOURCE_STRIDE + column[None, :], mask=inside, other=0.0)
    size = tl.abs(value)
    most = tl.max(tl.where(size < float("inf"), size, 0.0))
    # The exponent of the largest entry, bounded so that the scale does not overflow.
    exponent = tl.maximum(most.to(tl.int32, bitcast=True) >> 23, 27)
    value *= ((268 - exponent) << 23).to(tl.float32, bitcast=True)
    undo = ((exponent - 14) << 23).to(tl.float32, bitcast=True)
    tl.store(shrink + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), undo)
    near = value.to(tl.float16)
    places, padded = long_row * STRIDE + column[None, :], in_rows & (column < STRIDE)[None, :]
    tl.store(high + places, near, mask=padded)
    if low is not None:
        rest = ((value - near.to(tl.float32)) * 2048.0).to(tl.float16)
        tl.store(low + places, rest, mask=padded)


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
        """Reduce ``num_stages`` to what fits into the shared memory of a processor."""
        each = 2 * self.depth * (self.rows + self.columns) * (2 if exact else 1)
        return self._replace(num_stages=max(1, min(self.num_stages, (room - 1024) // each)))


def shape_of(
    rows: int, columns: int, terms: int, exact: bool, turn_left: bool, turn_right: bool
) -> ProductShape:
    """Return the fastest shape on an H200, for 30,000 rows of 602 features and 32 to 1024 units.

    A sum of many terms is cut into chunks that keep all processors busy, if that gains more time
    than reading and writing the chunks costs.
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
    tiles: int = max(1, triton.cdiv(rows, shape.rows) * triton.cdiv(columns, shape.columns))

    def worth(chunks: int) -> float:
        rounds = -(-tiles * chunks // _PROCESSORS)
        return tiles * chunks / (_PROCESSORS * rounds) - 150 * chunks / terms

    most = min(_PROCESSORS, terms // (2 * TILE))
    return shape._replace(chunks=max(range(1, most + 1), key=worth, default=1))


def multiply(
    left: Halves,
    right: Halves,
    *,
    turn_left: bool = False,
    turn_right: bool = False,
) -> Tensor:
    """Multiply two matrices; ``turn_left`` and ``turn_right`` transpose a factor first."""
    rows, terms = left.high.shape[::-1] if turn_left else left.high.shape
    columns = right.high.size(0 if turn_right else 1)
    exact = left.low is not None
    shape = shape_of(rows, columns, terms, exact, turn_left, turn_right)
    if left.high.is_cuda:
        device: Any = torch.cuda.get_device_properties(left.high.device)
        shape = shape.within(device.shared_memory_per_block_optin, exact)
    chunk = triton.cdiv(triton.cdiv(terms, shape.depth), shape.chunks) * shape.depth
    chunks = triton.cdiv(terms, chunk) if terms else 1
    parts = left.high.new_empty(chunks, rows, columns, dtype=torch.float32)
    if not terms:
        return parts.zero_()[0]
    if not parts.numel():
        return parts[0]
    left_tile = (shape.depth, shape.rows) if turn_left else (shape.rows, shape.depth)
    right_tile = (shape.columns, shape.depth) if turn_right else (shape.depth, shape.columns)
    tiles = triton.cdiv(rows, shape.rows) * triton.cdiv(columns, shape.columns)
    with torch.cuda.device_of(parts):
        _multiply[(tiles, chunks)](
            _tiled(left.high, left_tile),
            _tiled(left.low, left_tile),
            _tiled(right.high, right_tile),
            _tiled(right.low, right_tile),
            left.shrink,
            right.shrink,
            parts,
            ROWS=rows,
            COLUMNS=columns,
            TERMS=terms,
            CHUNK=chunk,
            TURN_LEFT=turn_left,
            TURN_RIGHT=turn_right,
            EXACT=exact,
            BLOCK_ROWS=shape.rows,
            BLOCK_COLUMNS=shape.columns,
            BLOCK_DEPTH=shape.depth,
            TILE=TILE,
            num_warps=shape.num_warps,
            num_stages=shape.num_stages,
        )
    return parts[0] if chunks == 1 else parts.sum(dim=0)


def _tiled(matrix: Tensor | None, tile: tuple[int, int]) -> Any:
    if matrix is None:
        return None
    return TensorDescriptor(matrix, matrix.shape, matrix.stride(), tile)


@triton.jit
def _load(matrix: tl.tensor, row: tl.int32, column: tl.int32, TURNED: tl.constexpr) -> tl.tensor:
    """Load a tile of a matrix, or of its transpose if ``TURNED``."""
    return matrix.load([column, row]).T if TURNED else matrix.load([row, column])


@triton.jit
def _multiply(
    left_high: tl.tensor,
    left_low: tl.tensor,
    right_high: tl.tensor,
    right_low: tl.tensor,
    left_shrink: tl.tensor,
    right_shrink: tl.tensor,
    out: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
    CHUNK: tl.constexpr,
    TURN_LEFT: tl.constexpr,
    TURN_RIGHT: tl.constexpr,
    EXACT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Compute a tile of a product, or of one chunk of its terms.

    Column blocks are the fast axis of the grid, because all of them read the same rows. Tensor
    cores truncate their sums, so the sums of the steps are added in ordinary float32.
    """
    across: tl.constexpr = (COLUMNS + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    first_row = tl.program_id(0) // across * BLOCK_ROWS
    first_column = tl.program_id(0) % across * BLOCK_COLUMNS
    chunk = tl.program_id(1)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    end = tl.minimum(chunk * CHUNK + CHUNK, TERMS)
    # Addresses of the powers of two of the tiles.
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
    for begin in range(chunk * CHUNK, end, BLOCK_DEPTH):
        a = _load(left_high, first_row, begin, TURN_LEFT)
        b = _load(right_high, begin, first_column, TURN_RIGHT)
        part = tl.dot(a, b)
        if EXACT:
            a_low = _load(left_low, first_row, begin, TURN_LEFT)
            b_low = _load(right_low, begin, first_column, TURN_RIGHT)
            rest = tl.dot(a_low, b)
            rest = tl.dot(a, b_low, rest)
            part += rest * (1.0 / 2048.0)
        sums += part * (
            tl.load(left_shrink + begin // TILE * left_down)
            * tl.load(right_shrink + begin // TILE * right_down)
        )
    row = first_row + tl.arange(0, BLOCK_ROWS)
    column = first_column + tl.arange(0, BLOCK_COLUMNS)
    inside = (row < ROWS)[:, None] & (column < COLUMNS)[None, :]
    places = (chunk * ROWS + row.to(tl.int64)[:, None]) * COLUMNS + column[None, :]
    tl.store(out + places, sums, mask=inside)
