"""The way through with tables of one's own: check, train, predict, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import Command, result_of, run_command

QUICK = ("--num-splits", "2", "--epochs", "20", "--workers", "1", "--json")
N = 200


def customers() -> pd.DataFrame:
    """Customers whose ids and classes a spreadsheet would take for formulas."""
    random = np.random.default_rng(0)
    age = random.integers(18, 80, N)
    return pd.DataFrame(
        {
            "customer": [f"{'=+-@'[i % 4]}c{i}" for i in range(N)],
            "gender": random.choice(["female", "male"], N),
            "age": age,
            "city": random.choice(["Porto", "Faro", "Lagos"], N),
            "blood": np.where(age + random.normal(0, 10, N) > 45, "+", "-"),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    nodes = customers()
    nodes.to_csv(folder / "nodes.csv", index=False)
    ids = nodes["customer"].to_numpy()
    edges = pd.DataFrame({"who": ids, "whom": np.roll(ids, 1), "since": range(2000, 2000 + N)})
    edges.to_csv(folder / "edges.csv", index=False)
    new = nodes.drop(columns="blood").head(2).assign(customer=["+new", "x"], city=["Rome", "Faro"])
    new.to_csv(folder / "new.csv", index=False)
    return folder


FRIENDS = ("--relation", "friends", "--ignore", "friends: since")


@pytest.fixture(scope="module")
def run(tables: Path) -> Path:
    folder = tables / "run"
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood")
    done = run_command("train", *both, *QUICK, "--out", folder, *FRIENDS)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())  # the terminal wraps its lines
    assert "not used: " in said and "columns since" in said
    return folder


def test_check_says_how_columns_are_read_and_what_is_next(crossgcn: Command, tables: Path) -> None:
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood", "--ignore", "city")
    done = crossgcn("check", *both)
    assert done.returncode == 0
    for words in ("200 nodes, 5 columns", "read as", "classes: ", "homophily: ", "--ignore city"):
        assert words in done.stdout
    assert "crossgcn compare" in done.stdout
    answer = result_of(crossgcn("check", *both, "--json", "--out", "c"))
    assert answer == json.loads(Path("c/check.json").read_bytes())
    assert {column["name"]: column["kind"] for column in answer["columns"]} == {
        "customer": "id",
        "gender": "categorical",
        "age": "numeric",
        "city": "ignored",
        "blood": "target",
    }
    assert answer["errors"] == 0 and answer["balance"]["labelled"] == N


def test_errors_name_file_row_value_and_remedy(crossgcn: Command, tables: Path) -> None:
    nodes = customers()
    nodes["customer"] = [*nodes["customer"][:3], nodes["customer"][2], *nodes["customer"][4:]]
    nodes.to_csv("n.csv", index=False)
    target = ("--target", "blood")
    done = crossgcn("check", "n.csv", tables / "edges.csv", *target)
    assert done.returncode == 2
    assert "n.csv, row 5, column customer: '-c2' is already the id of row 4" in done.stdout
    assert "correct the errors and check again" in done.stdout
    refused = crossgcn("train", "n.csv", tables / "edges.csv", *target, *QUICK, "--out", "r")
    assert refused.returncode == 2 and "n.csv, row 5, column customer: " in refused.stderr


def test_ids_and_classes_come_back_as_they_were(crossgcn: Command, run: Path) -> None:
    answer = result_of(crossgcn("predict", run, "--json", "--out", "p.csv"))
    frame = pd.read_csv("p.csv", dtype=str)
    wanted = ["customer", "true", "predicted", "probability: +", "probability: -", "used for"]
    assert list(frame) == answer["columns"] == wanted
    nodes = customers()
    assert frame["customer"].tolist() == nodes["customer"].tolist()
    assert frame["true"].tolist() == nodes["blood"].tolist()
    assert set(frame["predicted"]) == {"+", "-"}
    shares = frame[wanted[3:5]].astype(float)
    assert (shares.idxmax(axis=1) == "probability: " + frame["predicted"]).all()
    result_of(crossgcn("predict", run, "--json", "--out", "again.csv"))
    assert Path("p.csv").read_bytes() == Path("again.csv").read_bytes()


def test_new_customers_are_scored_with_their_edges(
    crossgcn: Command, run: Path, tables: Path
) -> None:
    pd.DataFrame({"who": ["+new", "=c0"], "whom": ["=c0", "@c3"]}).to_csv("e.csv", index=False)
    chosen = ("predict", run, tables / "new.csv")
    answer = result_of(crossgcn(*chosen, "e.csv", "--json", "--out", "p.csv"))
    assert pd.read_csv("p.csv", dtype=str)["customer"].tolist() == ["+new", "x"]
    assert answer["unseen_values"][0]["example"] == "Rome"
    (warning,) = answer["warnings"]
    assert warning.startswith("1 edges join two nodes of the training table and were not there")
    pd.read_csv(tables / "new.csv").assign(age=[900, 50]).to_csv("far.csv", index=False)
    far = result_of(crossgcn("predict", run, "far.csv", "e.csv", "--json", "--out", "p.csv"))
    note = "values beyond those of the training nodes count as the nearest of these: age in 1 of 2"
    assert far["warnings"][1].startswith(note)
    alone = result_of(crossgcn(*chosen, "--json", "--out", "p.csv"))
    assert "trained with edges, and none are given" in alone["warnings"][0]
    pd.DataFrame({"who": ["+new"], "whom": ["nobody"]}).to_csv("e.csv", index=False)
    refused = crossgcn(*chosen, "e.csv", "--out", "p.csv")
    assert refused.returncode == 2 and "e.csv, row 2, column whom: 'nobody' is" in refused.stderr


def test_relations_are_named_and_unknown_ids_dropped(
    crossgcn: Command, run: Path, tables: Path
) -> None:
    assert "friends: " in crossgcn("explain", run).stdout
    edges = pd.read_csv(tables / "edges.csv")
    edges.loc[4, "who"] = "nobody"
    edges.to_csv("e.csv", index=False)
    both = (tables / "nodes.csv", "e.csv", "--target", "blood")
    assert crossgcn("check", *both).returncode == 2
    told = crossgcn("check", *both, "--unknown-ids", "drop")
    assert told.returncode == 0 and "such edges are left out" in told.stdout


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv", "new.csv", "run/model.safetensors"])
def test_no_table_and_no_model_is_written_over(
    name: str, crossgcn: Command, run: Path, tables: Path
) -> None:
    before = (tables / name).read_bytes()
    done = crossgcn("predict", run, tables / "new.csv", "--out", tables / name)
    assert done.returncode == 2 and "another" in done.stderr
    assert (tables / name).read_bytes() == before


def test_a_tampered_folder_is_refused(crossgcn: Command, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name, before, after in (
        ("nodes.json", b"c1", b"c2"),
        ("preprocess.json", b"Porto", b"Lagos"),
        ("model.safetensors", b"F32", b"F16"),
    ):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        path = copy / name
        path.write_bytes(path.read_bytes().replace(before, after, 1))
        done = crossgcn("predict", copy)
        assert done.returncode == 2 and name in done.stderr


def test_a_split_column_is_kept_to(crossgcn: Command, tables: Path) -> None:
    split = np.array(["train", "train", "validation", "test"])[np.arange(N) % 4]
    customers().assign(split=split).to_csv("n.csv", index=False)
    done = crossgcn("train", "n.csv", "--target", "blood", "--epochs", "5", "--json", "--out", "r")
    assert result_of(done)["splits"] == "public"
    result_of(crossgcn("predict", "r", "--json", "--out", "p.csv"))
    assert pd.read_csv("p.csv")["used for"].tolist() == split.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train cora edges.csv", "edges.csv is one argument too many: cora is not a table"),
        ("train citeseer --target buys", "--target buys is one argument too many"),
        ("train nodes.csv edges.csv", "give the column to predict as --target COLUMN"),
        ("train nodes.txt", "unknown dataset 'nodes.txt'"),
        ("check nodes.csv --categorical agee", "there is no column 'agee': did you mean 'age'"),
        ("train nodes.csv --target blood --out .", "exists and is not empty: give another --out"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: str, words: str, crossgcn: Command, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tables)
    done = crossgcn(*arguments.split())
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    ("columns", "fragments"),
    [
        ("0", ("columns is 0; give at least 1, auto or all",)),
        ("-2", ("columns is -2; give at least 1",)),
        ("99", ("columns is 99, but there are 15, those of neighbours included", "at most 15")),
        ("few", ("columns cannot be 'few'", "a number, all, or auto")),
        ("2.5", ("columns cannot be 2.5", "a number, all, or auto")),
        ("true", ("columns cannot be True", "a number, all, or auto")),
    ],
)
def test_numbers_of_columns_that_cannot_be(
    command: str, columns: str, fragments: tuple[str, ...], crossgcn: Command, tables: Path
) -> None:
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood")
    done = crossgcn(command, *both, *QUICK, "--columns", columns, "--out", "refused")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    for fragment in fragments:
        assert fragment in done.stderr
    assert not Path("refused").exists()


def test_columns_are_for_cross_hops_and_need_validation_nodes(
    crossgcn: Command, tables: Path
) -> None:
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood")
    done = crossgcn("train", *both, *QUICK, "--model", "gcn", "--columns", "3")
    assert done.returncode == 2
    assert "columns is 3, which is for cross-hops; leave it out for gcn" in done.stderr
    parts = customers().assign(part=["train", "test"] * (N // 2))
    parts.to_csv("parts.csv", index=False)
    own = ("parts.csv", "--target", "blood", "--split-column", "part")
    done = crossgcn("train", *own, "--columns", "auto", "--out", "refused")
    assert done.returncode == 2 and not Path("refused").exists()
    assert "column part: no labelled node is for validation; write validation" in done.stderr


def test_train_prints_how_many_columns_were_chosen_and_which(
    crossgcn: Command, tables: Path
) -> None:
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood")
    words = crossgcn("train", *both, *QUICK[:-1], "--columns", "2").stdout
    assert "\nColumns chosen of 15, by split: 2, 2 " in words
    assert re.search(r"^Chosen by at least half of the splits: .*age", words, re.MULTILINE)


def test_a_number_of_columns_is_the_most_that_each_model_of_compare_reads(
    crossgcn: Command, tables: Path
) -> None:
    both = (tables / "nodes.csv", tables / "edges.csv", "--target", "blood")
    models = ("--models", "linear,cross-hops-2", "--tuning", "1", "--epochs", "3")
    quick = ("--num-splits", "2", "--workers", "1", "--json", "--out", "compared")
    compared = result_of(crossgcn("compare", *both, *models, *quick, "--columns", "5"))
    assert [model["model"] for model in compared["models"]] == ["linear", "cross-hops-2"]
    sizes = {
        path.parts[1]: len(json.loads(path.read_text())["columns"])
        for path in Path("compared").glob("[lc]*/trial-0/split-00/run.json")
    }
    assert sizes["linear"] == 3 and sizes["cross-hops-2"] == 5
