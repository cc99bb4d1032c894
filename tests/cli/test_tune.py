from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from forked_commands import started, wait_until

Command = Callable[..., CompletedProcess[str]]
TINY = ("--epochs", 3, "--num-splits", 2, "--train", 5, "--workers", 1, "--trials", 2)
LONG = ("--epochs", 20, "--num-splits", 2, "--train", 5, "--workers", 1, "--trials", 2)


def result_of(done: CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_json_holds_the_search_and_training_the_chosen_settings_gives_the_same(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    result = result_of(crossgcn("tune", graph_file, *TINY, "--json", "--out", "out"))
    assert result["dataset"] == str(graph_file)
    assert (result["model"], result["twin"]["model"]) == ("cross-gcn", "gcn")
    assert result["num_trials"] == result["twin"]["num_trials"] == 2
    assert len(result["test_accuracy"]) == 2 and result["paired_se"] is not None
    kept = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert kept.pop("sha256") and kept == result
    assert (tmp_path / "out" / "search.png").read_bytes().startswith(b"\x89PNG")
    for name, side in (("best", result), ("twin", result["twin"])):
        config = tmp_path / "out" / f"{name}.toml"
        again = crossgcn("train", "--config", config, "--workers", 1, "--json", "--out", name)
        assert result_of(again)["test_accuracy"] == side["test_accuracy"]


def test_a_person_gets_settings_a_verdict_and_the_next_command(
    crossgcn: Command, graph_file: Path
) -> None:
    done = crossgcn("tune", graph_file, *TINY, "--out", "a[/b]")
    assert done.returncode == 0, done.stderr
    for words in ("paired to gcn", "searched", "learning_rate", "95 % interval"):
        assert words in done.stdout
    assert "Next: crossgcn train --config 'a[/b]/best.toml'" in done.stdout
    assert "a[/b]/search.png" in done.stdout


def test_options_hold_and_a_space_of_ones_own_is_searched(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "space.toml").write_text("dropout = { low = 0.1, high = 0.2 }\n")
    options = ("--space", "space.toml", "--fix", "hidden_channels=3", "--learning-rate", 0.02)
    result = result_of(
        crossgcn(
            *("tune", graph_file, *TINY, *options, "--num-layers", "1,2", "--no-twin"),
            *("--search-splits", 1, "--json", "--out", "out"),
        )
    )
    assert set(result["settings"]) == {"num_layers", "dropout"}
    assert 0.1 <= result["settings"]["dropout"] <= 0.2
    assert (result["hidden_channels"], result["search_splits"]) == (3, 1)
    assert result["twin"] is None
    text = (tmp_path / "out" / "best.toml").read_text()
    assert "hidden_channels = 3\n" in text and "learning_rate = 0.02\n" in text
    assert not (tmp_path / "out" / "twin.toml").exists()


def test_tables_of_ones_own_keep_their_test_nodes_apart(crossgcn: Command, tmp_path: Path) -> None:
    sides = [("red", "yes"), ("blue", "no")]
    rows = [f"n{i},{sides[i % 2][0]},{i % 3},{sides[i % 2][1]}\n" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("id,colour,size,answer\n" + "".join(rows))
    edges = [f"n{i},n{(i + 2) % 60}\n" for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(edges))
    tables = ("nodes.csv", "edges.csv", "--target", "answer")
    options = ("--epochs", 3, "--workers", 1, "--num-splits", 2, "--model", "cross-gcn")
    done = crossgcn("tune", *tables, *options, "--trials", 2, "--json", "--out", "out")
    result = result_of(done)
    assert (result["splits"], result["metric"]) == ("stratified", "roc_auc")
    assert (result["num_splits"], result["target"]) == (2, "answer")
    assert result["settings"]["order"][1:] == [1]
    seen = {
        json.loads(path.read_bytes())["split"]["test_sha256"]
        for path in (tmp_path / "out" / "chosen").rglob("run.json")
    }
    assert len(seen) == 1
    config = ("--config", "out/best.toml")
    trained = result_of(crossgcn("train", *tables, *options, *config, "--json", "--out", "t"))
    assert trained["splits"] == "stratified" and trained["order"] == result["settings"]["order"]
    for use in ("explain", "predict"):
        used = crossgcn(use, result["folder"], "--json")
        assert used.returncode == 0, used.stderr
    text = (tmp_path / "out" / "best.toml").read_text()
    assert "tests on nodes that chose the settings" in text
    assert f"# model in chosen/{Path(result['folder']).name}.\n" in text
    shown = crossgcn("tune", *tables, *options, "--trials", 2, "--out", "out", "--resume")
    folder = result["folder"]
    assert f"Next: crossgcn predict {folder} or crossgcn explain {folder}\n" in shown.stdout
    assert "tests on nodes that chose the settings" in " ".join(shown.stdout.split())
    assert "crossgcn train" not in shown.stdout


def test_a_number_is_searched_by_its_metric_for_cross_hops_and_its_twin(
    crossgcn: Command, tmp_path: Path
) -> None:
    rows = [f"n{i},{i % 3},{(i * 7) % 11},{10 * (i % 3) + i % 11 + 0.5}\n" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("id,colour,size,price\n" + "".join(rows))
    edges = [f"n{i},n{(i + 2) % 60}\n" for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(edges))
    command = (
        *("tune", "nodes.csv", "edges.csv", "--target", "price", "--metric", "rmse"),
        *("--epochs", 3, "--num-splits", 2, "--trials", 2, "--workers", 1, "--out", "out"),
    )
    result = result_of(crossgcn(*command, "--json"))
    assert (result["task"], result["metric"]) == ("regression", "rmse")
    assert (result["model"], result["twin"]["model"]) == ("cross-hops", "cross-hops-1")
    assert result["space"].keys() - result["twin"]["space"].keys() == {"order"}
    assert result["mean"] == pytest.approx(sum(result["test"]["rmse"]) / 2)
    scores = [trial["validation_score"] for trial in result["trials"]]
    assert result["search_validation"] == max(scores) < 0
    gain = result["mean"] - result["twin"]["mean"]
    assert result["paired_difference"] == pytest.approx(gain)
    assert "bags = 8\n" in (tmp_path / "out" / "best.toml").read_text()
    records = [json.loads(path.read_bytes()) for path in (tmp_path / "out").rglob("run.json")]
    assert {record["config"]["order"] for record in records} >= {1}
    shown = crossgcn(*command, "--resume").stdout
    assert "RMSE" in shown and "paired to cross-hops-1" in shown and "accuracy" not in shown
    assert f"crossgcn explain {result['folder']}" in shown
    assert "chosen by RMSE on the validation" in (tmp_path / "out" / "twin.toml").read_text()


def test_a_search_that_was_killed_goes_on_where_it_was(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["tune", graph_file, *LONG, "--out", out]
    journal = out / "trials" / "journal.jsonl"

    def finished_trials() -> list[bytes]:
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        return [line for line in lines if b"validation_score" in line]

    with started(*command) as process:
        wait_until(lambda: len(finished_trials()) >= 2)
        os.kill(process, signal.SIGKILL)
    kept = finished_trials()
    refused = crossgcn(*command)
    assert refused.returncode == 2 and "--resume to continue in it" in refused.stderr
    resumed = result_of(crossgcn(*command, "--resume", "--json"))
    assert set(kept[:2]) <= set(finished_trials())
    whole = result_of(crossgcn("tune", graph_file, *LONG, "--json", "--out", tmp_path / "whole"))
    for key in ("trials", "test_accuracy", "settings"):
        assert resumed[key] == whole[key]
        assert resumed["twin"][key] == whole["twin"][key]


def test_another_search_is_not_continued(crossgcn: Command, graph_file: Path) -> None:
    arguments = ("tune", graph_file, *TINY, "--no-twin", "--out", "out", "--resume")
    assert crossgcn(*arguments).returncode == 0
    done = crossgcn(*arguments, "--dropout", 0.5)
    assert done.returncode == 2
    assert "holds a search with another settings: dropout (None, not 0.5)" in done.stderr


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--model", "cross-gnc"), ("unknown model 'cross-gnc'", "did you mean 'cross-gcn'")),
        (("--trials", 0), ("--trials must be at least 1; got 0",)),
        (("--search-splits", 9), ("--search-splits is 9: give 1 to 2",)),
        (("--fix", "dropout"), ("--fix takes NAME=VALUE", "'dropout'")),
        (("--fix", "droput=0.1"), ("unknown setting in --fix 'droput'", "'dropout'")),
        (("--dropout", 0.5, "--fix", "dropout=0.4"), ("dropout is held at 0.5 and at 0.4",)),
        (("--num-layers", "1,2", "--order", "2,1"), ("names 2 layers, but num_layers is 1",)),
        (("--space", "no.toml"), ("no.toml: cannot be read",)),
        (("--num-layers", "two"), ("--num-layers takes whole numbers", "'two'")),
        (("--target", "x"), ("cannot tell that it is a table",)),
        (("--splits", "stratified", "--train", "all", "--dropout", 2), ("dropout should be",)),
    ],
)
def test_bad_searches_are_exit_code_2(
    options: tuple[object, ...], fragments: tuple[str, ...], crossgcn: Command, graph_file: Path
) -> None:
    done = crossgcn("tune", graph_file, *TINY, *options, "--out", "out")
    assert done.returncode == 2, done.stderr
    assert all(fragment in done.stderr for fragment in fragments), done.stderr
    assert "Traceback" not in done.stderr


def test_without_optuna_the_remedy_is_one_line(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("crossgcn.experiments.tune")]:
        monkeypatch.delitem(sys.modules, name)
    done = crossgcn("tune", graph_file, *TINY, "--out", "out")
    assert done.returncode == 2
    assert done.stderr.endswith("not installed: pip install 'crossgcn[tune]'\n")
    assert not (tmp_path / "out").exists()
