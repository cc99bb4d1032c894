"""Tables of nodes that a trained model has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.tables.cells import shorten
from crossgcn.data.tables.encode.categories import Unseen
from crossgcn.data.tables.encode.encoder import TableEncoder
from crossgcn.data.tables.ids import NodeIds, list_ids, read_edges
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.read import INDEX_COLUMN, read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

__all__ = ["NewNodes", "Unseen", "load_new_tables"]


@dataclass(frozen=True)
class NewNodes:
    """Nodes to be scored.

    Attributes:
        x: Their features, float32 [new nodes, features].
        ids: Their names.
        edges: As written, without self-loops: int64 [2, edges]. The known nodes come first,
            the new ones after them: the first new node is ``len(known_ids)``.
        edge_weight: Of each edge, where edges have weights.
        unused: Columns that the model was not trained with, and so are not looked at.
        unseen: What the columns hold that the nodes trained on did not; it is scored as a rare
            category is.
    """

    x: sparse.csr_array
    ids: tuple[str, ...]
    edges: NDArray[np.int64]
    edge_weight: NDArray[np.float32] | None
    unused: tuple[str, ...]
    unseen: tuple[Unseen, ...] = ()


def load_new_tables(
    nodes: Path | str | pd.DataFrame,
    edges: Path | str | pd.DataFrame | None,
    encoder: TableEncoder,
    plan: TablePlan,
    known_ids: Sequence[str],
) -> NewNodes:
    """Read nodes as the model was trained to read them; columns are found by their headers.

    Args:
        nodes: A row a new node.
        edges: Between new nodes, or between new and known ones; there may be none.
        encoder: Fitted to the known nodes.
        plan: What the columns were taken for.
        known_ids: The nodes trained on, in their order.

    Raises:
        BadInput: Naming the file, the row, the value and the remedy.
    """
    node_table = read_table(nodes, "nodes")
    ids = list_ids(node_table, node_table.require(plan.id_column))
    _refuse_known(node_table, plan.id_column, NodeIds(known_ids))
    edge_table = None if edges is None else read_table(edges, "edges")
    if edge_table is not None and plan.source_column is None:
        raise BadInput(
            f"{edge_table.name}: the model was trained without edges and has no use for any; "
            "leave them out, or train it with a table of edges"
        )
    ends, edge_weight = read_edges(
        edge_table,
        plan,
        NodeIds([*known_ids, *ids]),
        f"it is neither in {node_table.name} nor among the {len(known_ids):,} nodes trained on: "
        f"add it to {node_table.name}, or delete the edge",
    )
    passed_over = {INDEX_COLUMN, *(column.name for column in plan.columns)}
    return NewNodes(
        x=encoder.transform(node_table),
        ids=ids,
        edges=ends,
        edge_weight=edge_weight,
        unused=tuple(name for name in node_table.columns if name not in passed_over),
        unseen=encoder.find_unseen(node_table),
    )


def _refuse_known(nodes: Table, column: str, known: NodeIds) -> None:
    rows = np.flatnonzero(known.find(nodes, column) >= 0)
    if len(rows):
        value = nodes.frame[column].iloc[rows[0]]
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(rows[0])}, column {column}: the model was "
            f"trained on {shorten(value)} ({len(rows)} such in all); give new nodes only, or "
            "rename it if it is another node"
        )
