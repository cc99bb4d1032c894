from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data import (
    StoredGraph,
    build_graph,
    canonical_graph,
    csr_tensor,
    load_dataset,
    make_splits,
    open_graph,
    store_graph,
)
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.format import PAGE
from crossgcn.data.stored.open import open_dataset
from crossgcn.data.stored.write import writing_graph
from crossgcn.errors import BadInput

LEAST = 1 << 20


@st.composite
def multigraphs(draw: st.DrawFn) -> tuple[int, NDArray[np.int64], NDArray[np.float32]]:
    """Few nodes and many edges: repeated ones, both directions, self-loops, isolated nodes."""
    num_nodes = draw(st.integers(1, 12))
    end = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(end, end, st.integers(0, 1000)), max_size=60))
    ends = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T
    return num_nodes, ends, np.array([edge[2] / 8 for edge in edges], np.float32)


def slow_matrix(
    num_nodes: int, ends: NDArray[np.int64], weight: NDArray[np.float32], directed: bool
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """How often each entry comes, and the sum of its weights, in float64."""
    source, target = ends
    other = np.zeros(0, bool) if directed else source != target
    if directed:
        rows, columns, values = target, source, weight.astype(np.float64)
    else:
        rows = np.concatenate([target, source[other]])
        columns = np.concatenate([source, target[other]])
        values = np.concatenate([weight, weight[other]]).astype(np.float64)
    shape = (num_nodes, num_nodes)
    counts = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape).tocsr()
    sums = sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()
    counts.sum_duplicates()
    sums.sum_duplicates()
    return counts, sums


@given(multigraphs(), st.booleans(), st.booleans(), st.integers(1, 70))
def test_a_multigraph_becomes_the_matrix_scipy_makes_of_it(
    tmp_path_factory: pytest.TempPathFactory,
    multigraph: tuple[int, NDArray[np.int64], NDArray[np.float32]],
    directed: bool,
    weighted: bool,
    chunk: int,
) -> None:
    num_nodes, ends, weight = multigraph
    chunks: list[tuple[NDArray[Any], ...]] = []
    for at in range(0, ends.shape[1], chunk):
        part = slice(at, at + chunk)
        chunks.append((*ends[:, part], *((weight[part],) if weighted else ())))
    out = tmp_path_factory.mktemp("graphs") / "graph"
    graph = build_graph(iter(chunks), out=out, num_nodes=num_nodes, directed=directed)
    counts, sums = slow_matrix(num_nodes, ends, weight, directed)
    assert graph.offsets.tolist() == counts.indptr.tolist()
    assert graph.neighbours.tolist() == counts.indices.tolist()
    assert graph.num_self_loops == (counts.diagonal() > 0).sum()
    if weighted and chunks:
        assert graph.weights is not None
        torch.testing.assert_close(graph.weights, torch.tensor(sums.data / counts.data).float())
    else:
        assert graph.weights is None


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_and_memory_change_no_byte(tmp_path: Path, weighted: bool) -> None:
    random = np.random.default_rng(0)
    ends = random.integers(0, 700, (2, 60_000))
    weight = [random.random(60_000, dtype=np.float32)] if weighted else []
    pages = []
    for chunk, memory in ((60_000, 1 << 30), (7_001, LEAST), (60_000, LEAST)):
        folder = tmp_path / f"{chunk}-{memory}"
        with writing_graph(folder, num_nodes=700, weighted=weighted, memory_limit=memory) as writer:
            for at in range(0, 60_000, chunk):
                part = slice(at, at + chunk)
                writer.add_edges(*ends[:, part], *(part_of[part] for part_of in weight))
        pages.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert pages[0] == pages[1] == pages[2]
    graph = open_graph(folder)
    if weighted:
        assert graph.weights is not None
        data = canonical_graph(
            Data(
                x=torch.ones(700, 1),
                edge_index=torch.from_numpy(ends),
                edge_weight=torch.from_numpy(weight[0]),
                y=torch.zeros(700, dtype=torch.int64),
            )
        )
        assert torch.equal(graph.weights, data.edge_weight)
        assert graph.neighbours.tolist() == data.edge_index[1].tolist()


def equal_data(first: Data, second: Data) -> bool:
    for name in ("x", "edge_index", "edge_weight", "y", "roles"):
        one, other = first.get(name), second.get(name)
        if (one is None) != (other is None):
            return False
        if one is None:
            continue
        if one.layout != other.layout or one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.layout == torch.sparse_csr:
            one, other = one.to_dense(), other.to_dense()
        if not torch.equal(one, other):
            return False
    return bool(first.num_classes == second.num_classes)


