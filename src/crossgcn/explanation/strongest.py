"""The crosses that drive each class, over a whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.arguments import check_classes, check_integer
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.names import fitting_space, name_cross, object_column
from crossgcn.explanation.occurrence import CrossRule, cross_products
from crossgcn.explanation.pairs import pair_factors, top_pairs
from crossgcn.explanation.reading import Graph, Reading, read_model
from crossgcn.explanation.terms import term_weights
from crossgcn.explanation.tuples import LIMIT, top_tuples

Found = list[tuple[int, tuple[int, ...], float]]


def strongest_crosses(
    model: nn.Module,
    graph: Graph,
    *,
    space: FeatureSpace | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    order: int | None = None,
    top: int = 20,
    limit: int = LIMIT,
) -> pd.DataFrame:
    """The crosses of largest weight × occurrence for each class, exactly.

    A cross multiplies at least two different features. Its weight is that of the first
    layer, symmetrised, with powers of 0/1 features folded in; through later layers it is
    read out by their first-order weights, each hidden unit counting with the share of
    nodes at which it is active. Crosses that never occur are not listed, nor are those of
    one column with itself, such as a number with a range of it, see
    :class:`~crossgcn.explanation.occurrence.CrossRule`.

    Args:
        model: A trained model.
        graph: The graph whose nodes are counted.
        space: Names of the features.
        classes: Names of the classes; numbers when left out.
        order: Features of a cross; all orders from 2 when left out. A first layer of lower
            order has no such crosses: the table is then empty.
        top: How many crosses per class.
        limit: How many tuples of three or more features to look at per class and order.
            Where that was not enough, ``frame.attrs["complete"]`` is ``False``.

    Returns:
        Columns ``class``, ``cross``, ``features``, ``order``, ``weight``, ``occurrence`` (mean
        size of the product over all nodes: how often 0/1 features occur together),
        ``support`` (nodes at which it is not 0) and ``strength``, the product of weight and
        occurrence, by whose size each class's rows are sorted.
    """
    top = check_integer("top", top, at_least=1)
    if order is not None:
        order = check_integer("order", order, at_least=2)
    reading = read_model(model, graph)
    space = fitting_space(space, reading.num_features)
    rule = CrossRule.of(space, reading.features)
    layer, readout = reading.layers[0], reading.readout()
    orders = range(2, layer.order + 1)
    if order is not None:
        orders = range(order, min(order, layer.order) + 1)
    found: Found = []
    complete = True
    for length in orders:
        if length == 2:
            factors = pair_factors(layer, readout, reading.binary)
            results = top_pairs(factors, reading.inputs, top, rule)
        else:
            searches = [
                top_tuples(layer, row, reading.inputs, rule, length=length, top=top, limit=limit)
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
    space: FeatureSpace | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    top: int = 20,
) -> pd.DataFrame:
    """What single features do for each class, in the columns of :func:`strongest_crosses`.

    Powers of a 0/1 feature are folded into its weight; those of others are rows of their
    own, such as ``age²``.

    Args:
        model: A trained model.
        graph: The graph whose nodes are counted.
        space: Names of the features.
        classes: Names of the classes; numbers when left out.
        top: How many terms per class.
    """
    top = check_integer("top", top, at_least=1)
    reading = read_model(model, graph)
    space = fitting_space(space, reading.num_features)
    layer, readout = reading.layers[0], reading.readout()
    found: Found = []
    for power in range(1, layer.order + 1):
        alone = np.flatnonzero(~reading.binary) if power > 1 else np.arange(reading.num_features)
        terms = np.repeat(alone[:, np.newaxis], power, axis=1)
        weights = term_weights(layer, terms, reading.binary) @ readout.T
        sizes = _mean_powers(reading, power)[alone]
        for label in range(len(readout)):
            strength = np.abs(weights[:, label]) * sizes
            strongest = np.argsort(-strength, kind="stable")[:top]
            found += [
                (label, tuple(terms[place].tolist()), float(weights[place, label]))
                for place in strongest[strength[strongest] > 0]
            ]
    return _tabulate(reading, found, space, classes, top)


def _mean_powers(reading: Reading, power: int) -> Floats:
    inputs = reading.inputs
    sums = np.bincount(inputs.indices, np.abs(inputs.data) ** power, minlength=inputs.shape[1])
    return sums / reading.num_nodes


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
    support = dict(zip(terms, np.diff(products.indptr).tolist(), strict=True))
    means = np.asarray(abs(products).sum(axis=0)).ravel() / reading.num_nodes
    occurrence = dict(zip(terms, means.tolist(), strict=True))
    frame = pd.DataFrame(
        {
            "label": [label for label, _, _ in found],
            "class": [classes[label] for label, _, _ in found],
            "cross": [name_cross(space, features) for _, features, _ in found],
            "features": object_column([features for _, features, _ in found]),
            "order": [len(features) for _, features, _ in found],
            "weight": np.array([weight for _, _, weight in found], np.float64),
            "occurrence": np.array([occurrence[features] for _, features, _ in found], np.float64),
            "support": np.array([support[features] for _, features, _ in found], np.int64),
        }
    )
    frame["strength"] = frame["weight"] * frame["occurrence"]
    order = np.lexsort((-frame["strength"].abs().to_numpy(), frame["label"].to_numpy()))
    frame = frame.iloc[order].groupby("label", sort=False).head(top)
    return frame.drop(columns="label").reset_index(drop=True)
