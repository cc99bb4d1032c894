"""A run as an SQL query: DuckDB, Spark and PostgreSQL compute what ``predict`` does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import Command, result_of, run_command
from engine_tables import draw_tables
from shop_tables import make_shop

from crossgcn.data.datasets.real import read_real
from crossgcn.experiments.predict import class_scores, join_new_nodes, score_nodes
from crossgcn.experiments.run_folder import RunFolder, open_run
from crossgcn.explanation.api import explain
from crossgcn.explanation.terms import Explanation
from crossgcn.export.query import DIALECTS

pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")

STRANGE = 'a"; drop table nodes; --'
FEW = ("--num-splits", "1", "--epochs", "3", "--bags", "2", "--set", "hidden_channels=4")


def run_duckdb(query: str, **tables: pd.DataFrame) -> pd.DataFrame:
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(f"given_{name}", table)
            database.execute(f"create table {name} as from given_{name}")
        found: pd.DataFrame = database.execute(query).df()
        names = {name for (name,) in database.execute("show tables").fetchall()}
        assert names >= tables.keys()  # nothing was dropped
    return found


def expected_scores(run: RunFolder, nodes: Any = None, edges: Any = None) -> np.ndarray:
    """Return the scores of ``predict``; of two classes the second minus the first."""
    if nodes is None:
        scores = score_nodes(run)[0].numpy()
    else:
        _, data = join_new_nodes(run, nodes, edges)
        model = run.saved.model
        scores = class_scores(model, data, labels=run.labels(model, data=data))[0].numpy()
    return scores[:, 1:] - scores[:, :1] if scores.shape[1] == 2 else scores


def check_scores(
    found: pd.DataFrame, run: RunFolder, expected: np.ndarray | None = None, ids: Any = None
) -> None:
    """Assert that the scores of a query are those of ``predict``, row by row."""
    expected = expected_scores(run) if expected is None else expected
    ids = run.ids if ids is None else ids
    found = found.set_index(found["id"].astype(str)).loc[[*map(str, ids)]]
    names = [name for name in map(str, found) if name.startswith("score")]
    np.testing.assert_allclose(found[names].to_numpy(float), expected, atol=1e-6)
    if len(run.saved.preprocess.classes) == 2:
        chances = 1 / (1 + np.exp(-expected[:, 0]))
        np.testing.assert_allclose(found["probability"].to_numpy(float), chances, atol=1e-6)


def check_terms(found: pd.DataFrame, run: RunFolder) -> None:
    """Assert that single terms are those of ``explain``, and that all add up to the score."""
    whole = explain(run)
    assert isinstance(whole, Explanation)
    found = found.set_index(found["id"].astype(str)).loc[list(run.ids)].reset_index(drop=True)
    singles = [term for term in whole.terms if len(term.key) == 1]
    for term in singles:
        values = found[term.columns[0]].to_numpy(float)[whole.nodes]
        np.testing.assert_allclose(values, term.contributions[:, 0], atol=1e-6)
    terms = found[[*(term.columns[0] for term in singles), "crosses"]].sum(axis=1)
    np.testing.assert_allclose(found["score"] - terms, whole.average[0], atol=1e-6)


@pytest.mark.parametrize("target", ["democratic_share", "winner"])
def test_counties(crossgcn: Command, target: str) -> None:
    train = ("train", "us-county", "--target", target, "--out", "run", "--columns", "6")
    result_of(crossgcn(*train, *FEW, "--json"))
    done = result_of(crossgcn("export", "run", "--sql", "duckdb", "--out", "score.sql", "--json"))
    assert {*done["tables"]} == {"nodes", "edges"}
    tables, run = read_real("us-county"), open_run(Path("run"))
    query = Path("score.sql").read_text()
    found = run_duckdb(query, nodes=tables.nodes, edges=tables.edges)
    assert list(found) == done["columns"]
    check_scores(found, run)
    check_terms(found, run)
    text = {"nodes": tables.nodes.astype(str), "edges": tables.edges.astype(str)}
    as_text = run_duckdb(query, **text)
    check_scores(as_text, run)
    assert query.count("\n") < 1200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_query_of_each_dialect_is_read_as_it_was_meant(crossgcn: Command, dialect: str) -> None:
    """The text parses in its dialect, and has the steps and the columns of DuckDB's."""
    options = (*write_related_tables(), "--columns", "8")
    result_of(crossgcn("train", *options, "--out", "run", *FEW, "--json"))
    parsed = {}
    for name in ("duckdb", dialect):
        done = result_of(crossgcn("export", "run", "--sql", name, "--out", f"{name}.sql", "--json"))
        parsed[name] = sqlglot.parse_one(Path(f"{name}.sql").read_text(), dialect=name)
        columns = done["columns"]
        assert [each.alias_or_name for each in parsed[name].expressions] == columns
    steps = {name: [each.alias for each in query.ctes] for name, query in parsed.items()}
    assert len(steps[dialect]) == len(steps["duckdb"])
    for query in parsed.values():
        known = {*done["tables"], *(each.alias for each in query.ctes)}
        assert {each.name for each in query.find_all(sqlglot.exp.Table)} <= known
        for column in query.find_all(sqlglot.exp.Column):
            is_own = column.name.startswith("__ibis_param")  # of an expression within
            assert column.this.quoted or is_own, column  # else the case of letters would matter


