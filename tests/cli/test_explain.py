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
    assert len(every) == len(read) * (len(read) + 1) / 2  # all columns and pairs of them
    assert every["importance"].is_monotonic_decreasing
    opened = open_run(run)
    assert columns <= set(read) == set(opened.chosen.record["columns"])
    shares = explain(run).shares_of_largest(opened.split.test.numpy())
    assert answer["share_of_ten_largest"] == shares[9]
    assert shares[answer["terms_for_80_percent"] - 2] < 0.8
    screen = crossgcn("explain", run, "--top", 3).stdout
    words = " ".join(screen.split())
    assert f"The model reads {len(read)} of {len(read) + len(dropped)} columns. Dropped: " in words
    assert f"its ten largest terms carry {100 * shares[9]:.0f} % of the sum" in words
    assert "Values beyond those of the training nodes count as the nearest of these." in words
    assert "class republican (log-odds)" in screen and "2 hops: " in screen
    assert "importance of all terms together: of 1 column" in screen
    against = result_of(crossgcn("explain", run, "--class", "democrat", "--json"))
    assert against["average"]["democrat"] == pytest.approx(-answer["average"]["republican"])


def test_one_term(crossgcn: Command, folder: Path) -> None:
    run = folder / "winner"
    (term,) = result_of(crossgcn("explain", run, "--term", "bachelor_rate", "--json"))["terms"]
    known = [cell for cell in term["cells"] if cell["names"] != ["missing"]]
    assert len(known) == 24 and sum(cell["nodes"] for cell in term["cells"]) == 3220
    named = ("--term", "bachelor_rate", "--term", "2 hops: bachelor_rate")
    for columns in (named, ("--term", "2 hops: bachelor_rate × bachelor_rate")):
        done = crossgcn("explain", run, *columns)
        assert done.returncode == 0 and "2 hops: bachelor_rate" in done.stdout
    (dropped, *_) = result_of(crossgcn("explain", run, "--json"))["dropped"]
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


def test_what_does_not_fit_is_refused(crossgcn: Command, folder: Path) -> None:
    run = folder / "winner"
    for options, words in (
        (("--node", "x"), "there is no node 'x' among the 3220"),
        (("--term", "state", "--node", "6075"), "give one of --node and --term"),
        (("--class", "green"), "class"),
        (("--against", "democrat"), "--against names another class"),
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
    assert "Does the graph matter?" not in dict(data["answers"]), "no comparison answers that"
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
        near = [[name, pytest.approx(amount, rel=1e-3)] for name, _, amount in row["near"]]
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
    for term in answer["terms"]:
        near = [name.startswith("neighbours: ") for name in term["columns"]]
        assert all(near) or not any(near) or term["columns"] == ["position in the graph"]
        assert term["error"] is None  # a model without bags
    assert "Of neighbours, inside" in " ".join(crossgcn("explain", "cross-gcn").stdout.split())
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
        names = {name.removeprefix("neighbours: ") for name in first[str(label)]}
        assert names == {f"x{2 * label}", f"x{2 * label + 1}"}
    assert crossgcn("train", "citeseer", "--epochs", 10, *quick, "--out", "words").returncode == 0
    answer = result_of(crossgcn("explain", "words", "--top", 20, "--json"))
    pairs = [term for term in answer["terms"] if len(term["columns"]) == 2]
    assert len(pairs) == 120 and "it has 3,703 columns" in answer["reason"]
    screen = crossgcn("explain", "words", "--top", 1).stdout
    assert "Products of features are listed, because" in screen and "slope" in screen
    refused = crossgcn("explain", "words", "--node", "3")
    assert refused.returncode == 2 and "at most 200 columns" in refused.stderr
    assert "train cross-hops" in refused.stderr
