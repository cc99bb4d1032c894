"""What a model loses without a cross."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.occurrence import cross_products
from crossgcn.explanation.reading import Graph, Reading, read_model
from crossgcn.explanation.terms import fold, term_weights


def accuracy_without(
    model: nn.Module,
    graph: Graph,
    y: Tensor,
    nodes: Tensor,
    crosses: Sequence[tuple[int, ...]],
) -> Floats:
    """By how much accuracy drops when the products of a cross are taken out.

    They are taken out of the first layer, of every unit at every node, exactly as they
    went in; the rest of the model goes on as it is. The model is not trained again.

    Args:
        model: A trained model.
        graph: The graph.
        y: Class of each node, ``[nodes]``.
        nodes: Where accuracy is measured: numbers of nodes, or a mask of all of them.
        crosses: Features of each cross, as tables of crosses list them.

    Returns:
        A fraction per cross; below 0 where the model does better without.
    """
    reading = read_model(model, graph)
    chosen = _check_nodes(reading, y, nodes)
    labels = y.detach().cpu().numpy()[chosen]
    for cross in crosses:
        if not cross or min(cross) < 0 or max(cross) >= reading.num_features:
            raise BadInput(
                f"the cross {cross} names a feature that does not exist; there are features 0 to "
                f"{reading.num_features - 1}"
            )
    terms = [fold(cross, reading.binary) for cross in crosses]
    distinct = list(dict.fromkeys(terms))
    before = _accuracy(reading.logits[chosen], labels)
    drops = {
        term: before - _accuracy(logits, labels)
        for term, logits in zip(distinct, _logits_without(reading, distinct, chosen), strict=True)
    }
    return np.array([drops[term] for term in terms])


def _logits_without(
    reading: Reading, terms: Sequence[tuple[int, ...]], nodes: NDArray[np.int64]
) -> list[Floats]:
    layer, adjacency = reading.layers[0], reading.adjacencies[0]
    products = cross_products(reading.inputs, terms)
    if adjacency is not None and not layer.aggregate_first:
        products = adjacency @ products
    products = products.tocsc()
    out = []
    for position, term in enumerate(terms):
        weights = term_weights(layer, np.array([term], np.int64), reading.binary)[0]
        column = products[:, [position]].toarray()
        if len(reading.layers) == 1:
            out.append(reading.logits[nodes] - column[nodes] * weights)
        else:
            out.append(reading.go_on(reading.first - column * weights, nodes))
    return out


def _accuracy(logits: Floats, labels: NDArray[np.int64]) -> float:
    return float((logits.argmax(axis=1) == labels).mean())


def _check_nodes(reading: Reading, y: Tensor, nodes: Tensor) -> NDArray[np.int64]:
    given = torch.as_tensor(nodes).detach().cpu()
    if given.dtype == torch.bool:
        if given.shape != (reading.num_nodes,):
            raise BadInput(
                f"nodes is a mask of shape {list(given.shape)}, but the graph has "
                f"{reading.num_nodes} nodes; give one entry per node, or numbers of nodes"
            )
        given = given.nonzero().flatten()
    chosen = given.numpy().astype(np.int64)
    if len(y) != reading.num_nodes:
        raise BadInput(f"y has {len(y)} entries, but the graph has {reading.num_nodes} nodes")
    if not chosen.size or chosen.min() < 0 or chosen.max() >= reading.num_nodes:
        raise BadInput(
            "accuracy needs at least one node, each from 0 to "
            f"{reading.num_nodes - 1}; got {chosen.tolist()[:5]}"
        )
    return chosen


def cross_stability(
    crosses: pd.DataFrame, others: Sequence[pd.DataFrame], *, top: int = 20
) -> pd.Series[float]:
    """In what share of models a cross is among the strongest of its class, with the same sign.

    Args:
        crosses: What :func:`~crossgcn.explanation.strongest_crosses` says of one model.
        others: What it says of the models to look in, one per split, the first itself if it
            is to count.
        top: How many of each class's strongest crosses to look among.

    Returns:
        A fraction for each row of ``crosses``.
    """
    if not others:
        raise BadInput("stability needs the crosses of at least one other model; none were given")
    seen = [_signs(frame, top) for frame in others]
    wanted = zip(crosses["class"], crosses["features"], np.sign(crosses["strength"]), strict=True)
    shares = [
        sum(signs.get((label, features)) == sign for signs in seen) / len(seen)
        for label, features, sign in wanted
    ]
    return pd.Series(shares, index=crosses.index, name="stability", dtype=float)


def _signs(frame: pd.DataFrame, top: int) -> dict[tuple[object, tuple[int, ...]], float]:
    strongest = frame.groupby("class", sort=False).head(top)
    return {
        (label, features): float(sign)
        for label, features, sign in zip(
            strongest["class"],
            strongest["features"],
            np.sign(strongest["strength"]),
            strict=True,
        )
    }
