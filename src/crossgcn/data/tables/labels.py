"""The classes or numbers of a target column, and the roles of a split column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import SPLIT_WORDS, plain_id
from crossgcn.data.tables.kinds.date import find_date_formats, parse_dates
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Distinct, Mask, Table

MIN_PER_CLASS = 10  # classes of fewer nodes are rare, unless fewer than two would be left
MIN_TO_SPLIT = 3  # then a class needs one node each to train, to validate and to test


@dataclass(frozen=True)
class Labels:
    """The target of each node: a class or a number.

    Attributes:
        codes: Class of each node; -1 where it is unknown. For numbers, 0 where one is known.
        names: Names of the classes; for numbers, the name of the target column.
        numbers: Float64, NaN where unknown; None for classes.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    numbers: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, target: Distinct) -> Labels:
        """Read the classes of a target column, sorted by value if they are numbers, else by name.

        Surrounding space is ignored, and ``1.0`` is the class ``1`` if ``1`` occurs as well.
        """
        written = target.texts_present
        name_of = {text: plain_id(text) if plain_id(text) in written else text for text in written}
        number = dict(zip(target.texts, target.numbers.tolist(), strict=True))
        are_numbers = not np.isnan(target.numbers[~target.missing]).any()
        keys = {name: (number[name] if are_numbers else 0.0, name) for name in name_of.values()}
        names = sorted(keys, key=lambda name: keys[name])
        code_of = {name: code for code, name in enumerate(names)}
        codes = [code_of.get(name_of.get(text, ""), -1) for text in target.texts]
        return cls(np.array(codes, np.int64)[target.codes], tuple(names))

    @property
    def values(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """The labels as graphs hold them: codes, or numbers."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def known(self) -> Mask:
        """Whether each node has a label."""
        return self.codes >= 0

    @cached_property
    def num_known(self) -> int:
        """Number of nodes with a label."""
        return int(self.known.sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of nodes of each class."""
        return np.bincount(self.codes[self.known], minlength=len(self.names))

    def find_rare(self) -> tuple[Mask, int]:
        """Return which classes have too few nodes, and how many nodes a class needs."""
        is_enough = int((self.counts >= MIN_PER_CLASS).sum()) >= 2
        minimum = MIN_PER_CLASS if is_enough else MIN_TO_SPLIT
        return self.counts < minimum, minimum

    def without_rare(self) -> Labels:
        """Return the labels without rare classes, whose nodes lose their label."""
        is_rare, _ = self.find_rare()
        codes = np.append(np.where(is_rare, -1, np.cumsum(~is_rare) - 1), -1)
        return Labels(codes[self.codes], tuple(compress(self.names, ~is_rare)))


def read_labels(nodes: Table, plan: TablePlan) -> Labels:
    """Return the target of each node; all are unknown without a target column."""
    if plan.target is None:
        return Labels(np.full(len(nodes), -1, np.int64), ())
    target = nodes.distinct(plan.target)
    if plan.task == "regression":
        numbers = target.numbers[target.codes]
        return Labels(np.where(np.isnan(numbers), -1, 0), (plan.target,), numbers)
    labels = Labels.of(target)
    return labels if plan.rare_classes == "refuse" else labels.without_rare()


def read_times(column: Distinct) -> NDArray[np.float64]:
    """Return the time of each row, a number or days since 1970; NaN where there is none."""
    formats, num_dates = find_date_formats(list(column.texts_present))
    if num_dates <= (~np.isnan(column.numbers)).sum():
        return column.numbers[column.codes]
    days = (parse_dates(column.texts, formats[0]) - pd.Timestamp(0)).dt.days
    return np.asarray(days, np.float64)[column.codes]


def read_roles(split: Distinct) -> NDArray[np.int8]:
    """Return the role of each row: 0 if it is missing, -1 if the word names none."""
    roles = np.array([SPLIT_WORDS.get(text.lower(), -1) for text in split.texts], np.int8)
    return np.where(split.missing, np.int8(0), roles)[split.codes]
