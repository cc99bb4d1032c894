"""Long lists of names written short: runs that are counted up, and runs of the same name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from crossgcn.errors import BadInput

__all__ = ["expand_names", "shorten_names"]

SHORTEST = 64
"""A run of fewer names is written out."""

MOST_NAMES = 1 << 28
"""So many names no model has."""

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,17})", re.DOTALL)


def shorten_names(names: Sequence[str]) -> list[str | list[Any]]:
    """Names, with long runs in brackets.

    ``["city#", 5, 99]`` stands for ``city#5`` to ``city#98``, and ``["city", 99]`` for ``city``
    as many times.

    Args:
        names: Any.
    """
    short: list[str | list[Any]] = []
    first = 0
    while first < len(names):
        same = _count_same(names, first)
        numbered = _NUMBERED.fullmatch(names[first])
        counted = _count_up(names, first, numbered[1], int(numbered[2])) if numbered else 1
        length = max(same, counted)
        if length < SHORTEST:
            short += names[first : first + length]
        elif same == length:
            short.append([names[first], length])
        elif numbered is not None:
            start = int(numbered[2])
            short.append([numbered[1], start, start + length])
        first += length
    return short


def expand_names(short: Any, what: str) -> tuple[str, ...]:
    """Read back what :func:`shorten_names` gave; names that were all written out too.

    Args:
        short: From a file.
        what: They are, for messages.

    Raises:
        BadInput: If it is something else.
    """
    if not isinstance(short, list):
        raise BadInput(f"{what} is not a list of names")
    names: list[str] = []
    for part in short:
        match part:
            case str():
                names.append(part)
            case [str(name), int(times)] if 0 <= times <= MOST_NAMES - len(names):
                names += [name] * times
            case [str(name), int(start), int(stop)] if (
                0 <= start <= stop and stop - start <= MOST_NAMES - len(names)
            ):
                names += [f"{name}{number}" for number in range(start, stop)]
            case _:
                raise BadInput(f"{what} is not a list of names")
    return tuple(names)


def _count_same(names: Sequence[str], first: int) -> int:
    end = first + 1
    while end < len(names) and names[end] == names[first]:
        end += 1
    return end - first


def _count_up(names: Sequence[str], first: int, name: str, start: int) -> int:
    end = first + 1
    while end < len(names) and names[end] == f"{name}{start + end - first}":
        end += 1
    return end - first
