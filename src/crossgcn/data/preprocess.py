"""What a model's inputs and outputs mean: kept beside its weights as ``preprocess.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.data.name_runs import expand_names, shorten_names
from crossgcn.errors import BadInput

__all__ = ["Preprocess"]


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
                no word fell; see :mod:`~crossgcn.data.name_runs`.
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
