"""Crosses by name, as ``gender=female & age=[20, 25)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import nn

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.occurrence import CrossRule
from crossgcn.explanation.reading import Graph, read_model
from crossgcn.explanation.terms import term_weights

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


_PAIRS_AT_ONCE = 200_000


def field_strengths(
    model: nn.Module, graph: Graph, *, space: FeatureSpace | Sequence[str] | None = None
) -> tuple[tuple[str, ...], Floats]:
    """Sums of the absolute strengths of all pairs between two fields, over all classes.

    A pair's strength is that of
    :func:`~crossgcn.explanation.strongest.strongest_crosses`. All pairs that occur and
    that lists may name count, however weak, so this is for graphs whose pairs can be
    counted.

    Args:
        model: A trained model.
        graph: The graph whose nodes are counted.
        space: Names and fields of the features.

    Returns:
        The fields in the order of their features, and a symmetric matrix with a row and a
        column for each.
    """
    reading = read_model(model, graph)
    space = fitting_space(space, reading.num_features)
    fields = tuple(dict.fromkeys(space.fields))
    position = {field: place for place, field in enumerate(fields)}
    field_of = np.array([position[field] for field in space.fields])
    sizes = abs(reading.inputs)
    together = sp.coo_array(sp.triu(sizes.T @ sizes, k=1))
    pairs = np.stack(together.coords, axis=1).astype(np.int64)
    allowed = CrossRule.of(space, reading.features).allows(pairs[:, 0], pairs[:, 1])
    pairs, occurrence = pairs[allowed], together.data[allowed] / reading.num_nodes
    layer, readout = reading.layers[0], reading.readout()
    strengths = np.zeros((len(fields), len(fields)))
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        some = slice(start, start + _PAIRS_AT_ONCE)
        weights = np.abs(term_weights(layer, pairs[some], reading.binary) @ readout.T).sum(axis=1)
        ends = field_of[pairs[some]]
        np.add.at(strengths, (ends[:, 0], ends[:, 1]), weights * occurrence[some])
    return fields, strengths + strengths.T - np.diag(np.diag(strengths))
