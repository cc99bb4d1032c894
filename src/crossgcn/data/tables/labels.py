"""The classes of a target column, and the roles of a split column."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import CODE, SPLIT_WORDS
from crossgcn.data.tables.table import Distinct, Mask, Table


@dataclass(frozen=True)
class Labels:
    """The class of each node.

    Attributes:
        codes: -1 where a node has no class.
        names: Of the classes, in order of first appearance.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, target: Distinct) -> Labels:
        """Read the classes of a target column."""
        names = np.array(class_of_values(target), dtype=object)
        code_of_value, different = pd.factorize(names)
        return cls(code_of_value.astype(np.int64)[target.codes], tuple(different))

    @property
    def known(self) -> Mask:
        """Whether each node has a class."""
        return self.codes >= 0

    @cached_property
    def num_known(self) -> int:
        """Number of nodes with a class."""
        return int(self.known.sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of nodes of each class."""
        return np.bincount(self.codes[self.known], minlength=len(self.names))


def class_of_values(target: Distinct) -> tuple[str | None, ...]:
    """Return the class of each different value of the target, None for a missing one.

    Surrounding space is ignored. If all values are numbers, equal numbers are one class, named
    by its shortest form: ``1`` and ``1.0`` are ``1``. Codes with leading zeros stay text.
    """
    names = {text for text, _ in target.present}
    numbers = target.numbers[~target.missing]
    may_merge = not np.isnan(numbers).any() and len(np.unique(numbers)) < len(names)
    shortest = {name: name for name in names}
    if may_merge and not any(map(CODE.fullmatch, names)):
        first: dict[Decimal | str, str] = {}
        for name in sorted(names, key=lambda name: (len(name), name)):
            shortest[name] = first.setdefault(_exact(name), name)
    pairs = zip(target.texts, target.missing, strict=True)
    return tuple(None if gone else shortest[text] for text, gone in pairs)


def _exact(number: str) -> Decimal | str:
    """Return a number without rounding, which tells integers of twenty digits apart."""
    try:
        return Decimal(number)
    except InvalidOperation:  # The exponent has too many digits.
        return number


def name_classes(target: Distinct) -> tuple[str, ...]:
    """Return the classes in order: numbers by size, text by the alphabet."""
    names = {name for name in class_of_values(target) if name is not None}
    if np.isnan(target.numbers[~target.missing]).any():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (float(name), name)))


def read_labels(nodes: Table, target: str | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the label of each node, -1 for none, and the names of the classes."""
    if target is None:
        return np.full(len(nodes), -1, np.int64), ()
    distinct = nodes.distinct(target)
    classes = name_classes(distinct)
    labels: dict[str | None, int] = {name: label for label, name in enumerate(classes)}
    of_value = np.array([labels.get(name, -1) for name in class_of_values(distinct)], np.int64)
    return of_value[distinct.codes], classes


def role_of_values(split: Distinct) -> NDArray[np.int8]:
    """Return the role that each different value names: 0 for a missing one, -1 for none."""
    roles = [SPLIT_WORDS.get(text.lower(), -1) for text in split.texts]
    return np.where(split.missing, 0, np.array(roles, np.int8)).astype(np.int8)


def read_roles(
    nodes: Table, column: str | None, labels: NDArray[np.int64]
) -> NDArray[np.int8] | None:
    """Return the role of each node as one split, int8 ``[1, nodes]``: 0 for no role.

    Nodes without a label have no role. Without a column there are no roles. Cells that name no
    role are refused.
    """
    if column is None:
        return None
    distinct = nodes.distinct(column)
    roles = role_of_values(distinct)[distinct.codes]
    nodes.refuse_cells(
        column,
        roles < 0,
        "{value} is not a part of a split",
        "write train, validation or test, or leave the cell empty",
    )
    return np.where(labels < 0, np.int8(0), roles)[None]
