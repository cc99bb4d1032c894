"""Counter-based random bits for dropout.

Whether an entry is dropped is a hash of the run's seed, the training step, the site of the dropout
in the model and the position of the entry. Every device and kernel drops the same entries, and
backward computes the bits again instead of keeping a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DropoutBits:
    """What the random bits depend on, besides the position of an entry.

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

    They are stored as int32, whose overflow wraps around like that of unsigned numbers.
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
    # Each key has a stride of its own, so that two steps do not read one sequence with an offset.
    drawn = mix(position * (key | 1) + key)
    # Unsigned numbers compare like signed ones whose highest bit is flipped.
    return (drawn ^ -(2**31)) >= threshold(p) - 2**31
