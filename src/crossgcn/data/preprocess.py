"""What the inputs and outputs of a model mean; saved beside its weights as ``preprocess.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput


@dataclass(frozen=True)
class Preprocess:
    """Names of classes, in the order of the scores, and of features; how a table is encoded."""

    classes: tuple[str, ...]
    space: FeatureSpace | None = None
    encoding: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def numbered(cls, num_classes: int) -> Self:
        """Name classes by their numbers."""
        return cls(tuple(map(str, range(num_classes))))

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``preprocess.json``."""
        return {
            "classes": list(self.classes),
            "feature_names": None if self.space is None else list(self.space.names),
            "fields": None if self.space is None else list(self.space.fields),
            "encoding": self.encoding,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned."""
        if not isinstance(content, Mapping):
            raise BadInput("it is not an object {...}")
        classes, names, fields = (
            _read_names(content, key) for key in ("classes", "feature_names", "fields")
        )
        if classes is None:
            raise BadInput("it names no classes")
        encoding: Any = content.get("encoding")
        extra = content.get("extra") or {}
        if not all(isinstance(part, dict) for part in (encoding or {}, extra)):
            raise BadInput("encoding or extra is not an object {...}")
        space = None
        if names is not None:
            space = FeatureSpace(names, names if fields is None else fields)
        return cls(classes, space, encoding, extra)


def _read_names(content: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    names = content.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{key} is not a list of names")
    return tuple(names)
