"""The way through, as the README walks it: two tables in, named crosses out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import pytest
from conftest_fixtures import run_command
from shop_tables import write_shop

Command = Callable[..., CompletedProcess[str]]

QUICK = ("--num-splits", "2", "--epochs", "40", "--workers", "1", "--json")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "shop"
    write_shop(folder, 400)
    return folder


@pytest.fixture(scope="module")
def run(shop: Path) -> Path:
    folder = shop.parent / "run"
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    done = run_command("train", *tables, "--model", "cross-gcn", *QUICK, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def result_of(done: CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_example_passes_its_check(crossgcn: Command, shop: Path) -> None:
    done = crossgcn("check", shop / "nodes.csv", shop / "edges.csv", "--target", "buys", "--json")
    answer = result_of(done)
    assert answer["errors"] == 0
    assert answer["next"].startswith("crossgcn compare ")


def test_training_prints_what_it_took_the_columns_for(crossgcn: Command, shop: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    done = crossgcn("train", *tables, "--model", "cross-gcn", *QUICK, "--out", "here")
    answer = result_of(done)
    assert "ids of nodes" in done.stderr and "column customer" in done.stderr
    assert "categorical" in done.stderr
    assert answer["target"] == "buys" and answer["splits"] == "stratified"
    assert answer["order"] == [2, 1] and answer["bias"] is True
    assert len(answer["test_accuracy"]) == 2


def test_a_run_is_a_saved_model(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "model.safetensors", "preprocess.json", "result.json"} <= names
    preprocess = json.loads((run / "preprocess.json").read_bytes())
    assert "gender=female" in preprocess["feature_names"]
    assert "gender" in preprocess["fields"]
    assert not list(run.rglob("*.pkl")) and not list(run.rglob("*.pt"))


def test_compare_answers_with_an_interval(crossgcn: Command, shop: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    names = ["majority-or-mean", "cross-hops-1", "cross-hops-2", "boosting-hops"]
    models = ("--models", ",".join(names), "--tuning", "1", "--bags", "2")
    done = crossgcn("compare", *tables, *models, *QUICK, "--out", "c")
    answer = result_of(done)
    assert "4 models × 1 trial × 2 splits: about" in done.stderr
    assert [model["model"] for model in answer["models"]] == names
    crosses = answer["answers"]["crosses"]
    assert (crosses["model"], crosses["against"]) == ("cross-hops-2", "cross-hops-1")
    assert answer["answers"].keys() == {"crosses", "graph", "black_box"}
    for asked in answer["answers"].values():
        assert len(asked["interval"]) == 2
        assert asked["verdict"] in ("helps", "does not help", "cannot tell")
    assert answer["recommended"] in names
    assert answer["next"].startswith("crossgcn train ") and "--model cross-hops" in answer["next"]
    assert "2 splits" in answer["answer"][0]
    for key in ("versions", "threads", "commit", "seconds", "epochs", "dataset"):
        assert key in answer


def test_new_customers_are_scored_with_their_edges(
    crossgcn: Command, run: Path, shop: Path, tmp_path: Path
) -> None:
    new = (shop / "new_nodes.csv", shop / "new_edges.csv")
    answer = result_of(crossgcn("predict", run, *new, "--crosses", "2", "--json"))
    frame = pd.read_csv(tmp_path / "predictions.csv", dtype={"customer": str})
    assert answer["nodes"] == len(frame) == len(pd.read_csv(new[0]))
    probabilities = frame.filter(like="p(")
    assert probabilities.sum(axis=1).to_numpy() == pytest.approx(1.0, abs=1e-5)
    best = [str(name)[2:-1] for name in probabilities.idxmax(axis=1)]
    assert best == frame["predicted"].tolist()
    assert frame["top_crosses"].str.contains(" & ").any()
    alone = result_of(crossgcn("predict", run, new[0], "--json", "--out", "alone.csv"))
    assert alone["nodes"] == len(frame)
    without = pd.read_csv(tmp_path / "alone.csv")
    assert not without["probability"].equals(frame["probability"])


def test_known_nodes_are_scored_when_no_table_is_given(
    crossgcn: Command, run: Path, tmp_path: Path
) -> None:
    assert result_of(crossgcn("predict", run, "--json", "--out", "all.parquet"))["nodes"] == 400
    frame = pd.read_parquet(tmp_path / "all.parquet")
    assert frame["customer"].iloc[0] == "u_1"


def test_a_moved_folder_predicts_the_same_bytes_in_another_process(
    crossgcn: Command, run: Path, shop: Path, tmp_path: Path
) -> None:
    new = (shop / "new_nodes.csv", shop / "new_edges.csv")
    assert crossgcn("predict", run, *new, "--out", "here.csv").returncode == 0
    moved = tmp_path / "elsewhere"
    shutil.copytree(run, moved)
    arguments = map(str, ("predict", moved, *new, "--out", "there.csv"))
    command = [sys.executable, "-m", "crossgcn", *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()


def test_a_tampered_folder_is_refused(
    crossgcn: Command, run: Path, shop: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    for command in (("predict", broken, shop / "new_nodes.csv"), ("explain", broken)):
        done = crossgcn(*command)
        assert done.returncode == 2
        assert "model.safetensors: is not what was written" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (lambda nodes: nodes.drop(columns="gender"), ("gender",)),
        (lambda nodes: nodes.assign(customer=nodes["customer"].iloc[0]), ("customer",)),
        (lambda nodes: nodes.assign(customer="u_1"), ("u_1",)),
        (lambda nodes: nodes.assign(age="old"), ("age", "old")),
    ],
)
def test_bad_new_nodes_are_refused_by_file_row_and_value(
    change: Callable[[pd.DataFrame], pd.DataFrame],
    fragments: tuple[str, ...],
    crossgcn: Command,
    run: Path,
    shop: Path,
    tmp_path: Path,
) -> None:
    nodes = pd.read_csv(shop / "new_nodes.csv", dtype=str, keep_default_na=False)
    change(nodes).to_csv(tmp_path / "bad.csv", index=False)
    done = crossgcn("predict", run, tmp_path / "bad.csv")
    assert done.returncode == 2, done.stdout
    for fragment in ("bad.csv", *fragments):
        assert fragment in done.stderr
    assert "Traceback" not in done.stderr


def test_values_not_seen_in_training_are_pointed_out(
    crossgcn: Command, run: Path, shop: Path, tmp_path: Path
) -> None:
    nodes = pd.read_csv(shop / "new_nodes.csv", dtype=str, keep_default_na=False)
    nodes["gender"] = nodes["gender"].str.upper()
    nodes.to_csv(tmp_path / "loud.csv", index=False)
    done = crossgcn("predict", run, tmp_path / "loud.csv", "--json")
    (unseen,) = result_of(done)["unseen_values"]
    assert unseen["column"] == "gender" and unseen["known"] == unseen["example"].lower()
    assert "values not seen in training" in done.stderr


def test_formulas_in_ids_are_neutralised_in_predictions(
    crossgcn: Command, run: Path, shop: Path, tmp_path: Path
) -> None:
    nodes = pd.read_csv(shop / "new_nodes.csv", dtype=str, keep_default_na=False)
    nodes.loc[0, "customer"] = "=cmd()"
    nodes.to_csv(tmp_path / "evil.csv", index=False)
    assert crossgcn("predict", run, tmp_path / "evil.csv").returncode == 0
    assert (tmp_path / "predictions.csv").read_text().splitlines()[1].startswith("'=cmd(),")


def test_the_report_shows_the_comparison(crossgcn: Command, shop: Path, run: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    models = ("--models", "gcn,cross-gcn-2", "--tuning", "1")
    compared = result_of(crossgcn("compare", *tables, *models, *QUICK, "--out", "c"))
    done = crossgcn("report", run, "--nodes", "5", "--comparison", "c", "--out", "page.html")
    assert done.returncode == 0, done.stderr
    assert compared["answer"][0].split(".")[0] in Path("page.html").read_text()
    refused = crossgcn("report", run, "--comparison", run)
    assert refused.returncode == 2 and "is not a comparison on tables" in refused.stderr


def test_a_split_column_is_kept_to(crossgcn: Command, shop: Path, tmp_path: Path) -> None:
    nodes = pd.read_csv(shop / "nodes.csv", dtype=str, keep_default_na=False)
    nodes["part"] = ["train", "validation", "test"] * (len(nodes) // 3) + ["train"] * (
        len(nodes) % 3
    )
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    tables = (tmp_path / "nodes.csv", shop / "edges.csv", "--target", "buys")
    options = ("--split-column", "part", "--epochs", "10", "--workers", "1", "--json")
    model = ("--model", "cross-gcn")
    answer = result_of(crossgcn("train", *tables, *model, *options, "--out", "own"))
    assert answer["splits"] == "public" and len(answer["test_accuracy"]) == 1
    assert result_of(crossgcn("explain", "own", "--json"))["num_models"] == 1


def test_a_table_without_edges_is_a_table_of_rows(crossgcn: Command, shop: Path) -> None:
    options = ("--target", "buys", "--model", "mlp", *QUICK)
    assert result_of(crossgcn("train", shop / "nodes.csv", *options, "--out", "rows"))["mean"] > 0
    assert crossgcn("predict", "rows", shop / "new_nodes.csv").returncode == 0


def test_no_table_is_written_over(crossgcn: Command, run: Path, shop: Path, tmp_path: Path) -> None:
    edges = tmp_path / "new_edges.csv"
    shutil.copy(shop / "new_edges.csv", edges)
    done = crossgcn("predict", run, shop / "new_nodes.csv", edges, "--out", edges)
    assert done.returncode == 2 and "is one of the tables" in done.stderr
    assert edges.read_bytes() == (shop / "new_edges.csv").read_bytes()


def test_what_compare_recommends_can_be_typed(crossgcn: Command, shop: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    models = ("--models", "linear", "--tuning", "1")
    answer = result_of(crossgcn("compare", *tables, *models, *QUICK, "--out", "c"))
    words = answer["next"].split()
    assert words[:2] == ["crossgcn", "train"] and "--model mlp --num-layers 1" in answer["next"]
    metric = ("--metric", answer["metric"])
    again = result_of(crossgcn(*words[1:], *metric, *QUICK, "--out", "again"))
    assert again["test_accuracy"] == answer["models"][0]["test_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--splits", "random"), ("--splits random is not for these tables", "--split-column")),
        (("--splits", "authors"), ("--splits authors is not for these tables",)),
        (("--target", "bys"), ("there is no column 'bys'", "did you mean 'buys'")),
    ],
)
def test_options_that_do_not_go_with_tables(
    arguments: tuple[str, ...], fragments: tuple[str, ...], crossgcn: Command, shop: Path
) -> None:
    done = crossgcn("train", shop / "nodes.csv", "--target", "buys", *arguments)
    assert done.returncode == 2
    for fragment in fragments:
        assert fragment in done.stderr


def test_a_file_with_another_ending_is_named(crossgcn: Command, tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text("id,a,y\n")
    done = crossgcn("train", "nodes.txt", "--target", "y")
    assert done.returncode == 2 and "end its name in one of .csv, .tsv" in done.stderr


def test_a_table_in_a_settings_file_is_pointed_out(crossgcn: Command, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('dataset = "nodes.csv"')
    done = crossgcn("train", "--config", "c.toml")
    assert done.returncode == 2 and "tables are given as arguments" in done.stderr


def test_other_names_are_not_resumed(crossgcn: Command, shop: Path, tmp_path: Path) -> None:
    nodes = (shop / "nodes.csv").read_text()
    (tmp_path / "nodes.csv").write_text(nodes)
    train = ("train", "nodes.csv", "--target", "buys", *QUICK, "--out", "r")
    assert crossgcn(*train).returncode == 0
    assert crossgcn(*train, "--resume").returncode == 0
    (tmp_path / "nodes.csv").write_text(nodes.replace("books", "brooks"))
    done = crossgcn(*train, "--resume")
    assert done.returncode == 2 and "holds a finished run with another" in done.stderr


def test_work_is_not_mixed_with_the_tables(crossgcn: Command, shop: Path) -> None:
    done = crossgcn("train", shop / "nodes.csv", "--target", "buys", "--resume", "--out", shop)
    assert done.returncode == 2 and "give the results their own folder" in done.stderr


def test_one_split_is_no_verdict_on_the_page(crossgcn: Command, shop: Path, run: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    models = ("--models", "gcn,cross-gcn-2", "--tuning", "1", "--num-splits", "1")
    quick = ("--epochs", "5", "--workers", "1", "--json", "--out", "c")
    compared = result_of(crossgcn("compare", *tables, *models, *quick))
    assert compared["answers"]["crosses"]["verdict"] == "cannot tell"
    report = ("report", run, "--nodes", "2", "--comparison", "c", "--out", "page.html")
    assert crossgcn(*report).returncode == 0
    assert "Crosses help? Cannot tell" in Path("page.html").read_text()
