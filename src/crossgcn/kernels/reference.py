"""The kernels in plain PyTorch, for any device and precision; autograd differentiates them.

They define what the compiled kernels and their gradients compute. Tests compare both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class Pattern:
    """Row offsets ``[rows + 1]`` and columns ``[nonzeros]`` of a CSR matrix."""

    def __init__(self, row_offsets: Tensor, columns: Tensor) -> None:
        self.row_offsets = row_offsets
        self.columns = columns
        self.segments: Any = None  # set by the first call of the GPU kernel

    @property
    def rows(self) -> Tensor:
        """Row of each entry, ascending."""
        numbers = torch.arange(self.num_rows, device=self.columns.device)
        size = self.columns.size(0)
        return numbers.repeat_interleave(self.row_offsets.diff(), output_size=size)

    @property
    def num_rows(self) -> int:
        """Number of rows, empty ones included."""
        return self.row_offsets.numel() - 1

    def to(self, device: torch.device | str) -> Pattern:
        """Return the pattern on a device; on a GPU with 32-bit indices, which are faster."""
        small = torch.device(device).type == "cuda" and self.columns.numel() < 2**31
        dtype = torch.int32 if small else torch.int64
        return Pattern(self.row_offsets.to(device, dtype), self.columns.to(device, dtype))


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Multiply a sparse matrix by a dense one ``[columns, width]``, summing in storage order."""
    if dense.is_cuda:
        matrix = torch.sparse_csr_tensor(
            pattern.row_offsets,
            pattern.columns,
            values.to(dense.dtype),
            (pattern.num_rows, dense.size(0)),
            check_invariants=False,
        )
        return matrix @ dense
    # An embedding bag sums row by row in storage order, and is faster than torch.sparse.
    return functional.embedding_bag(
        pattern.columns,
        dense.contiguous(),
        pattern.row_offsets,
        mode="sum",
        per_sample_weights=values.to(dense.dtype),
        include_last_offset=True,
    )


@dataclass(frozen=True)
class DropoutBits:
    """The seed, the training step and the site of a dropout, which select the dropped entries.

    They are hashed with the position of each entry. Every device and kernel thus drops the same
    entries, and backward recomputes the bits instead of storing a mask.

    Attributes:
        seed: 0 to 2³²−1, a single int64.
        step: The training step, a single int64.
        site: Number of the dropout within a model.
    """

    seed: Tensor
    step: Tensor
    site: int


def mix(bits: Tensor) -> Tensor:
    """Hash 32-bit numbers by Wellons' ``lowbias32``.

    The numbers are stored as int32, whose overflow wraps around like that of unsigned numbers.
    """
    bits = bits ^ ((bits >> 16) & 0xFFFF)
    bits = bits * 0x7FEB352D
    bits = bits ^ ((bits >> 15) & 0x1FFFF)
    bits = bits * (0x846CA68B - 2**32)
    return bits ^ ((bits >> 16) & 0xFFFF)


def threshold(p: float) -> int:
    """Return the unsigned 32-bit number below which an entry is dropped."""
    return min(round(p * 2**32), 2**32 - 1)


def keep(bits: DropoutBits, num_entries: int, p: float) -> Tensor:
    """Return whether each entry is kept, ``[entries]``; ``p`` is the probability of dropping it."""
    key = mix(bits.seed.to(torch.int32))
    key = mix(key + bits.step.to(torch.int32))
    key = mix(key + bits.site)
    position = torch.arange(num_entries, dtype=torch.int32, device=key.device)
    # Each key has its own stride, so the bits of two steps are not one sequence with an offset.
    drawn = mix(position * (key | 1) + key)
    # Unsigned numbers compare like signed ones whose highest bit is flipped.
    return (drawn ^ -(2**31)) >= threshold(p) - 2**31


def drop(x: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        x: Any shape.
        activate: Apply a ReLU first.
    """
    kept = keep(bits, x.numel(), p).view_as(x)
    return ((torch.relu(x) if activate else x) * (1.0 / (1.0 - p))).masked_fill(~kept, 0.0)


def with_one_first(order_weights: Tensor) -> Tensor:
    r"""Return order weights ``[order]`` with :math:`\alpha_1 = 1`."""
    return torch.cat([torch.ones_like(order_weights[:1]), order_weights[1:]])


def multiply_up(parts: Sequence[Tensor]) -> list[Tensor]:
    r"""Return :math:`\mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}` for every order."""
    hidden = [parts[0]]
    for part in parts[1:]:
        hidden.append(part * hidden[-1])
    return hidden


def cross(projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool) -> Tensor:
    r"""Multiply up projections and sum the orders.

    .. math:: \mathbf{z} = \sum_k \alpha_k \mathbf{h}^k, \qquad
        \mathbf{h}^k = \mathbf{p}^k \odot \mathbf{h}^{k-1}

    Args:
        projections: ``[rows, order * channels]``, with the orders concatenated.
        order_weights: :math:`\alpha`, ``[order]``.
        release: Use the sum of all projections as :math:`\mathbf{h}^1` in the sum (NOTE[D2]).
        first_is_one: Use :math:`\alpha_1 = 1` instead of the first entry of ``order_weights``.
    """
    if first_is_one:
        order_weights = with_one_first(order_weights)
    alpha = order_weights.to(projections.dtype).unbind()
    parts = projections.chunk(len(alpha), dim=-1)
    hidden = multiply_up(parts)
    if release:
        hidden[0] = sum(parts[1:], start=parts[0])
    out = alpha[0] * hidden[0]
    for weight, crossed in zip(alpha[1:], hidden[1:], strict=True):
        out = out + weight * crossed
    return out
