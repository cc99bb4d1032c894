"""Crosses by name, as ``gender=female & age=[20, 25)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.errors import BadInput

__all__ = ["fitting_space", "name_cross", "object_column"]

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def name_cross(space: FeatureSpace, features: Sequence[int]) -> str:
    """The names of the features that are multiplied; ``age²`` where one is multiplied twice.

    Args:
        space: The features' names.
        features: Their positions.
    """
    powers = Counter(features)
    return " & ".join(
        space.names[feature] + (str(power).translate(_RAISED) if power > 1 else "")
        for feature, power in powers.items()
    )


def fitting_space(space: FeatureSpace | Sequence[str] | None, num_features: int) -> FeatureSpace:
    """The names given, or numbered ones.

    Args:
        space: Names and fields, or just names.
        num_features: How many there must be.

    Raises:
        BadInput: If there are fewer or more.
    """
    if space is None:
        return FeatureSpace.unnamed(num_features)
    if not isinstance(space, FeatureSpace):
        space = FeatureSpace.named(space)
    if len(space) != num_features:
        raise BadInput(
            f"{len(space)} feature names were given, but the graph has {num_features} features; "
            "give one name per feature"
        )
    return space


def object_column(values: Sequence[object]) -> NDArray[np.object_]:
    """A table's column of tuples or names, which NumPy would else take for rows."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
