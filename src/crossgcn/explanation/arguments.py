"""Check the arguments of an explanation: numbers, nodes, and names of features and classes."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.reading import Ints

Names: TypeAlias = FeatureSpace | Sequence[str] | None
"""Names of features, as users give them; ``None`` numbers the features."""


def check_integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Return an integer of any type as ``int``; refuse everything else."""
    remedy = "a whole number" if at_least is None else f"a whole number of at least {at_least}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (at_least is not None and number < at_least):
        raise BadInput(f"{name} is {value!r}; give {remedy}")
    return number


def check_nodes(name: str, given: Any, num_nodes: int) -> Ints:
    """Return node numbers from a number, a list of numbers, or a mask of all nodes.

    Negative numbers are returned as they are.
    """
    chosen = torch.as_tensor(given).detach().cpu()
    if chosen.dtype == torch.bool:
        if chosen.shape != (num_nodes,):
            raise BadInput(
                f"{name} is a mask of shape {list(chosen.shape)}, but the graph has {num_nodes} "
                "nodes; give one entry per node, or numbers of nodes"
            )
        chosen = chosen.nonzero()
    return chosen.flatten().numpy().astype(np.int64)


def check_classes(classes: Sequence[Any] | None, num_classes: int) -> Sequence[Any]:
    """Return the names of the classes, or their numbers if there are no names."""
    if classes is None:
        return range(num_classes)
    if len(classes) != num_classes:
        raise BadInput(
            f"{len(classes)} class names were given, but the model has {num_classes} classes; "
            "give one name per class, in the order of their numbers"
        )
    return classes


def check_class(name: str, classes: Sequence[str]) -> int:
    """Return the position of a class."""
    if name not in classes:
        raise unknown_name("class", name, classes)
    return classes.index(name)


def check_features(space: Names, num_features: int) -> FeatureSpace:
    """Return the names of the features, numbered if there are no names."""
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


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def name_cross(space: FeatureSpace, features: Sequence[int]) -> str:
    """Return the name of a product of features, as ``gender=female & age²``."""
    powers = Counter(features)
    return " & ".join(
        space.names[feature] + (str(power).translate(_SUPERSCRIPTS) if power > 1 else "")
        for feature, power in powers.items()
    )
