"""The sparsity pattern of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

SEGMENT_LENGTH = 128


@dataclass(frozen=True)
class Segments:
    """Rows cut into segments of bounded length, so that GPU programs have similar work.

    A long row has several segments. Each writes its sum into a slot, and the slots of a row
    are added in order, so the result does not depend on scheduling. The longest segments come
    first, so that neighbouring programs work on segments of similar length.

    Attributes:
        row: Row of each segment, ``[segments]``.
        begin: Its first entry, ``[segments]``.
        end: One past its last entry, ``[segments]``.
        slot: Slot of its sum; ``-1`` if the segment is a whole row.
        long_rows: The rows of several segments.
        long_slots: Their first slots, and the total number, ``[long rows + 1]``.
        num_slots: Total number of slots.
    """

    row: Tensor
    begin: Tensor
    end: Tensor
    slot: Tensor
    long_rows: Tensor
    long_slots: Tensor
    num_slots: int


class Pattern:
    """Row offsets ``[rows + 1]`` and columns ``[nonzeros]`` of a CSR matrix."""

    def __init__(self, row_offsets: Tensor, columns: Tensor) -> None:
        self.row_offsets = row_offsets
        self.columns = columns

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
        """Return the pattern on another device; on a GPU with faster 32-bit indices."""
        small = torch.device(device).type == "cuda" and self.columns.numel() < 2**31
        dtype = torch.int32 if small else torch.int64
        return Pattern(self.row_offsets.to(device, dtype), self.columns.to(device, dtype))

    @cached_property
    def segments(self) -> Segments:
        """Segments of at most ``SEGMENT_LENGTH`` entries."""
        return cut_into_segments(self.row_offsets, SEGMENT_LENGTH)


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
