"""The launches of which :mod:`crossgcn.kernels.gpu_products` makes its products."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from crossgcn.kernels.gpu_aligned import Dropping
from crossgcn.kernels.gpu_language import blocks, on_device_of
from crossgcn.kernels.gpu_product_kernels import (
    add_chunks,
    multiply_along_rows,
    multiply_down_columns,
)

__all__ = ["ProductShape", "along_rows", "down_columns"]

_ADD_BLOCK = 512


class ProductShape(NamedTuple):
    """How a product is shared out.

    Attributes:
        block_rows: Rows of a program's part of the result, a power of two.
        block_columns: Columns of it, a power of two.
        block_depth: How many terms are read at once, a power of two.
        num_warps: Warps of a program; Hopper's tensor cores are fed by four together.
        num_stages: How many tiles are under way from memory.
        chunks: In how many parts at most the sum is cut, each the work of another program.
    """

    block_rows: int
    block_columns: int
    block_depth: int
    num_warps: int
    num_stages: int
    chunks: int = 1


def along_rows(
    left: Tensor, right: list[Tensor], shape: ProductShape, dropping: Dropping, drop: bool
) -> Tensor:
    """``scale * left @ right.T``, the entries of ``left`` dropped if asked for.

    Args:
        left: ``[rows, terms]``, rows readable.
        right: ``[width, terms]`` from :func:`crossgcn.kernels.gpu_aligned.aligned`,
            split or whole.
        shape: How the work is shared out.
        dropping: Gives the scale, and the entries to drop.
        drop: Whether they are still to be dropped.
    """
    (rows, terms), (width, stride) = left.shape, right[0].shape
    chunk, chunks = _cut(terms, shape)
    parts = left.new_empty(chunks, rows, width)
    if parts.numel() and terms:
        grid = blocks(width, shape.block_columns), blocks(rows, shape.block_rows), chunks
        with on_device_of(left):
            multiply_along_rows[grid](
                left,
                right[0],
                right[-1],
                parts,
                *dropping.arguments,
                dropping.scale,
                ROWS=rows,
                WIDTH=width,
                TERMS=terms,
                LEFT_STRIDE=left.stride(0),
                STRIDE=stride,
                DROP=drop and dropping.draws is not None,
                SPLIT=len(right) > 1,
                CHUNK=chunk,
                **_meta(shape),
            )
    return _add(parts, any_terms=terms > 0)


def down_columns(
    left: Tensor, right: Tensor, shape: ProductShape, dropping: Dropping, drop: bool
) -> Tensor:
    """``scale * left.T @ right``, the entries of ``left`` dropped if asked for.

    Args:
        left: ``[rows, features]``, rows readable.
        right: ``[rows, width]``, contiguous.
        shape: How the work is shared out.
        dropping: Gives the scale, and the entries to drop.
        drop: Whether they are still to be dropped.
    """
    (rows, width), features = right.shape, left.size(1)
    chunk, chunks = _cut(rows, shape)
    parts = left.new_empty(chunks, features, width)
    if parts.numel() and rows:
        grid = blocks(features, shape.block_rows), blocks(width, shape.block_columns), chunks
        with on_device_of(left):
            multiply_down_columns[grid](
                left,
                right,
                parts,
                *dropping.arguments,
                dropping.scale,
                ROWS=rows,
                WIDTH=width,
                FEATURES=features,
                STRIDE=left.stride(0),
                DROP=drop and dropping.draws is not None,
                CHUNK=chunk,
                **_meta(shape),
            )
    return _add(parts, any_terms=rows > 0)


def _cut(terms: int, shape: ProductShape) -> tuple[int, int]:
    """The length of a chunk, and how many of that length there are: none is empty."""
    chunk = blocks(blocks(terms, shape.block_depth), shape.chunks) * shape.block_depth
    return chunk, blocks(terms, chunk) if terms else 1


def _meta(shape: ProductShape) -> dict[str, int]:
    return {
        "BLOCK_ROWS": shape.block_rows,
        "BLOCK_COLUMNS": shape.block_columns,
        "BLOCK_DEPTH": shape.block_depth,
        "num_warps": shape.num_warps,
        "num_stages": shape.num_stages,
    }


def _add(parts: Tensor, any_terms: bool) -> Tensor:
    if not any_terms:
        return parts.new_zeros(parts.shape[1:])
    if parts.size(0) == 1:
        return parts[0]
    out = parts.new_empty(parts.shape[1:])
    entries = out.numel()
    if entries:
        with on_device_of(parts):
            add_chunks[(blocks(entries, _ADD_BLOCK),)](
                parts, out, entries, CHUNKS=parts.size(0), BLOCK=_ADD_BLOCK, num_warps=4
            )
    return out