def write_strange_tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Write tables of customers and friends, and of new ones, with values of every kind.

    New rows have categories, words and numbers that the others have not.
    """
    nodes, edges = draw_tables(420, 1500)
    random = np.random.default_rng(1)
    nodes["joined"] = nodes["joined"].dt.strftime("%d.%m.%Y").mask(random.random(420) < 0.1)
    nodes[STRANGE] = random.choice(["it's", "b%", "c_", "rare one", "7"], 420)
    tags = np.array(["a (b", "c", "x|y"])[random.integers(0, 3, (420, 2))]
    nodes["tags"] = [f"{one}; {two}" for one, two in tags]
    nodes.loc[::9, "tags"] = None
    new = nodes[:20].drop(columns="buys").reset_index(drop=True)
    new.loc[:5, "city"] = ["Oslo", "", "N/A", " Lyon ", "lyon", "Gent"]
    new.loc[:2, "age"] = [-1e6, 1e9, np.nan]
    new.loc[:5, STRANGE] = ["7.0", "d", None, "'", "b%", "07"]
    new.loc[:4, "tags"] = ["zebra;c", "c;c", " c ;; x|y", "", "a (b;zebra"]
    new.loc[:3, "joined"] = ["31.12.2035", "01.03.2020", "29.02.2020", None]
    nodes, known = nodes[20:], set(nodes["id"][20:])
    inside = edges["source"].isin(known) & edges["target"].isin(known)
    tables = nodes, edges[inside], new, edges[~inside]
    for name, table in zip(("nodes", "edges", "new", "new_edges"), tables, strict=True):
        table.to_csv(f"{name}.csv", index=False)
    return tables


def read_text(*names: str) -> pd.DataFrame:
    """Read CSV files as text, one below the other."""
    tables = [pd.read_csv(f"{name}.csv", dtype=str, keep_default_na=False) for name in names]
    return pd.concat(tables, ignore_index=True)


@pytest.mark.parametrize("kind", ["weights", "directed", "plain"])
def test_missing_and_unseen_values(crossgcn: Command, kind: str) -> None:
    write_strange_tables()
    if kind != "weights":
        pd.read_csv("edges.csv").drop(columns="weight").to_csv("edges.csv", index=False)
        pd.read_csv("new_edges.csv").drop(columns="weight").to_csv("new_edges.csv", index=False)
    about = ("--target", "buys", "--lists", "tags")
    if kind == "directed":
        hops = (
            "hops",
            "nodes.csv",
            "edges.csv",
            *about,
            "--directed",
            "neighbours",
            "--out",
            "columns.parquet",
        )
        result_of(crossgcn(*hops, "--json"))
    tables = ["columns.parquet"] if kind == "directed" else ["nodes.csv", "edges.csv", *about]
    few = ("--columns", "8") if kind == "weights" else ("--columns", "all", "--order", "1")
    train = ("train", *tables, "--out", "run", *few)
    result_of(crossgcn(*train, *FEW, "--json"))
    result_of(crossgcn("export", "run", "--sql", "duckdb", "--out", "score.sql", "--json"))
    run, query = open_run(Path("run")), Path("score.sql").read_text()
    known = run_duckdb(query, nodes=read_text("nodes"), edges=read_text("edges"))
    check_scores(known, run)
    typed = read_text("nodes")
    typed["joined"] = pd.to_datetime(typed["joined"], format="%d.%m.%Y")
    check_scores(run_duckdb(query, nodes=typed, edges=read_text("edges")), run)
    assert STRANGE in known or kind == "weights"
    all_rows = {"nodes": read_text("nodes", "new"), "edges": read_text("edges", "new_edges")}
    ids = [*run.ids, *pd.read_csv("new.csv")["id"]]
    expected = expected_scores(run, "new.csv", "new_edges.csv")
    check_scores(run_duckdb(query, **all_rows), run, expected, ids)


def write_related_tables() -> tuple[str, ...]:
    """Write tables of three relations; return the arguments of ``train`` that name them."""
    nodes, edges = draw_tables(150, 400)
    random = np.random.default_rng(2)
    calls = edges.assign(
        minutes=np.where(random.random(len(edges)) < 0.1, np.nan, random.normal(5, 2, len(edges))),
        kind=random.choice(["work", "home", ""], len(edges)),
    )
    visits = pd.DataFrame({"guest": random.choice(nodes["id"], 400)})
    visits["shop"] = random.choice([*map(str, range(60))], 400)
    tables = {"nodes": nodes, "friends": edges, "calls": calls, "visits": visits}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    named = ("nodes.csv", "friends=friends.csv", "calls=calls.csv", "--target", "buys")
    return (*named, "--through", "visits=visits.csv", "--directed", "calls")


def test_relations_columns_of_edges_and_things_that_nodes_share(crossgcn: Command) -> None:
    given = (*write_related_tables(), "--columns", "all", "--order", "1")
    result_of(crossgcn("train", *given, "--out", "run", *FEW, "--json"))
    done = result_of(crossgcn("export", "run", "--sql", "duckdb", "--json"))
    assert {*done["tables"]} == {"nodes", "friends", "calls", "visits"}
    assert {"same shop: age", "in-calls: minutes (mean)", "2 hops of friends: buys"} <= {
        *done["columns"]
    }
    texts = {name: read_text(name) for name in done["tables"]}
    found = run_duckdb(Path("score.sql").read_text(), **texts)
    check_scores(found, open_run(Path("run")))


def test_a_score_for_each_of_four_classes(crossgcn: Command, tmp_path: Path) -> None:
    shop = make_shop(300)
    shop.nodes.to_csv("nodes.csv", index=False)
    shop.edges.to_csv("edges.csv", index=False)
    train = ("train", "nodes.csv", "edges.csv", "--target", "buys", "--out", "run", *FEW)
    result_of(crossgcn(*train, "--columns", "6", "--json"))
    export = ("export", "run", "--sql", "duckdb", "--labels", "labels.csv", "--json")
    done = result_of(crossgcn(*export))
    assert [each for each in done["columns"] if each.startswith("score")] == [
        f"score: {name}" for name in ("books", "garden", "sports", "toys")
    ]
    labels = pd.read_csv("labels.csv")
    run = open_run(Path("run"))
    assert sorted(labels["id"]) == sorted(run.ids[place] for place in run.split.train.tolist())
    tables = {"nodes": shop.nodes, "edges": shop.edges, "training_labels": labels}
    check_scores(
        run_duckdb(Path("score.sql").read_text(), **tables), run, expected_scores(run), run.ids
    )


@pytest.mark.skipif(not os.environ.get("CROSSGCN_DATA"), reason="needs $CROSSGCN_DATA")
def test_tolokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train = ("train", "tolokers", "--out", "run", "--columns", "6", *FEW, "--json")
    result_of(run_command(*train))
    result_of(run_command("export", "run", "--sql", "duckdb", "--json"))
    tables, run = read_real("tolokers"), open_run(Path("run"))
    query = Path("score.sql").read_text()
    check_scores(run_duckdb(query, nodes=tables.nodes, edges=tables.edges), run)


REFUSED = {
    "gcn": (["--model", "gcn"], ["--sql", "duckdb"], "a gcn cannot be written as SQL; train with"),
    "order": (["--order", "3"], ["--sql", "duckdb"], "train with --order 2"),
    "dialect": ([], ["--sql", "oracle"], "unknown dialect 'oracle'"),
    "none": ([], [], "give one of --sql DIALECT and --onnx"),
    "own-file": ([], ["--sql", "duckdb", "--out", "run/config.json"], "is part of the run"),
    "labels": ([], ["--onnx", "--labels", "labels.csv"], "--labels goes with --sql"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused(crossgcn: Command, case: str) -> None:
    how, export, message = REFUSED[case]
    short = ("--num-splits", "1", "--epochs", "1", *([] if case == "gcn" else ["--columns", "all"]))
    result_of(crossgcn("train", "us-county", *how, *short, "--out", "run", "--json"))
    done = crossgcn("export", "run", *export)
    assert done.returncode == 2 and message in done.stderr
    assert not Path("score.sql").exists()
