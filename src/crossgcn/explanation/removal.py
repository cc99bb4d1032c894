"""Measure what a model loses when a cross is removed from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import check_nodes
from crossgcn.explanation.occurrence import cross_products
from crossgcn.explanation.reading import Floats, Graph, Ints, Reading, read_model
from crossgcn.explanation.terms import fold, term_weights


def accuracy_without(
    model: nn.Module,
    graph: Graph,
    y: Tensor,
    nodes: Tensor,
    crosses: Sequence[tuple[int, ...]],
) -> Floats:
    """Return how much accuracy drops when the products of a cross are removed.

    The products are subtracted from every unit of the first layer at every node. The rest of the
    model stays as it is; it is not trained again.

    Args:
        y: Class of each node, ``[nodes]``.
        nodes: Where accuracy is measured: numbers of nodes, or a mask of all nodes.
        crosses: Features of each cross, as the tables of crosses list them.

    Returns:
        A fraction per cross; negative if the model is better without it.
    """
    reading = read_model(model, graph)
    if len(y) != reading.num_nodes:
        raise BadInput(f"y has {len(y)} entries, but the graph has {reading.num_nodes} nodes")
    chosen = check_nodes("nodes", nodes, reading.num_nodes)
    if not chosen.size or chosen.min() < 0 or chosen.max() >= reading.num_nodes:
        raise BadInput(
            "accuracy needs at least one node, each from 0 to "
            f"{reading.num_nodes - 1}; got {chosen.tolist()[:5]}"
        )
    for cross in crosses:
        if not cross or min(cross) < 0 or max(cross) >= reading.num_features:
            raise BadInput(
                f"the cross {cross} names a feature that does not exist; there are features 0 to "
                f"{reading.num_features - 1}"
            )
    labels = y.detach().cpu().numpy()[chosen]
    terms = [fold(cross, reading.binary) for cross in crosses]
    distinct = list(dict.fromkeys(terms))
    before = _accuracy(reading.logits[chosen], labels)
    drops = {
        term: before - _accuracy(logits[chosen], labels)
        for term, logits in zip(distinct, _logits_without(reading, distinct), strict=True)
    }
    return np.array([drops[term] for term in terms])


def _logits_without(reading: Reading, terms: Sequence[tuple[int, ...]]) -> Iterator[Floats]:
    """Yield the class scores of all nodes without each of the terms."""
    layer, adjacency = reading.layers[0], reading.adjacencies[0]
    products = cross_products(reading.inputs, terms)
    if adjacency is not None and not layer.aggregate_first:
        products = adjacency @ products
    products = products.tocsc()
    for position, term in enumerate(terms):
        weights = term_weights(layer, np.array([term], np.int64), reading.binary)[0]
        removed = products[:, [position]].toarray() * weights
        yield reading.continue_from(reading.outputs[0] - removed)


def _accuracy(logits: Floats, labels: Ints) -> float:
    return float((logits.argmax(axis=1) == labels).mean())
