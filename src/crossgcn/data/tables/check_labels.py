"""The classes of the nodes, as the checks need them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.classes import class_of_values
from crossgcn.data.tables.distinct import Distinct

__all__ = ["Labels"]


@dataclass(frozen=True)
class Labels:
    """Who is of which class.

    Attributes:
        codes: The class of each node; -1 where it has none.
        names: Of the classes, in order of first appearance, as the trained model will call them.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, target: Distinct) -> Labels:
        """The different values of the target column."""
        names = np.array(class_of_values(target), dtype=object)
        code_of_value, different = pd.factorize(names)
        return cls(code_of_value.astype(np.int64)[target.codes], tuple(different))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which nodes have a class."""
        return self.codes >= 0

    @property
    def counts(self) -> NDArray[np.int64]:
        """Nodes of each class."""
        return np.bincount(self.codes[self.known], minlength=len(self.names))