def test_a_graph_comes_back_as_it_was(small_graph: Data, tmp_path: Path) -> None:
    names = Preprocess(("a", "b", "c"))
    stored = store_graph(small_graph, tmp_path / "plain", preprocess=names)
    assert equal_data(stored.to_data(), canonical_graph(small_graph))
    assert stored.preprocess == names
    heavy = small_graph.clone()
    heavy.x = heavy.x.to_dense()
    heavy.edge_index = torch.cat([heavy.edge_index, torch.tensor([[3, 5], [3, 5]])], dim=1)
    heavy.edge_weight = torch.rand(heavy.edge_index.shape[1])
    stored = store_graph(heavy, tmp_path / "heavy")
    assert equal_data(stored.to_data(), canonical_graph(heavy))
    assert stored.num_self_loops >= 2 and stored.preprocess is None


def test_numbers_to_predict_come_back_as_they_were(small_graph: Data, tmp_path: Path) -> None:
    data = small_graph.clone()
    data.y = torch.linspace(-2.5, 7.25, data.num_nodes)
    data.y[3] = torch.nan
    del data.num_classes
    stored = store_graph(data, tmp_path / "graph")
    opened = open_dataset(tmp_path / "graph")
    assert opened.num_classes == stored.count_classes() == 1
    torch.testing.assert_close(opened.y, data.y, rtol=0, atol=0, equal_nan=True)


def test_a_folder_is_a_dataset_with_its_own_splits(small_graph: Data, tmp_path: Path) -> None:
    store_graph(small_graph, tmp_path / "mine")
    data = load_dataset(tmp_path / "mine")
    assert data.name == "mine" and equal_data(data, canonical_graph(small_graph))
    (split,) = make_splits(data, "public")
    assert split.train.tolist() == list(range(30))


def test_features_are_gathered_in_the_order_asked_for(small_graph: Data, tmp_path: Path) -> None:
    nodes = torch.tensor([7, 3, 3, 89, 0])
    whole = small_graph.x.to_dense()
    sparse_graph = store_graph(small_graph, tmp_path / "sparse")
    assert sparse_graph.features(nodes).layout == torch.sparse_csr
    assert torch.equal(sparse_graph.features(nodes).to_dense(), whole[nodes])
    assert sparse_graph.features(nodes[:0]).shape == (0, 24)
    dense = small_graph.clone()
    dense.x = whole
    stored = store_graph(dense, tmp_path / "dense")
    rows = stored.features(nodes)
    assert torch.equal(rows, whole[nodes])
    rows += 1
    assert torch.equal(stored.features(nodes), whole[nodes]), "rows are copies"


def test_sparse_features_may_come_in_pieces(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).random((50, 9), dtype=np.float32)
    matrix = sparse.csr_array(np.where(drawn < 0.3, drawn, np.float32(0)))
    with writing_graph(tmp_path / "graph", num_nodes=50) as writer:
        for start in (0, 17, 30):
            stop = {0: 17, 17: 30, 30: 50}[start]
            writer.add_sparse_features(sparse.csr_array(matrix[start:stop]))
    whole = csr_tensor(matrix.indptr, matrix.indices, matrix.data, (50, 9))
    assert torch.equal(open_graph(tmp_path / "graph").features().to_dense(), whole.to_dense())


def test_a_directed_edge_is_an_entry_of_its_second_end(tmp_path: Path) -> None:
    graph = build_graph(np.array([[0, 0, 2], [1, 2, 1]]), out=tmp_path / "one way", directed=True)
    assert graph.offsets.tolist() == [0, 0, 2, 3]
    assert graph.neighbours.tolist() == [0, 2, 0]
    assert graph.num_edges == 3
    both = build_graph(np.array([[0, 0, 1], [1, 2, 1]]), out=tmp_path / "both")
    assert both.num_edges == 3 and both.num_entries == 5
    _, target = to_undirected(torch.tensor([[0, 0, 1], [1, 2, 1]]))
    assert both.neighbours.tolist() == target.tolist()


