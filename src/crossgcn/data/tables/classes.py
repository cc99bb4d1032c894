"""What the classes of a target are called."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np

from crossgcn.data.tables.columns import CODE
from crossgcn.data.tables.distinct import Distinct

__all__ = ["class_of_values", "name_classes"]


def class_of_values(target: Distinct) -> tuple[str | None, ...]:
    """The class that each different value stands for; none for a missing one.

    Space around a value does not count. If all are numbers, those that are equal are one
    class, called by the shortest way it is written: ``1`` and ``1.0`` are ``1``. Codes with
    leading zeros are no numbers.

    Args:
        target: The values of the column to predict.
    """
    texts = [value.strip() for value in target.values]
    names = {text for text, gone in zip(texts, target.missing, strict=True) if not gone}
    numbers = target.numbers[~target.missing]
    may_merge = not np.isnan(numbers).any() and len(np.unique(numbers)) < len(names)
    shortest = {name: name for name in names}
    if may_merge and not any(map(CODE.fullmatch, names)):
        by_value: dict[Decimal | str, list[str]] = {}
        for name in sorted(names, key=lambda name: (len(name), name)):
            by_value.setdefault(_exact(name), []).append(name)
        shortest = {name: same[0] for same in by_value.values() for name in same}
    return tuple(
        None if gone else shortest[text] for text, gone in zip(texts, target.missing, strict=True)
    )


def name_classes(target: Distinct) -> tuple[str, ...]:
    """The classes in order: numbers by size, anything else by the alphabet.

    Args:
        target: The values of the column to predict.
    """
    names = {name for name in class_of_values(target) if name is not None}
    if np.isnan(target.numbers[~target.missing]).any():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (float(name), name)))


def _exact(number: str) -> Decimal | str:
    """A number without rounding, for whole ones of twenty digits are told apart as well."""
    try:
        return Decimal(number)
    except InvalidOperation:  # An exponent of more digits than there are atoms.
        return number
