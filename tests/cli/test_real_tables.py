"""Commands on the bundled county table, and on others by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest_fixtures import Command, result_of, run_command

QUICK = ("--num-splits", "2", "--epochs", "2", "--workers", "1", "--json")
DATA = os.environ.get("CROSSGCN_DATA", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counties") / "run"
    answer = result_of(run_command("train", "us-county", *QUICK, "--out", folder))
    assert (answer["dataset"], answer["target"]) == ("us-county", "winner")
    assert answer["splits"] == "stratified" and len(answer["test_accuracy"]) == 2
    return folder


def test_a_run_on_counties_names_its_classes_and_columns(run: Path) -> None:
    preprocess = json.loads((run / "preprocess.json").read_bytes())
    assert preprocess["classes"] == ["democrat", "republican"]
    assert "economy=farming" in preprocess["feature_names"]
    assert not any(name.startswith(("state", "name")) for name in preprocess["feature_names"])


def test_another_target_and_other_columns_can_be_chosen(crossgcn: Command) -> None:
    options = ("--target", "economy", "--categorical", "state,winner", "--out", "run")
    answer = result_of(crossgcn("train", "us-county", *options, *QUICK))
    assert answer["target"] == "economy"
    names = json.loads(Path("run/preprocess.json").read_bytes())["feature_names"]
    assert "winner=democrat" in names and any(name.startswith("state=") for name in names)


def test_compare_takes_the_name_and_says_the_target(crossgcn: Command) -> None:
    options = ("--models", "majority-or-mean,linear", "--tuning", "1", "--out", "c")
    answer = result_of(crossgcn("compare", "us-county", *options, *QUICK))
    assert (answer["dataset"], answer["target"]) == ("us-county", "winner")
    assert [model["model"] for model in answer["models"]] == ["majority-or-mean", "linear"]
    assert answer["positive_class"] == "democrat" and answer["left_out"] == []
    assert "of this table" in answer["intervals"] and answer["next"].startswith("crossgcn train")


def test_check_shows_what_is_left_out_and_what_is_next(crossgcn: Command) -> None:
    answer = result_of(crossgcn("check", "us-county", "--json"))
    assert answer["errors"] == 0 and answer["next"] == "crossgcn compare us-county"
    kinds = {column["name"]: column["kind"] for column in answer["columns"]}
    assert (kinds["winner"], kinds["democratic_share"], kinds["state"]) == (
        *("target", "ignored"),
        "ignored",
    )


def test_default_choices_of_a_dataset_are_not_called_the_users(crossgcn: Command) -> None:
    answer = result_of(crossgcn("check", "us-county", "--ignore", "economy", "--json"))
    reasons = {column["name"]: column["reason"] for column in answer["columns"]}
    assert reasons["state"] == reasons["democratic_share"] == "default of us-county"
    assert reasons["economy"] == "as chosen"
    assert answer["reasons"][-1] == (
        "left out by default of us-county: state, democratic_share; include one with "
        "--categorical state"
    )
    assert reasons["name"] == "names, shown beside the ids"
    included = result_of(crossgcn("check", "us-county", "--categorical", "state,name", "--json"))
    assert ": democratic_share; include one with" in included["reasons"][-1]
    kinds = {column["name"]: column["kind"] for column in included["columns"]}
    assert kinds["state"] == kinds["name"] == "categorical"


def test_check_reads_the_share_of_votes_as_a_number(crossgcn: Command) -> None:
    answer = result_of(crossgcn("check", "us-county", "--target", "democratic_share", "--json"))
    assert answer["next"] == "crossgcn compare us-county --target democratic_share"
    kinds = {column["name"]: column["kind"] for column in answer["columns"]}
    assert (kinds["democratic_share"], kinds["winner"]) == ("target", "ignored")


@pytest.mark.parametrize("command", ["train", "compare", "check"])
def test_a_second_table_of_edges_is_refused(command: str, crossgcn: Command) -> None:
    done = crossgcn(command, "us-county", "edges.csv")
    assert done.returncode == 2
    assert "edges.csv is one argument too many: us-county has its own edges" in done.stderr


def test_a_settings_file_may_name_the_dataset(crossgcn: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('dataset = "us-county"\nbags = 1\n')
    answer = result_of(crossgcn("train", "--config", "mine.toml", *QUICK, "--out", "run"))
    assert (answer["dataset"], answer["target"]) == ("us-county", "winner")


def test_tables_of_a_dataset_can_be_written_and_read_as_ones_own(crossgcn: Command) -> None:
    assert crossgcn("data", "get", "us-county", "--out", "mine").returncode == 0
    options = ("--target", "winner", "--json")
    answer = result_of(crossgcn("check", "mine/nodes.csv", "mine/edges.csv", *options))
    assert (answer["nodes"]["rows"], answer["edges"]["rows"]) == (3220, 9468)


def test_the_list_shows_terms_of_use_and_how_to_get_the_rest(crossgcn: Command) -> None:
    shown = crossgcn("data", "list").stdout
    for words in ("CC BY 4.0", "cite Traud", "Rozemberczki", "bundled", "data get"):
        assert words in shown
    done = crossgcn("data", "get", "tolokers")
    assert done.returncode == 2
    assert "github.com/Toloka/TolokerGraph" in done.stderr and "real/tolokers" in done.stderr


@pytest.mark.skipif(not (Path(DATA) / "real").is_dir(), reason="CROSSGCN_DATA has no real/")
def test_official_splits_are_public_ones(
    crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", DATA)
    options = ("--splits", "public", "--model", "mlp", "--out", "run")
    answer = result_of(crossgcn("train", "tolokers", *options, *QUICK))
    assert (answer["splits"], answer["target"]) == ("public", "banned")
    record = json.loads(next(Path("run").glob("*/split-0*/run.json")).read_bytes())
    assert record["split"]["train"] == 5879


def test_public_splits_are_refused_where_there_are_none(crossgcn: Command) -> None:
    done = crossgcn("train", "us-county", "--splits", "public")
    assert done.returncode == 2
    assert "--splits public is not for these tables" in done.stderr
