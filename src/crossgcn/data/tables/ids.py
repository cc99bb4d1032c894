"""Which row a node's id stands for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.columns import shorten
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

__all__ = ["NodeIds", "list_ids"]


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
