"""Whether edges have weights that neighbours can be averaged by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crossgcn.data.tables.check_places import Place, Rule
from crossgcn.data.tables.edges import LARGEST
from crossgcn.data.tables.findings import Finding
from crossgcn.data.tables.table import Table

__all__ = ["check_edge_weights"]


def check_edge_weights(edges: Table, weight_column: str) -> Iterator[Finding]:
    """Weights that are missing, no numbers, infinite, negative or nothing.

    Args:
        edges: The edge table.
        weight_column: Where its weights are.
    """
    weights, place = edges.distinct(weight_column), Place(edges, weight_column)
    numbers = weights.numbers
    yield from place.at_values(
        weights.missing,
        Rule(
            "missing-edge-weight",
            "error",
            "the edge has no weight",
            "write a number, 1 for an ordinary edge, or delete the row",
        ),
    )
    yield from place.at_values(
        np.isnan(numbers) & ~weights.missing,
        Rule(
            "bad-edge-weight",
            "error",
            "{value} is no number",
            "write the weight as a number such as 0.5",
        ),
    )
    yield from place.at_values(
        abs(numbers) > LARGEST,
        Rule(
            "infinite-edge-weight",
            "error",
            "{value} is more than a weight can be",
            "write a finite number below 1e38, or delete the row",
        ),
    )
    yield from place.at_values(
        (numbers < 0) & (numbers >= -LARGEST),
        Rule(
            "negative-edge-weight",
            "error",
            "{value} is negative, and neighbours are averaged by weight",
            "shift or rescale the weights to be positive, or delete the row",
        ),
    )
    yield from place.at_values(
        numbers == 0,
        Rule(
            "zero-edge-weight",
            "warning",
            "the weight is {value}: the edge connects nothing",
            "delete the row, or write what the edge weighs",
        ),
    )
