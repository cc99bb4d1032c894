"""How strongly the columns of a table are crossed with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from torch import nn

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.explanation.cross_rule import CrossRule
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.names import fitting_space
from crossgcn.explanation.reading import Graph, read_model
from crossgcn.explanation.terms import term_weights

__all__ = ["field_strengths"]

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
