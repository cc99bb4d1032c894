"""Find the crosses that drive each class, over a whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from torch import nn

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import (
    Names,
    check_classes,
    check_features,
    check_integer,
    name_cross,
)
from crossgcn.explanation.expansion import term_weights
from crossgcn.explanation.occurrence import CrossRule, cross_products
from crossgcn.explanation.pairs import pair_factors, top_pairs
from crossgcn.explanation.reading import Floats, Graph, Reading, read_model
from crossgcn.explanation.tuples import LIMIT, TupleSearch

Found = list[tuple[int, tuple[int, ...], float]]
"""Class, features and weight of each term."""

_PAIRS_AT_ONCE = 200_000
_STABLE = 0.5


def strongest_crosses(
    model: nn.Module,
    graph: Graph,
    *,
    space: Names = None,
    classes: Sequence[Any] | None = None,
    order: int | None = None,
    top: int = 20,
    limit: int = LIMIT,
) -> pd.DataFrame:
    """Return the crosses with the largest |weight| × occurrence for each class, exactly.

    A cross multiplies at least two different features. Its weight is that of the first layer,
    symmetrised, with powers of 0/1 features folded in. Later layers count with their first-order
    weights, where each hidden unit counts with the share of nodes at which it is active. Crosses
    that never occur are not listed, nor crosses of a column with itself, such as a number with a
    range of it; see :class:`~crossgcn.explanation.occurrence.CrossRule`.

    Args:
        space: Names of the features.
        classes: Names of the classes; their numbers by default.
        order: Number of features of a cross; all orders from 2 by default. The table is empty if
            the first layer has a lower order.
        top: How many crosses per class.
        limit: How many products of three or more features to visit per class and order. If the
            limit was reached, ``frame.attrs["complete"]`` is ``False``.

    Returns:
        Columns ``class``, ``cross``, ``features``, ``order``, ``weight``, ``occurrence`` (mean
        absolute value of the product over all nodes), ``support`` (number of nodes at which the
        product is not 0) and ``strength`` (weight × occurrence), sorted by |strength|.
    """
    top = check_integer("top", top, at_least=1)
    if order is not None:
        order = check_integer("order", order, at_least=2)
    reading = read_model(model, graph)
    space = check_features(space, reading.num_features)
    rule = CrossRule.of(space, reading.features)
    layer, readout = reading.layers[0], reading.readout()
    found: Found = []
    complete = True
    for length in range(2, layer.order + 1):
        if order not in (None, length):
            continue
        if length == 2:
            factors = pair_factors(layer, readout, reading.binary)
            results = top_pairs(factors, reading.inputs, top, rule)
        else:
            searches = [
                TupleSearch(layer, row, reading.inputs, rule, length=length, top=top, limit=limit)
                for row in readout
            ]
            complete &= all(search.complete for search in searches)
            results = [search.best for search in searches]
        for label, best in enumerate(results):
            found += [
                (label, tuple(features), float(weight))
                for features, weight in zip(best.features.tolist(), best.weight, strict=True)
            ]
    frame = _tabulate(reading, found, space, classes, top)
    frame.attrs["complete"] = complete
    return frame


def first_order_terms(
    model: nn.Module,
    graph: Graph,
    *,
    space: Names = None,
    classes: Sequence[Any] | None = None,
    top: int = 20,
) -> pd.DataFrame:
    """Return the strongest single features for each class, as :func:`strongest_crosses` does.

    Powers of a 0/1 feature are folded into its weight; powers of other features have their own
    rows, such as ``age²``.
    """
    top = check_integer("top", top, at_least=1)
    reading = read_model(model, graph)
    space = check_features(space, reading.num_features)
    layer, readout, inputs = reading.layers[0], reading.readout(), reading.inputs
    found: Found = []
    for power in range(1, layer.order + 1):
        alone = np.flatnonzero(~reading.binary) if power > 1 else np.arange(reading.num_features)
        terms = np.repeat(alone[:, np.newaxis], power, axis=1)
        weights = term_weights(layer, terms, reading.binary) @ readout.T
        sums = np.bincount(inputs.indices, np.abs(inputs.data) ** power, minlength=inputs.shape[1])
        sizes = (sums / reading.num_nodes)[alone]
        for label in range(len(readout)):
            strength = np.abs(weights[:, label]) * sizes
            strongest = np.argsort(-strength, kind="stable")[:top]
            found += [
                (label, tuple(terms[place].tolist()), float(weights[place, label]))
                for place in strongest[strength[strongest] > 0]
            ]
    return _tabulate(reading, found, space, classes, top)


def _tabulate(
    reading: Reading,
    found: Found,
    space: FeatureSpace,
    classes: Sequence[Any] | None,
    top: int,
) -> pd.DataFrame:
    classes = check_classes(classes, reading.logits.shape[1])
    terms = list(dict.fromkeys(features for _, features, _ in found))
    products = cross_products(reading.inputs, terms)
    means = np.asarray(abs(products).sum(axis=0)).ravel() / reading.num_nodes
    support = np.diff(products.indptr)
    position = {features: place for place, features in enumerate(terms)}
    places = np.array([position[features] for _, features, _ in found], np.int64)
    frame = pd.DataFrame(
        {
            "label": [label for label, _, _ in found],
            "class": [classes[label] for label, _, _ in found],
            "cross": [name_cross(space, features) for _, features, _ in found],
            "features": pd.Series([features for _, features, _ in found], dtype=object),
            "order": [len(features) for _, features, _ in found],
            "weight": np.array([weight for _, _, weight in found], np.float64),
            "occurrence": means[places],
            "support": support[places].astype(np.int64),
        }
    )
    frame["strength"] = frame["weight"] * frame["occurrence"]
    order = np.lexsort((-frame["strength"].abs().to_numpy(), frame["label"].to_numpy()))
    frame = frame.iloc[order].groupby("label", sort=False).head(top)
    return frame.drop(columns="label").reset_index(drop=True)


def field_strengths(
    model: nn.Module, graph: Graph, *, space: Names = None
) -> tuple[tuple[str, ...], Floats]:
    """Return the sum of |strength| of all pairs between two fields, over all classes.

    Every pair that occurs and may be named counts, so the graph must be small enough to list
    them. The strength of a pair is that of :func:`strongest_crosses`.

    Returns:
        The fields in the order of their features, and a symmetric matrix of them.
    """
    reading = read_model(model, graph)
    space = check_features(space, reading.num_features)
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


def cross_stability(
    crosses: pd.DataFrame, models: Sequence[nn.Module], graph: Graph, classes: Sequence[Any]
) -> pd.Series[float]:
    """Return the share of models in which a cross has the same sign and at least half the weight.

    Args:
        crosses: The table of :func:`strongest_crosses` for one model; a cross counts alone,
            whatever else is listed.
        models: The models to search, one per split; include that of ``crosses`` to count it.
        classes: Names of the classes, as in ``crosses``.
    """
    if not models:
        raise BadInput("stability needs at least one other model; none were given")
    labels = crosses["class"].map(list(classes).index).to_numpy(np.int64)
    agree = np.zeros(len(crosses))
    for model in models:
        reading = read_model(model, graph)
        layer, readout = reading.layers[0], reading.readout()
        weights = np.zeros(len(crosses))
        for length in crosses["order"].unique():
            places = np.flatnonzero(crosses["order"] == length)
            terms = np.array(crosses["features"].iloc[places].tolist(), np.int64)
            of_units = term_weights(layer, terms, reading.binary)
            weights[places] = (of_units * readout[labels[places]]).sum(axis=1)
        agree += weights * np.sign(crosses["weight"]) >= _STABLE * crosses["weight"].abs()
    return pd.Series(agree / len(models), index=crosses.index, name="stability", dtype=float)
