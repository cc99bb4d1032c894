"""What the columns of a feature matrix are called, and which of them belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossgcn.errors import BadInput

__all__ = ["FeatureSpace"]


@dataclass(frozen=True)
class FeatureSpace:
    """Names of the features, and the field each comes from.

    A field is a column of the user's table. A category of it is a feature, such as
    ``gender=female``; so is a range of a number, ``age=[20, 25)``, and the number itself,
    ``age``. Two features of one field name no cross.

    Attributes:
        names: Of each feature, all different.
        fields: The field of each feature.
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.fields):
            raise BadInput(
                f"{len(self.names)} features have names, but {len(self.fields)} have a field: "
                "give one of each per feature"
            )

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def unnamed(cls, num_features: int) -> FeatureSpace:
        """``x0``, ``x1``, ...: each a field of its own, for features that have no names."""
        names = tuple(f"x{position}" for position in range(num_features))
        return cls(names, names)

    @classmethod
    def named(cls, names: Sequence[str]) -> FeatureSpace:
        """The given names, each a field of its own."""
        return cls(tuple(names), tuple(names))
