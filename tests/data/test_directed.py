"""Edges that lead one way keep their direction wherever a graph is brought or kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from crossgcn.data import canonical_graph, read_graph, save_graph

Command = Callable[..., CompletedProcess[str]]
NODES = 5


def by_hand(edges: list[tuple[int, int, float]], weighted: bool) -> Data:
    ends = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T.copy()
    return Data(
        x=torch.eye(NODES),
        edge_index=torch.from_numpy(ends),
        edge_weight=torch.tensor([edge[2] for edge in edges]) if weighted else None,
        y=torch.arange(NODES) % 2,
        num_classes=2,
        name="mine",
        directed=True,
    )


def table_of(data: Data) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weight from each node to each other, nowhere twice."""
    table = np.full((NODES, NODES), np.nan)
    weights = (
        np.ones(data.edge_index.size(1))
        if data.get("edge_weight") is None
        else (data.edge_weight.numpy())
    )
    for (source, target), weight in zip(data.edge_index.T.tolist(), weights, strict=True):
        assert np.isnan(table[source, target])
        table[source, target] = weight
    return table


ENDS = st.integers(0, NODES - 1)
EDGES = st.lists(st.tuples(ENDS, ENDS, st.integers(0, 40).map(lambda n: n / 8)), min_size=1)


@given(EDGES, st.booleans())
def test_repeated_edges_become_one_and_none_is_turned(
    edges: list[tuple[int, int, float]], weighted: bool
) -> None:
    expected = np.full((NODES, NODES), np.nan)
    for source, target, _ in edges:
        same = [weight for *ends, weight in edges if ends == [source, target]]
        expected[source, target] = np.float32(np.mean(same)) if weighted else 1.0
    adopted = canonical_graph(by_hand(edges, weighted))
    np.testing.assert_array_equal(table_of(adopted), expected)
    again = canonical_graph(adopted)
    assert again.directed and torch.equal(again.edge_index, adopted.edge_index)


@pytest.mark.parametrize("weighted", [False, True])
def test_files_keep_the_direction(tmp_path: Path, weighted: bool) -> None:
    data = by_hand([(3, 0, 2.0), (0, 3, 1.0), (4, 1, 0.5), (2, 2, 3.0), (4, 0, 1.5)], weighted)
    save_graph(tmp_path / "mine.npz", data)
    loaded = read_graph(tmp_path / "mine.npz")
    save_graph(tmp_path / "again.npz", loaded)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "mine.npz").read_bytes()
    assert loaded.directed and loaded.edge_index.size(1) == 5
    np.testing.assert_array_equal(table_of(loaded), table_of(canonical_graph(data)))


def test_a_file_that_says_no_such_thing_is_undirected(tmp_path: Path, small_graph: Data) -> None:
    save_graph(tmp_path / "small.npz", small_graph)
    arrays = dict(np.load(tmp_path / "small.npz"))
    assert "directed" not in arrays
    np.savez(tmp_path / "no.npz", **arrays, directed=np.array(False))
    assert "directed" not in read_graph(tmp_path / "no.npz")
