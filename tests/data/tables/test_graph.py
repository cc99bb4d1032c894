from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crossgcn.data.features import Preprocess
from crossgcn.data.tables.graph import (
    TableGraph,
    describe_encoding,
    load_new_tables,
    load_tables,
    read_encoding,
)
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


def save(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("endings", ["csv csv", "tsv csv.gz", "parquet csv", "csv parquet"])
def test_every_kind_of_file_gives_the_same_graph(tmp_path: Path, endings: str) -> None:
    nodes, edges = tables()
    of_nodes, of_edges = endings.split()
    paths = save(nodes, tmp_path / f"n.{of_nodes}"), save(edges, tmp_path / f"e.{of_edges}")
    graph = load_tables(*paths, BUYS)
    assert equal(graph, load_tables(nodes, edges, BUYS))
    assert equal(graph, load_tables(nodes, edges.astype(str), BUYS))
    assert graph.data.name == str(paths[0])


def test_only_blank_cells_have_no_class() -> None:
    states = ["none", "mild", "severe", "NA", ""] * (N // 5)
    nodes, edges = tables(state=states)
    graph = load_tables(nodes, edges, TableChoices(target="state"))
    assert graph.classes == ("NA", "mild", "none", "severe")
    labels = [-1 if state == "" else graph.classes.index(state) for state in states]
    assert graph.data.y.tolist() == labels
    chosen = load_tables(nodes, edges, TableChoices(target="state", missing=(" na",)))
    assert chosen.classes == ("mild", "none", "severe")
    assert torch.equal(chosen.data.y < 0, torch.tensor([s in ("", "NA") for s in states]))


def features(graph: TableGraph, column: str) -> list[str]:
    space = graph.encoder.space
    pairs = zip(space.names, space.fields, strict=True)
    return sorted(name for name, field in pairs if field == column)


def test_the_words_for_a_missing_value_can_be_chosen_and_are_kept() -> None:
    pets = ["none", "cat", "?", "dog", "NA", ""] * (N // 6)
    lists = ["a;b", "none", "a", "?", "b", "a;b"] * (N // 6)
    nodes, edges = tables(pet=pets, tags=lists)
    usual = load_tables(nodes, edges, BUYS)
    assert features(usual, "pet") == ["pet=(missing)", "pet=(other)", "pet=?", "pet=cat", "pet=dog"]
    assert "tags:?" in features(usual, "tags") and "tags:none" not in features(usual, "tags")
    choices = TableChoices(target="buys", missing=("?", "-none"))
    graph = load_tables(nodes, edges, choices)
    assert graph.encoder.missing == ("?", "n/a", "na", "nan", "null")
    assert "pet=none" in features(graph, "pet") and "pet=?" not in features(graph, "pet")
    assert "tags:none" in features(graph, "tags") and "tags:?" not in features(graph, "tags")
    encoder, plan = read_encoding(saved_and_read(describe_encoding(graph)))
    assert (plan, encoder) == (graph.plan, graph.encoder)
    new = nodes.assign(customer=[f"new {i}" for i in range(N)])
    again = load_new_tables(new, None, encoder, plan, graph.ids)
    assert np.array_equal(again.x.toarray(), graph.data.x.to_dense().numpy())
    assert again.unseen == ()


def saved_and_read(preprocess: Preprocess) -> Preprocess:
    return Preprocess.from_json(json.loads(json.dumps(preprocess.to_json())))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan",), "text"),
        (("plan", "id_column"), 3),
        (("plan", "surplus"), 3),
        (("plan", "columns", 0, "kind"), "?"),
        (("encoder", "version"), 1),
        (("encoder", "missing"), "na"),
        (("encoder", "columns", 0, "kind"), "pickle"),
        (("encoder", "columns", 0, "has_missing"), "perhaps"),
        (("encoder", "columns", 1, "deviation"), 0.0),
        (("encoder", "columns", 1, "mean"), math.nan),
        (("encoder", "columns", 2, "separator"), "!"),
    ],
)
def test_a_damaged_encoding_is_refused(path: tuple[Any, ...], value: object) -> None:
    nodes, edges = tables(tags=["a;b", "b", "a", "b;a"] * (N // 4))
    saved = saved_and_read(describe_encoding(load_tables(nodes, edges, BUYS)))
    part: Any = saved.encoding
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    where = ".*".join(map(str, path)).replace("kind", "")
    with pytest.raises(BadInput, match=f"encoding of the tables is damaged at {where}.*train aga"):
        read_encoding(saved)


def test_equal_numbers_are_one_class() -> None:
    nodes, edges = tables(state=["1", "1.0", "2", "2.00", "0", "0.0", ""] * 17 + ["1"])
    graph = load_tables(nodes, edges, TableChoices(target="state"))
    assert graph.classes == ("0", "1", "2")
    assert graph.data.y[:7].tolist() == [1, 1, 2, 2, 0, 0, -1]
    assert "3 different whole numbers, read as classes" in graph.plan.reasons[-1]


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


def test_errors_of_the_check_are_raised_and_warnings_kept() -> None:
    nodes, edges = tables()
    ids = nodes["customer"].tolist()
    nodes["customer"] = [*ids[:5], ids[4], *ids[6:]]
    with pytest.raises(BadInput, match=r"2 error\(s\) in the tables.*\n  nodes, row 6, column cus"):
        load_tables(nodes, edges, BUYS)
    nodes, edges = tables()
    (problem,) = load_tables(nodes, pd.concat([edges, edges[:1]]), BUYS).problems
    assert "is listed before" in problem.describe()
