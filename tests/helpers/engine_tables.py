"""The columns of tables in an engine, beside those that the package computes in memory."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from benchmarks.drawn_tables import draw_tables
from crossgcn.data.stored.open import StoredGraph
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.kept_columns import columns_beside
from crossgcn.graph.sampling.source import source_of

__all__ = ["draw_tables", "largest_difference", "stored_columns"]


def largest_difference(graph: StoredGraph, nodes: Path, edges: Path) -> float:
    """Return how far the stored columns are from those of the tables in memory, relative to 1."""
    tables = load_tables(nodes, edges, TableChoices(target="buys"))
    assert graph.preprocess is not None and graph.preprocess.space is not None
    assert graph.preprocess.space.names == tables.encoder.space.names
    assert graph.ids is not None
    place = {node_id: at for at, node_id in enumerate(tables.ids)}
    order = torch.tensor([place[node_id] for node_id in graph.ids])
    assert torch.equal(graph.labels, tables.data.y[order])
    expected = HopColumns(source_of(tables.data)).without_labels
    assert isinstance(expected, Tensor)
    expected = expected[order]
    difference = (stored_columns(graph) - expected).abs() / expected.abs().clamp(min=1)
    return float(difference.max())


def stored_columns(graph: StoredGraph) -> Tensor:
    """Return the columns that lie beside a stored graph."""
    kept = columns_beside(graph, HopPlan(graph.num_features, directed=graph.directed))
    assert kept.find() is not None
    return kept.map()
