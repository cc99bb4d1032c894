"""Rows of an edge table as pairs of nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.columns import shorten
from crossgcn.data.tables.ids import NodeIds
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

__all__ = ["read_edges"]

LARGEST = float(np.finfo(np.float32).max)


def read_edges(
    edges: Table | None, plan: TablePlan, ids: NodeIds, remedy: str
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Both ends of each edge, [2, edges], and the weights; self-loops are left out.

    Args:
        edges: The table; without one there are no edges.
        plan: Says which columns to read.
        ids: The nodes that there are.
        remedy: What to do about an end that is no node.

    Raises:
        BadInput: An end that is no node, or a weight that is none.
    """
    if edges is None or plan.source_column is None or plan.destination_column is None:
        return np.empty((2, 0), np.int64), None
    ends = np.stack(
        [
            ids.find_all(edges, edges.require(column), remedy)
            for column in (plan.source_column, plan.destination_column)
        ]
    )
    proper = ends[0] != ends[1]
    if plan.weight_column is None:
        return ends[:, proper], None
    return ends[:, proper], _read_weights(edges, edges.require(plan.weight_column))[proper]


def _read_weights(edges: Table, column: str) -> NDArray[np.float32]:
    distinct = edges.distinct(column)
    numbers = distinct.numbers[distinct.codes]
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= LARGEST)))
    if len(wrong):
        value = distinct.values[distinct.codes[wrong[0]]]
        raise BadInput(
            f"{edges.name}, row {edges.row_number(wrong[0])}, column {column}: {shorten(value)} is "
            f"no weight ({len(wrong)} such in all); write a number that is not negative"
        )
    return numbers.astype(np.float32)
