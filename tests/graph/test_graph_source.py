from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampling_cases import KINDS, draw_edges, spread
from torch_geometric.data import Data

from crossgcn import load_dataset
from crossgcn.data.features import csr_tensor
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.data.stored.open import open_graph
from crossgcn.graph import SparseMatrix, edges_of_kind
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.source import Features, MemoryGraph, source_of


@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.booleans())
def test_has_the_edges_of_a_prepared_graph_parallel_ones_and_all(
    seed: int, kind: Any, weighted: bool
) -> None:
    x, edges, weight = draw_edges(12, 40, seed)
    given_ = weight if weighted else None
    source = MemoryGraph(x, edges, given_)
    whole = edges_of_kind(kind, edges, 12, given_).to_scipy().toarray()
    rows = torch.arange(12)
    columns, block = ExactRows(source).block(rows, kind)
    np.testing.assert_allclose(spread(block, rows, columns, 12), whole, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_has_the_edges_of_citeseer(kind: Any) -> None:
    data = load_dataset("citeseer")
    source = source_of(data)
    nodes = torch.arange(0, data.num_nodes, 7)
    columns, block = ExactRows(source).block(nodes, kind)
    whole = edges_of_kind(kind, data.edge_index, data.num_nodes).to_scipy()[nodes.numpy()]
    difference = spread(block, nodes, columns, data.num_nodes) - whole.toarray()
    assert np.abs(difference).max() < 1e-6
    assert source.weights is None and source.neighbours.dtype == torch.int32


def test_rows_are_sorted_and_labels_are_unknown_unless_given() -> None:
    x, edges, _ = draw_edges()
    source = MemoryGraph(x, edges)
    for node in range(60):
        row = source.neighbours[source.offsets[node] : source.offsets[node + 1]]
        assert bool((row.diff() > 0).all())
    assert source.labels.eq(-1).all() and source.num_features == 6


def test_features_are_rows_dense_or_sparse(small_graph: Data) -> None:
    nodes = torch.tensor([4, 80, 4])
    sparse = source_of(small_graph).features(nodes)
    assert isinstance(sparse, SparseMatrix)
    dense = MemoryGraph(small_graph.x.to_dense(), small_graph.edge_index).features(nodes)
    assert isinstance(dense, torch.Tensor)
    np.testing.assert_array_equal(sparse.to_scipy().toarray(), dense)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_on_disk_gives_the_same_rows(tmp_path: Path, sparse: bool) -> None:
    x, edges, _ = draw_edges()
    edges = torch.unique(torch.cat([edges, edges.flip(0)], dim=1), dim=1)
    kept: Any = x
    if sparse:
        matrix = SparseMatrix.from_torch((x * (x > 1)).to_sparse_csr()).to_scipy()
        kept = csr_tensor(matrix.indptr, matrix.indices, matrix.data, (60, 6))
    data = Data(x=kept, edge_index=edges, y=torch.arange(60) % 3)
    store_graph(data, tmp_path / "graph")
    source, memory = source_of(open_graph(tmp_path / "graph")), source_of(data)
    assert torch.equal(source.offsets, memory.offsets)
    assert torch.equal(source.neighbours, memory.neighbours)
    nodes = torch.tensor([9, 3, 59])
    ours, theirs = source.features(nodes), memory.features(nodes)
    assert type(ours) is type(theirs)
    np.testing.assert_array_equal(as_array(ours), as_array(theirs))


def as_array(features: Features) -> Any:
    return features.to_scipy().toarray() if isinstance(features, SparseMatrix) else features
