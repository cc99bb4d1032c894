from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.graph import TableGraph, load_tables, name_classes
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput

N = 120


def tables(seed: int = 0, **columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A clean table of customers, and who recommended the shop to whom."""
    generator = np.random.default_rng(seed)
    ids = 2**53 + 1 + 2 * np.arange(N)
    nodes = pd.DataFrame(
        {
            "customer": ids,
            "gender": generator.choice(["female", "male"], N),
            "age": generator.integers(16, 80, N),
            "buys": generator.choice(["books", "toys", "garden"], N),
            **columns,
        }
    )
    ends = generator.integers(N, size=(2, 400))
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    return nodes, pd.DataFrame({"customer": ids[ends[0]], "friend": ids[ends[1]]})


BUYS = TableChoices(target="buys")


def test_frames_become_a_graph() -> None:
    nodes, edges = tables()
    graph = load_tables(nodes, edges, BUYS)
    assert graph.ids == tuple(map(str, nodes["customer"]))
    assert graph.classes == ("books", "garden", "toys")
    assert [graph.classes[label] for label in graph.data.y.tolist()] == nodes["buys"].tolist()
    assert graph.data.x.layout == torch.sparse_csr
    assert graph.data.x.dtype == torch.float32
    assert graph.data.x.shape == (N, len(graph.encoder.space))
    assert graph.data.num_classes == 3
    assert graph.data.get("roles") is None
    where = {name: at for at, name in enumerate(graph.ids)}
    wanted = {
        pair
        for a, b in edges.astype(str).itertuples(index=False)
        for pair in ((where[a], where[b]), (where[b], where[a]))
    }
    assert sorted(map(tuple, graph.data.edge_index.t().tolist())) == sorted(wanted)


def equal(first: TableGraph, second: TableGraph) -> bool:
    tensors = [
        [graph.data.x.to_dense(), graph.data.edge_index, graph.data.y] for graph in (first, second)
    ]
    return (
        first.ids == second.ids
        and first.classes == second.classes
        and first.encoder == second.encoder
        and all(map(torch.equal, *tensors))
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
def test_every_kind_of_file_gives_the_same_graph(tmp_path: Path, ending: str) -> None:
    frames = tables()
    paths = [tmp_path / f"{name}.{ending}" for name in ("nodes", "edges")]
    for frame, path in zip(frames, paths, strict=True):
        if ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    graph = load_tables(paths[0], paths[1], BUYS)
    assert equal(graph, load_tables(*frames, BUYS))
    assert graph.data.name == str(paths[0])


def test_ids_of_numbers_and_of_text_are_the_same_ids(tmp_path: Path) -> None:
    nodes, edges = tables()
    assert equal(load_tables(nodes, edges, BUYS), load_tables(nodes, edges.astype(str), BUYS))
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    mixed = load_tables(tmp_path / "nodes.parquet", tmp_path / "edges.csv", BUYS)
    assert equal(load_tables(nodes, edges, BUYS), mixed)


def test_nodes_without_a_target_are_unlabelled() -> None:
    nodes, edges = tables()
    nodes.loc[3, "buys"] = None
    nodes.loc[50, "buys"] = " NA "
    graph = load_tables(nodes, edges, BUYS)
    assert torch.nonzero(graph.data.y < 0).flatten().tolist() == [3, 50]
    assert len(graph.classes) == 3


def test_without_edges_and_without_a_target() -> None:
    nodes, _ = tables()
    graph = load_tables(nodes, None, TableChoices(id_column="customer", ignored=("buys",)))
    assert graph.data.edge_index.shape == (2, 0)
    assert graph.classes == ()
    assert bool((graph.data.y == -1).all())


def test_self_loops_are_left_out_and_repeated_edges_weigh_their_mean() -> None:
    nodes, _ = tables()
    a, b, c = nodes["customer"].iloc[:3]
    edges = pd.DataFrame({"u": [a, b, c, b], "v": [b, a, c, c], "weight": [1.0, 4.0, 9.0, 0.5]})
    data = load_tables(nodes, edges, BUYS).data
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [2.5, 2.5, 0.5, 0.5]
    plain = load_tables(nodes, edges[["u", "v"]], BUYS).data
    assert plain.edge_index.tolist() == data.edge_index.tolist()
    assert plain.get("edge_weight") is None


def test_a_split_column_becomes_roles() -> None:
    words = ["train", " TRAIN", "Validation", "val", "valid", "Test", "", "training"]
    nodes, edges = tables(part=[words[i % 8] for i in range(N)])
    graph = load_tables(nodes, edges, TableChoices(target="buys", split_column="part"))
    assert graph.data.roles.shape == (1, N)
    assert graph.data.roles[0, :8].tolist() == [1, 1, 2, 2, 2, 3, 0, 1]
    assert "part" not in graph.encoder.space.fields


def test_what_the_check_finds_is_refused_or_kept() -> None:
    nodes, edges = tables()
    ids = nodes["customer"].tolist()
    nodes["customer"] = [*ids[:5], ids[4], *ids[6:]]
    with pytest.raises(
        BadInput, match=r"error\(s\) in the tables(.|\n)*crossgcn check nodes edges -"
    ):
        load_tables(nodes, edges, BUYS)
    nodes, edges = tables(constant="x")
    assert any(
        "constant" in finding.describe() for finding in load_tables(nodes, edges, BUYS).findings
    )


def test_an_unknown_word_in_a_split_names_its_row() -> None:
    nodes, edges = tables(part=["train", "test", "holdout"] * (N // 3))
    with pytest.raises(BadInput, match=r"row 3(.|\n)*'?holdout'?"):
        load_tables(nodes, edges, TableChoices(target="buys", split_column="part"))


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["10", "9", "-1", "", "2.5"], ("-1", "2.5", "9", "10")),
        (["b", "a ", "a", "10", "9", "NA"], ("10", "9", "a", "b")),
        (["true", "false"], ("false", "true")),
    ],
)
def test_classes_are_sorted_as_people_would(cells: list[str], classes: tuple[str, ...]) -> None:
    assert name_classes(Distinct.of(pd.Series(cells, dtype="str"))) == classes
