"""What a model's inputs and outputs mean: kept beside its weights as ``preprocess.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput

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


@dataclass(frozen=True)
class Preprocess:
    """Classes, features, and how a table becomes features.

    Attributes:
        classes: Name of each class, in the order of the scores.
        space: Names and fields of the features, where they have any.
        encoding: How a table of nodes is encoded, where the model came from one.
        extra: What else a saver wants to find again.
    """

    classes: tuple[str, ...]
    space: FeatureSpace | None = None
    encoding: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def numbered(cls, num_classes: int) -> Self:
        """Classes that have numbers for names."""
        return cls(tuple(map(str, range(num_classes))))

    def to_json(self, *, short: bool = True) -> dict[str, Any]:
        """As ``preprocess.json`` holds it.

        Args:
            short: Write long runs of names short, such as those of hashed features into which
                no word fell; see :mod:`~crossgcn.data.preprocess`.
        """
        write = shorten_names if short else list
        return {
            "classes": list(self.classes),
            "feature_names": None if self.space is None else write(self.space.names),
            "fields": None if self.space is None else write(self.space.fields),
            "encoding": self.encoding,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_json` gave.

        Raises:
            BadInput: If something is missing or of the wrong kind.
        """
        classes, names, fields = (
            None if content.get(key) is None else expand_names(content[key], key) for key in _LISTS
        )
        if classes is None:
            raise BadInput("it names no classes")
        return cls(
            classes,
            None if names is None else FeatureSpace(names, names if fields is None else fields),
            content.get("encoding"),
            content.get("extra") or {},
        )


_LISTS = ("classes", "feature_names", "fields")