def test_another_process_opens_the_folder_and_not_a_copy(small_graph: Data, tmp_path: Path) -> None:
    graph = store_graph(small_graph, tmp_path / "graph")
    packed = pickle.dumps(graph)
    assert len(packed) < 1000
    again: StoredGraph = pickle.loads(packed)
    assert again.fingerprint == graph.fingerprint
    assert torch.equal(again.neighbours, graph.neighbours)


def test_equal_graphs_have_equal_fingerprints(small_graph: Data, tmp_path: Path) -> None:
    first = store_graph(small_graph, tmp_path / "a").fingerprint
    assert store_graph(small_graph, tmp_path / "b").fingerprint == first
    small_graph.y[0] = 1
    assert store_graph(small_graph, tmp_path / "c").fingerprint != first


@pytest.mark.parametrize("name", ["neighbours.npy", "offsets.npy", "feature_values.npy"])
def test_a_file_cut_short_or_missing_is_named(name: str, small_graph: Data, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    store_graph(small_graph, folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-8])
    with pytest.raises(BadInput, match=rf"{name}: has [\d,]+ bytes where .* make it again"):
        open_graph(folder)
    (folder / name).unlink()
    with pytest.raises(BadInput, match=f"{name}: is missing; make it again"):
        open_graph(folder)
    os.mkfifo(folder / name)  # It has no writer, so opening it would wait for ever.
    with pytest.raises(BadInput, match=rf"{name}: has 0 bytes where .* make it again"):
        open_graph(folder)


def test_a_folder_without_its_page_was_never_finished(small_graph: Data, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    store_graph(small_graph, folder)
    page = json.loads((folder / PAGE).read_bytes())
    (folder / PAGE).write_text(json.dumps(page | {"num_nodes": 91}))
    with pytest.raises(BadInput, match=r"graph\.json: was changed after it was written"):
        open_graph(folder)
    (folder / PAGE).write_text(json.dumps(page)[:-20])
    with pytest.raises(BadInput, match=r"graph\.json: is not valid JSON"):
        open_graph(folder)
    (folder / PAGE).write_text(json.dumps(page | {"version": 99}))
    with pytest.raises(BadInput, match="has version 99 where this crossgcn reads 2"):
        open_graph(folder)
    (folder / PAGE).unlink()
    for opened in (open_graph, load_dataset):
        with pytest.raises(BadInput, match=r"there is no graph\.json, so .* never finished"):
            opened(folder)


def test_a_changed_number_is_found_when_asked_for(small_graph: Data, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    graph = store_graph(small_graph, folder)
    graph.verify()
    content = bytearray((folder / "labels.npy").read_bytes())
    content[-8] ^= 1
    (folder / "labels.npy").write_bytes(content)
    with pytest.raises(BadInput, match=r"labels\.npy: was changed after it was written"):
        open_graph(folder).verify()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    bare = build_graph(np.array([[0], [1]]), out=tmp_path / "bare")
    assert (bare.num_nodes, bare.num_classes) == (2, None)
    assert bare.labels.tolist() == [-1, -1]
    with pytest.raises(BadInput, match=r"the nodes have no features; .* --nodes FILE"):
        bare.to_data()
    with pytest.raises(BadInput, match="there are no edges"):
        build_graph(np.empty((2, 0), np.int64), out=tmp_path / "nothing")
    with pytest.raises(BadInput, match=r"edge 1 ends in node 5, which does not exist; .* 0 to 4"):
        build_graph(np.array([[0, 5], [1, 1]]), out=tmp_path / "far", num_nodes=5)
    ends = np.array([0, 1, 2])
    for chunk, words in (
        ((ends, ends + 1, np.array([1.0, -2.0, 1.0])), r"edge 4 weighs -2\.0; weights are finite"),
        ((ends, ends + 1, np.ones(2)), r"weights are \[2\] for 3 edges"),
        ((ends, ends + 1), "some edges have weights and some have none"),
        ((ends, ends[:2], np.ones(3)), r"ends of edges are int64 \[2\]"),
        ((ends + 0.5, ends, np.ones(3)), r"ends of edges are float64 \[3\]"),
    ):
        with pytest.raises(BadInput, match=words):
            build_graph(iter([(ends, ends, np.ones(3)), chunk]), out=tmp_path / "wrong")
    with (
        pytest.raises(BadInput, match="labels are given for 2 nodes, but there are 3"),
        writing_graph(tmp_path / "few", num_nodes=3) as writer,
    ):
        writer.set_labels(np.zeros(2, np.int64), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["bare"]
