"""``explain`` and ``report`` on the counties."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import Command, result_of, run_command

from crossgcn import TableModel, explain
from crossgcn.data import read_real
from crossgcn.experiments.run_folder import open_run

UNUSED = "state,economy,rural_urban_code,birth_rate,death_rate,international_migration_rate"
QUICK = ("--num-splits", 2, "--epochs", 3, "--bags", 2, "--columns", 16, "--workers", 1)


def page_data(path: Path) -> dict[str, Any]:
    (script,) = re.findall(r'id="page-data">(.*?)</script>', path.read_text())
    content: dict[str, Any] = json.loads(script)
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the counties, and a run on each of two targets."""
    folder = tmp_path_factory.mktemp("counties")
    tables = read_real("us-county")
    tables.nodes.to_csv(folder / "nodes.csv", index=False)
    tables.edges.to_csv(folder / "edges.csv", index=False)
    for target, other, more in (
        ("winner", "democratic_share", ()),
        ("democratic_share", "winner", ()),
    ):
        done = run_command(
            "train", folder / "nodes.csv", folder / "edges.csv", "--target", target, *QUICK,
            "--ignore", f"{other},{UNUSED}", "--name-column", "name",
            "--relation", "borders", *more, "--out", folder / target,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


def test_the_terms_of_a_class(crossgcn: Command, folder: Path, tmp_path: Path) -> None:
    run = folder / "winner"
    done = ("explain", run, "--top", 3, "--out", "listed", "--json")
    answer = result_of(crossgcn(*done))
    assert answer["unit"] == "log-odds" and answer["purified"] is True
    assert [len(term["columns"]) for term in answer["terms"]].count(2) == 3
    for term in answer["terms"]:
        assert {"class", "columns", "importance", "error"} <= set(term)
        assert "cells" in term or "slope" in term
    columns = {name for term in answer["terms"] for name in term["columns"]}
    assert any(name.startswith("borders: ") for name in columns)
    assert not any("neighbours" in name for name in columns)
    every = pd.read_csv(tmp_path / "listed" / "terms.csv")
    read, dropped = answer["columns"], answer["dropped"]
    assert len(every) == len(read) + 24  # all columns, and the pairs that the model multiplies
    assert every["importance"].is_monotonic_decreasing
    opened = open_run(run)
    assert columns <= set(read) == set(opened.chosen.record["columns"])
    shares = explain(run).shares_of_largest(opened.split.test.numpy())
    assert answer["share_of_ten_largest"] == shares[9]
    assert shares[answer["terms_for_80_percent"] - 2] < 0.8
    screen = crossgcn("explain", run, "--top", 3).stdout
    words = " ".join(screen.split())
    reads = f"The model reads {len(read)} of {len(read) + len(dropped)} columns"
    assert f"{reads} and has 24 crosses. Dropped: " in words
    assert f"its ten largest terms carry {100 * shares[9]:.0f} % of the sum" in words
    assert "Values beyond those of the training nodes count as the nearest of these." in words
    assert "log-odds of republican against democrat: + for republican" in screen
    assert "2 hops: " in screen and "error over the bags, the models whose mean" in words
    assert "importance of all terms together: single columns" in screen
    assert screen.endswith(f"Next: crossgcn explain {run} --node ID, or crossgcn report {run}\n")
    against = result_of(crossgcn("explain", run, "--class", "democrat", "--json"))
    assert against["average"]["democrat"] == pytest.approx(-answer["average"]["republican"])


def test_one_term(crossgcn: Command, folder: Path) -> None:
    run = folder / "winner"
    (term,) = result_of(crossgcn("explain", run, "--term", "bachelor_rate", "--json"))["terms"]
    known = [cell for cell in term["cells"] if cell["names"] != ["missing"]]
    assert len(known) == 24 and sum(cell["nodes"] for cell in term["cells"]) == 3220
    answer = result_of(crossgcn("explain", run, "--json"))
    one, other = next(term["columns"] for term in answer["terms"] if len(term["columns"]) == 2)
    for columns in (("--term", one, "--term", other), ("--term", f"{other} × {one}")):
        done = crossgcn("explain", run, *columns)
        assert done.returncode == 0 and f"{one} × {other}" in done.stdout
    (dropped, *_) = answer["dropped"]
    refused = crossgcn("explain", run, "--term", dropped)
    assert refused.returncode == 2 and "the model does not read this column" in refused.stderr
    refused = crossgcn("explain", run, "--term", "bachelor_rat")
    assert refused.returncode == 2 and "column 'bachelor_rat'" in refused.stderr
    assert "'bachelor_rate'" in refused.stderr


@pytest.mark.parametrize("target", ["winner", "democratic_share"])
def test_a_node_adds_up(target: str, crossgcn: Command, folder: Path) -> None:
    run = folder / target
    answer = result_of(crossgcn("explain", run, "--node", "6075", "--json"))
    values = [term["value"] for term in answer["terms"]]
    assert answer["average"] + sum(values) == pytest.approx(answer["score"])
    assert np.abs(values).tolist() == sorted(np.abs(values), reverse=True)
    shown = {tuple(term["columns"]): term["shown"] for term in answer["terms"]}
    assert shown["median_income",] == ["101,873"]
    assert all(len(term["shown"]) <= len(term["columns"]) for term in answer["terms"])
    for change in answer["changes"]:
        assert change["outcome"] != answer["predicted"] and change["before"] != change["after"]
    screen = crossgcn("explain", run, "--node", "San Francisco County", "--top", 9).stdout
    assert "node San Francisco County (6075)" in screen and "Marin County (6041)" in screen
    assert "other terms" in screen and "score" in screen
    assert ("for another answer" in screen) == (target == "winner")
    view = explain(run, node="6075")
    assert view.score == pytest.approx(answer["score"])
    assert "borders: " in repr(TableModel.load(run).explain())


@pytest.mark.parametrize("target", ["winner", "democratic_share"])
def test_a_new_county_is_explained_as_it_is_predicted(
    target: str, crossgcn: Command, folder: Path, tmp_path: Path
) -> None:
    nodes, edges = (pd.read_csv(folder / f"{each}.csv", dtype=str) for each in ("nodes", "edges"))
    new = nodes[nodes["fips"].isin(["6075", "6041"])].drop(columns=["winner", "democratic_share"])
    new.assign(fips="new-" + new["fips"]).to_csv("new.csv", index=False)
    ends = edges[(edges == "6075").any(axis=1)].replace("6075", "new-6075")
    ends.to_csv("ends.csv", index=False)
    run = folder / target
    assert crossgcn("predict", run, "new.csv", "ends.csv", "--out", "p.csv").returncode == 0
    predicted = pd.read_csv("p.csv").set_index("fips")
    old = result_of(crossgcn("explain", run, "--node", "6075", "--json"))
    for node in ("new-6075", "new-6041"):  # the second is alone
        done = crossgcn("explain", run, "new.csv", "ends.csv", "--node", node, "--json")
        answer = result_of(done)
        assert answer["node"] == node and answer["average"] == pytest.approx(old["average"])
        values = [term["value"] for term in answer["terms"]]
        assert answer["average"] + sum(values) == pytest.approx(answer["score"], abs=1e-6)
        row = predicted.loc[node]
        if target == "winner":
            chance = 1 / (1 + np.exp(-answer["score"]))
            assert row["probability: republican"] == pytest.approx(chance, abs=1e-6)
        else:
            assert row["predicted"] == pytest.approx(answer["score"], abs=1e-6)
    names = {name for term in answer["terms"] for name in term["columns"] if "has no" in name}
    assert names == {"has no borders"} and not answer["neighbours"]
    screen = crossgcn("explain", run, "new.csv", "ends.csv", "--node", "new-6075").stdout
    assert "node new-6075" in screen and "Marin County (6041)" in screen
    income = nodes.set_index("fips")["median_income"].astype(float)
    mean = income[[end for end in ends.to_numpy().ravel() if end in income]]
    if "borders: median_income" in screen:
        assert f"borders: median_income ({mean.mean():,.0f})" in " ".join(screen.split())
    for more, words in (
        (("new.csv",), "new.csv: give the id of one of its rows, too: --node ID"),
        (("new.csv", "--node", "6075"), "new.csv: node '6075' is not in it, but was trained on"),
        (("new.csv", "--node", "x"), "new.csv: there is no node 'x' among its 2"),
        ((folder / "nodes.csv", "--node", "6075"), "the model was trained on '1001'"),
    ):
        refused = crossgcn("explain", run, *more)
        assert refused.returncode == 2 and words in refused.stderr, refused.stderr


def test_what_does_not_fit_is_refused(crossgcn: Command, folder: Path) -> None:
    run = folder / "winner"
    for options, words in (
        (("--node", "x"), "there is no node 'x' among the 3,220"),
        (("--term", "state", "--node", "6075"), "give one of --node and --term"),
        (("--class", "green"), "class"),
        (("--class", "democrat", "--against", "democrat"), "--against names another class"),
    ):
        done = crossgcn("explain", run, *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr


def test_what_a_run_is_made_of_is_not_overwritten(crossgcn: Command, folder: Path) -> None:
    run = folder / "winner"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (run / "model.safetensors", run / "chosen.json", folder / "edges.csv"):
        done = crossgcn("report", run, "--nodes", 1, "--out", path)
        assert done.returncode == 2 and "give another name" in done.stderr, done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    for out in ("absent/page.html", "."):
        done = crossgcn("report", run, "--out", out)
        assert done.returncode == 2 and "give the name of a file" in done.stderr


@pytest.mark.parametrize("target", ["winner", "democratic_share"])
def test_the_page_holds_what_explain_says(
    target: str, crossgcn: Command, folder: Path, tmp_path: Path
) -> None:
    run = folder / target
    told = ("report", run, "--nodes", 5, "--out", "page.html", "--json")
    answer = result_of(crossgcn(*told))
    assert answer["nodes_shown"] == 5 and answer["bytes"] == Path("page.html").stat().st_size
    data = page_data(tmp_path / "page.html")
    page = Path("page.html").read_text()
    assert "Against simpler models?" in page
    assert "Does the graph matter?" not in page, "no comparison answers that"
    items = {tuple(item["columns"]): item for item in data["terms"]["items"]}
    for term in result_of(crossgcn("explain", run, "--top", 3, "--json"))["terms"]:
        item = items[tuple(term["columns"])]
        assert item["importance"] == pytest.approx(term["importance"], rel=1e-3)
        assert item["error"] == pytest.approx(term["error"], rel=1e-3)
    ids = dict(zip(open_run(run).shown, open_run(run).ids, strict=True))
    for row in data["nodes"]["rows"][:2]:
        one = result_of(crossgcn("explain", run, "--node", ids[row["id"]], "--json"))
        assert row["score"] == pytest.approx(one["score"], rel=1e-3)
        assert row["start"] == pytest.approx(one["average"], rel=1e-3)
        near = [[name, pytest.approx(amount, rel=1e-3)] for name, _, amount, _ in row["near"]]
        assert [[n["node"], n["contribution"]] for n in one["neighbours"]][:12] == near
    if target == "winner":
        assert crossgcn("report", run, "--nodes", 0).returncode == 0


def test_models_of_layers_and_models_that_are_no_sums(
    crossgcn: Command, folder: Path, tmp_path: Path
) -> None:
    tables = (folder / "nodes.csv", folder / "edges.csv", "--target", "winner", "--ignore",
              f"democratic_share,{UNUSED}", "--name-column", "name")  # fmt: skip
    quick = ("--num-splits", 2, "--epochs", 3, "--workers", 1)
    for model in ("cross-gcn", "gin"):
        assert crossgcn("train", *tables, *quick, "--model", model, "--out", model).returncode == 0
    answer = result_of(crossgcn("explain", "cross-gcn", "--json"))
    assert any("bachelor_rate" in term["columns"] for term in answer["terms"])
    refused = crossgcn("explain", "cross-gcn", "--node", "6075")
    assert refused.returncode == 2 and "train cross-hops" in refused.stderr
    assert crossgcn("report", "cross-gcn", "--nodes", 3).returncode == 0
    done = crossgcn("report", "gin", "--nodes", 3)
    assert done.returncode == 0 and "cannot list crosses" in " ".join(done.stdout.split())
    assert "No crosses to name" in (tmp_path / "gin" / "report.html").read_text()
    refused = crossgcn("explain", "gin")
    assert refused.returncode == 2 and "layer 1" in refused.stderr


def test_planted_pairs_and_words(crossgcn: Command) -> None:
    quick = ("--num-splits", 1, "--workers", 1)
    planted = ("citeseer-cross", "--num-layers", 1, "--train", "all", "--epochs", 80)
    rate = ("--set", "learning_rate=0.05")
    assert crossgcn("train", *planted, *rate, *quick, "--out", "cross").returncode == 0
    terms = result_of(crossgcn("explain", "cross", "--json"))["terms"]
    pairs = [term for term in terms if len(term["columns"]) == 2]
    first = {term["class"]: term["columns"] for term in reversed(pairs)}
    for label in range(6):
        assert set(first[str(label)]) == {f"x{2 * label}", f"x{2 * label + 1}"}
    assert crossgcn("train", "citeseer", "--epochs", 10, *quick, "--out", "words").returncode == 0
    answer = result_of(crossgcn("explain", "words", "--top", 20, "--json"))
    pairs = [term for term in answer["terms"] if len(term["columns"]) == 2]
    assert len(pairs) == 120 and "cross-hops" in answer["reason"]
    screen = crossgcn("explain", "words", "--top", 1).stdout
    assert "Products of features are listed, because" in screen and "slope" in screen
    refused = crossgcn("explain", "words", "--node", "3")
    assert refused.returncode == 2 and "at most 200 columns" in refused.stderr
    assert "train cross-hops" in refused.stderr
