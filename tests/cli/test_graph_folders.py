from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd

from crossgcn.data.stored.open import open_graph

Command = Callable[..., CompletedProcess[str]]


def test_tables_are_imported_shown_and_trained_on(crossgcn: Command) -> None:
    assert crossgcn("example", "--nodes", 300).returncode == 0
    done = crossgcn(
        *("data", "import", "shop/edges.csv", "--nodes", "shop/nodes.csv", "--target", "buys"),
        *("--out", "graph", "--json"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["nodes"], told["labelled"], told["directed"]) == (300, 290, False)
    assert told["next"] == "crossgcn train graph --model cross-hops --splits stratified"
    shown = crossgcn("data", "show", "graph", "--verify", "--json")
    assert json.loads(shown.stdout) == {
        **{key: value for key, value in told.items() if key not in ("next", "warnings")},
        "verified": True,
    }
    trained = crossgcn(
        *("train", "graph", "--splits", "stratified", "--num-splits", 1, "--epochs", 2),
        *("--workers", 1, "--out", "run", "--json"),
    )
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["dataset"] == "graph"


def test_a_number_is_imported_trained_on_and_predicted(crossgcn: Command) -> None:
    random = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": range(200), "age": random.integers(20, 70, 200)})
    nodes["income"] = (1000.5 + 10 * nodes["age"]).where(nodes["id"] != 7)
    nodes.to_csv("nodes.csv", index=False)
    edges = pd.DataFrame(random.integers(0, 200, (600, 2)), columns=["source", "target"])
    edges.to_csv("edges.csv", index=False)
    done = crossgcn(
        *("data", "import", "edges.csv", "--nodes", "nodes.csv", "--target", "income"),
        *("--out", "graph"),
    )
    assert done.returncode == 0, done.stderr
    assert "target: a number; 199 nodes labelled" in done.stdout
    trained = crossgcn(
        *("train", "graph", "--model", "cross-hops", "--splits", "stratified", "--num-splits", 1),
        *("--epochs", 60, "--workers", 1, "--out", "run", "--json"),
    )
    assert trained.returncode == 0, trained.stderr
    told = json.loads(trained.stdout)
    assert (told["task"], told["metric"]) == ("regression", "r2")
    assert told["test"]["r2"][0] > 0.8
    assert len(list(Path("run").glob("hop-columns-*.f32"))) == 1
    assert crossgcn("predict", "run", "--out", "known.csv").returncode == 0
    known = pd.read_csv("known.csv").set_index("id")
    assert known["true"].isna().tolist() == [node == 7 for node in range(200)]
    pd.testing.assert_series_equal(
        known["true"], nodes.set_index("id")["income"], check_names=False, rtol=1e-5
    )
    nodes.assign(id=nodes["id"] + 1000).drop(columns="income").to_csv("new.csv", index=False)
    (edges.assign(source=edges["source"] + 1000)).to_csv("new_edges.csv", index=False)
    assert crossgcn("predict", "run", "new.csv", "new_edges.csv", "--out", "p.csv").returncode == 0
    assert pd.read_csv("p.csv")["predicted"].corr(nodes["age"]) > 0.9
    assert crossgcn("report", "run", "--out", "report").returncode == 0


def test_warnings_of_the_checks_are_shown_and_returned(crossgcn: Command) -> None:
    classes = ["tea", "rum", "gin"] * 40
    nodes = pd.DataFrame({"id": range(120), "bought": classes, "buys": classes})
    nodes.to_csv("nodes.csv", index=False)
    pd.DataFrame({"a": range(119), "b": range(1, 120)}).to_csv("edges.csv", index=False)
    done = crossgcn(
        *("data", "import", "edges.csv", "--nodes", "nodes.csv", "--target", "buys"),
        *("--out", "graph", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert any("column bought" in words for words in json.loads(done.stdout)["warnings"])
    assert "warning: nodes.csv" in done.stderr and "column bought" in done.stderr


def test_edges_alone_are_numbers(crossgcn: Command) -> None:
    pd.DataFrame({"a": [0, 1, 1, 5], "b": [1, 0, 2, 5], "when": ["x"] * 4}).to_csv(
        "edges.csv.gz", index=False
    )
    done = crossgcn("data", "import", "edges.csv.gz", "--out", "graph", "--num-nodes", 7)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("graph: 7 nodes, 2 edges (undirected)")
    assert second == (
        "  neighbours per node: 0 to 2, median 0, 90 % have at most 2, 99 % at most 2"
    )
    one_way = crossgcn("data", "import", "edges.csv.gz", "--out", "one way", "--directed")
    assert "3 edges (directed)" in one_way.stdout


def test_bad_input_is_refused_without_a_trace(crossgcn: Command) -> None:
    Path("edges.csv").write_text("source,target\n0,1\n2,x\n")
    done = crossgcn("data", "import", "edges.csv", "--out", "graph", "--json")
    assert done.returncode == 2
    assert "edges.csv, row 3, column target: 'x' is not a whole number" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2
    done = crossgcn("data", "import", "edges.csv", "--out", "graph", "--target", "buys")
    assert done.returncode == 2 and "give it as --nodes FILE" in done.stderr
    assert crossgcn("data", "show", "graph").returncode == 2
    assert {path.name for path in Path().iterdir() if path.is_dir()} == set()


def test_a_graph_is_drawn_and_says_what_is_next(crossgcn: Command) -> None:
    done = crossgcn(
        *("example", "graph", "--num-nodes", 400, "--num-edges", 3000, "--num-features", 6),
        *("--num-classes", 3, "--out", "drawn", "--seed", 2),
    )
    assert done.returncode == 0, done.stderr
    *_, split, last = done.stdout.splitlines()
    assert split == "  split: 240 train, 40 validate, 120 test"
    assert last == "Next: crossgcn train drawn --splits public"
    graph = open_graph("drawn")
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (400, 6, 3)
    again = crossgcn("example", "graph", "--out", "drawn")
    assert again.returncode == 2 and "is there and not empty" in again.stderr
