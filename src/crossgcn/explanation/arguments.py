"""Checks of what is asked for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from crossgcn.errors import BadInput


def check_integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """An integer of any kind, as Python's own.

    Args:
        name: What it is, for the message.
        value: What was given.
        at_least: The smallest that makes sense.

    Raises:
        BadInput: If it is none, or too small.
    """
    remedy = "a whole number" if at_least is None else f"a whole number of at least {at_least}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (at_least is not None and number < at_least):
        raise BadInput(f"{name} is {value!r}; give {remedy}")
    return number


def check_classes(classes: Sequence[Any] | None, num_classes: int) -> Sequence[Any]:
    """Names of the classes, or their numbers where none were given.

    Args:
        classes: What was given.
        num_classes: How many there must be.

    Raises:
        BadInput: If there are fewer or more.
    """
    if classes is None:
        return range(num_classes)
    if len(classes) != num_classes:
        raise BadInput(
            f"{len(classes)} class names were given, but the model has {num_classes} classes; "
            "give one name per class, in the order of their numbers"
        )
    return classes
