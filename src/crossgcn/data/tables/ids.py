"""Which row a node's id stands for."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import shorten
from crossgcn.data.tables.columns import CODE
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput


class NodeIds:
    """Ids in the order of their nodes, compared as text to the last character.

    Args:
        ids: All different.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._positions = {name: at for at, name in enumerate(ids)}

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, table: Table, column: str) -> NDArray[np.int64]:
        """The node that each cell of a column names, -1 where it names none.

        Args:
            table: Of edges, for instance.
            column: With ids in it.
        """
        distinct = table.distinct(column)
        found = np.array([self._positions.get(value, -1) for value in distinct.values], np.int64)
        return found[distinct.codes]

    def find_all(self, table: Table, column: str, remedy: str) -> NDArray[np.int64]:
        """The node that each cell of a column names.

        Args:
            table: Of edges, for instance.
            column: With ids in it.
            remedy: What to do about a cell that names no node.

        Raises:
            BadInput: Naming the first such cell.
        """
        found = self.find(table, column)
        wrong = np.flatnonzero(found < 0)
        if len(wrong):
            value = table.frame[column].iloc[wrong[0]]
            raise BadInput(
                f"{table.name}, row {table.row_number(wrong[0])}, column {column}: there is no "
                f"node {shorten(value)} ({len(wrong)} such in all); {remedy}"
            )
        return found


def list_ids(nodes: Table, column: str) -> tuple[str, ...]:
    """The id of each node.

    Raises:
        BadInput: An id is missing, or there twice.
    """
    distinct = nodes.distinct(column)
    empty = [at for at, value in enumerate(distinct.values) if not value.strip()]
    if empty:
        row = int(np.flatnonzero(distinct.codes == empty[0])[0])
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


def class_of_values(target: Distinct) -> tuple[str | None, ...]:
    """The class that each different value stands for; none for a missing one.

    Space around a value does not count. If all are numbers, those that are equal are one
    class, called by the shortest way it is written: ``1`` and ``1.0`` are ``1``. Codes with
    leading zeros are no numbers.

    Args:
        target: The values of the column to predict.
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


def name_classes(target: Distinct) -> tuple[str, ...]:
    """The classes in order: numbers by size, anything else by the alphabet.

    Args:
        target: The values of the column to predict.
    """
    names = {name for name in class_of_values(target) if name is not None}
    if np.isnan(target.numbers[~target.missing]).any():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (float(name), name)))


def _exact(number: str) -> Decimal | str:
    """A number without rounding, for whole ones of twenty digits are told apart as well."""
    try:
        return Decimal(number)
    except InvalidOperation:  # An exponent of more digits than there are atoms.
        return number
