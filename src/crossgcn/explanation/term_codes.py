"""Products of features as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TermCodes"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TermCodes:
    """A number for each product of some features.

    Its digits in base ``len(features) + 1`` are the features, counted from 1 in
    ``features``, ascending, after zeros where the product is shorter.

    Attributes:
        features: The features that occur.
        length: Most features of a product.
    """

    features: Ints
    length: int

    @property
    def base(self) -> int:
        """One more than there are features."""
        return len(self.features) + 1

    def encode(self, members: Ints) -> Ints:
        """The codes of products, each a row of places in ``features``, ascending."""
        code = members[:, 0] + 1
        for place in range(1, members.shape[1]):
            code = code * self.base + members[:, place] + 1
        return code

    def digits(self, codes: Ints) -> Ints:
        """The digits of each code, ``[codes, length]``."""
        places = reversed(range(self.length))
        return np.stack([codes // self.base**place % self.base for place in places], axis=1)

    def decode(self, codes: Ints) -> list[tuple[int, ...]]:
        """The features of each code, ascending."""
        names = np.concatenate([[-1], self.features])[self.digits(codes)]
        return [tuple(name for name in row if name >= 0) for row in names.tolist()]
