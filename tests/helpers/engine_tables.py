"""The columns of tables in an engine, beside those that the package computes in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from benchmarks.drawn_tables import draw_tables
from crossgcn.data.relations import relations_of
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.graph.hop_file import HopTable
from crossgcn.graph.hops import HopColumns, RelationNames

__all__ = ["columns_of", "draw_tables", "largest_difference"]


def columns_of(table: HopTable) -> Tensor:
    """Return the columns that are in the file, which training computes again."""
    relations = (RelationNames(table.plan.relation),)
    names = table.columns.name_columns(table.encoder.space.names, relations=relations)
    return torch.tensor(pd.read_parquet(table.path, columns=names).to_numpy())


def largest_difference(table: HopTable, nodes: Path, edges: Path, **how: Any) -> float:
    """Return how far the columns of a file are from those in memory, relative to 1."""
    tables = load_tables(nodes, edges, TableChoices(target="buys"))
    assert table.encoder.space.names == tables.encoder.space.names
    place = {node_id: at for at, node_id in enumerate(tables.ids)}
    order = torch.tensor([place[node_id] for node_id in table.ids])
    assert torch.equal(table.data.y, tables.data.y[order])
    data = tables.data
    computed = HopColumns(data.x, relations_of(data), **how)
    assert isinstance(computed.without_labels, Tensor)
    expected = computed.without_labels[order]
    difference = (columns_of(table) - expected).abs() / expected.abs().clamp(min=1)
    return float(difference.max())
