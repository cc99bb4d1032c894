"""Read ids, edges and classes from tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import shorten
from crossgcn.data.tables.columns import CODE
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput

MAX_WEIGHT = float(np.finfo(np.float32).max)


def list_ids(nodes: Table, column: str) -> tuple[str, ...]:
    """Return the id of each node.

    Raises:
        BadInput: If an id is missing or not unique.
    """
    distinct = nodes.distinct(column)
    if distinct.blank.any():
        row = int(np.argmax(distinct.blank[distinct.codes]))
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(row)}, column {column}: there is no id; "
            "give every node one"
        )
    repeated = np.flatnonzero(distinct.counts > 1)
    if len(repeated):
        first, second = np.flatnonzero(distinct.codes == repeated[0])[:2]
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(second)}, column {column}: "
            f"{shorten(distinct.values[repeated[0]])} is the id of row "
            f"{nodes.row_number(first)} as well; keep one of the rows, or rename one"
        )
    return tuple(nodes.frame[column].tolist())


def find_nodes(table: Table, column: str, ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each cell among the ids, -1 where it is not one of them."""
    positions = {name: at for at, name in enumerate(ids)}
    distinct = table.distinct(column)
    found = np.array([positions.get(value, -1) for value in distinct.values], np.int64)
    return found[distinct.codes]


def read_edges(
    edges: Table | None, plan: TablePlan, ids: Sequence[str], remedy: str
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Return the edges ``[2, edges]`` without self-loops, and their weights if they have any.

    ``remedy`` says what to do about an end that is none of the ``ids``.

    Raises:
        BadInput: If an end is not a node, or a weight is not a number from 0 up.
    """
    if edges is None or plan.source_column is None or plan.destination_column is None:
        return np.empty((2, 0), np.int64), None
    columns = [edges.require(name) for name in (plan.source_column, plan.destination_column)]
    ends = np.stack([find_nodes(edges, column, ids) for column in columns])
    for column, found in zip(columns, ends, strict=True):
        edges.refuse_cells(column, found < 0, "there is no node {value}", remedy)
    is_loop = ends[0] == ends[1]
    if plan.weight_column is None:
        return ends[:, ~is_loop], None
    distinct = edges.distinct(edges.require(plan.weight_column))
    weights = distinct.numbers[distinct.codes]
    edges.refuse_cells(
        plan.weight_column,
        ~((weights >= 0) & (weights <= MAX_WEIGHT)),
        "{value} is not a weight",
        "write a number that is not negative",
    )
    return ends[:, ~is_loop], weights[~is_loop].astype(np.float32)


def class_of_values(target: Distinct) -> tuple[str | None, ...]:
    """Return the class of each different value of the target, None for a missing one.

    Surrounding space is ignored. If all values are numbers, equal numbers are one class, named
    by its shortest form: ``1`` and ``1.0`` are ``1``. Codes with leading zeros stay text.
    """
    texts = [value.strip() for value in target.values]
    names = {text for text, gone in zip(texts, target.missing, strict=True) if not gone}
    numbers = target.numbers[~target.missing]
    may_merge = not np.isnan(numbers).any() and len(np.unique(numbers)) < len(names)
    shortest = {name: name for name in names}
    if may_merge and not any(map(CODE.fullmatch, names)):
        by_value: dict[Decimal | str, list[str]] = {}
        for name in sorted(names, key=lambda name: (len(name), name)):
            by_value.setdefault(_exact(name), []).append(name)
        shortest = {name: same[0] for same in by_value.values() for name in same}
    return tuple(
        None if gone else shortest[text] for text, gone in zip(texts, target.missing, strict=True)
    )


def _exact(number: str) -> Decimal | str:
    """Return a number without rounding, which tells integers of twenty digits apart."""
    try:
        return Decimal(number)
    except InvalidOperation:  # The exponent has too many digits.
        return number


def name_classes(target: Distinct) -> tuple[str, ...]:
    """Return the classes in order: numbers by size, text by the alphabet."""
    names = {name for name in class_of_values(target) if name is not None}
    if np.isnan(target.numbers[~target.missing]).any():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (float(name), name)))
