from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest_fixtures import Command, result_of

from crossgcn.training.saved_models import load_model

TINY = ("--epochs", 3, "--num-splits", 2, "--train", 5, "--hidden-channels", 4, "--workers", 1)
LONG = ("--epochs", 700, "--num-splits", 4, "--train", 5, "--hidden-channels", 4)


def test_json_is_one_object_on_stdout_and_every_run_leaves_a_record_and_a_model(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    done = crossgcn("train", graph_file, *TINY, "--json", "--out", "out")
    result = result_of(done)
    assert "epochs" in done.stderr
    assert result.keys() >= {
        *("dataset", "model", "splits", "test_accuracy", "mean", "sd"),
        *("epochs", "seconds", "versions", "threads", "commit"),
    }
    assert result["dataset"] == str(graph_file)
    assert len(result["test_accuracy"]) == 2
    assert all(0 <= accuracy <= 1 for accuracy in result["test_accuracy"])
    kept = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert kept.pop("sha256") and kept == result
    folders = sorted((tmp_path / "out" / "cross-gcn-2-layer").iterdir())
    records = [json.loads((folder / "run.json").read_bytes()) for folder in folders]
    assert [record["test_accuracy"] for record in records] == result["test_accuracy"]
    for folder, record in zip(folders, records, strict=True):
        assert len((folder / "epochs.csv").read_text().splitlines()) == 1 + 3
        assert load_model(folder).layers[0].transform.order_weights is not None  # type: ignore[union-attr]
        assert record["config"]["epochs"] == 3
        assert record["environment"]["versions"]["torch"]
        assert len(record["split"]["train"]) == 15


def test_a_folder_that_was_not_asked_for_is_in_runs_here(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    graph_file.rename(data / "mine.npz")
    result = result_of(crossgcn("train", data / "mine.npz", *TINY, "--json"))
    assert Path(result["out"]).parent == Path("runs")
    assert Path(result["out"]).name.startswith("mine-cross-gcn-")
    assert [path.name for path in data.iterdir()] == ["mine.npz"]


def test_an_earlier_result_is_not_written_over(crossgcn: Command, graph_file: Path) -> None:
    first = result_of(crossgcn("train", graph_file, *TINY, "--json", "--out", "out"))
    refused = crossgcn("train", graph_file, *TINY, "--out", "out")
    assert refused.returncode == 2
    assert "out exists and is not empty: give another --out, or --resume" in refused.stderr
    again = crossgcn("train", graph_file, *TINY, "--json", "--out", "out", "--resume")
    second = result_of(again)
    assert second["seconds"] == first["seconds"]
    assert second["test_accuracy"] == first["test_accuracy"]


SAME = ("test_accuracy", "best_epoch", "hidden_channels", "num_splits", "model", "order")


def test_a_run_is_repeated_from_its_own_config_file(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--order", "3,1", "--dropout", 0.1, "--seed", 7, "--json", "--out", "out")
    monkeypatch.chdir(graph_file.parent)
    first = result_of(crossgcn("train", graph_file.name, *TINY, *options))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    file = ("--config", graph_file.parent / "out" / "config.json", "--workers", 1, "--json")
    again = result_of(crossgcn("train", *file, "--out", "again"))
    assert {key: again[key] for key in SAME} == {key: first[key] for key in SAME}
    other = result_of(crossgcn("train", *file, "--epochs", 2, "--out", "other"))
    assert (other["epochs"], other["order"]) == (2, [3, 1])


def test_a_run_on_tables_is_repeated_with_their_options(crossgcn: Command) -> None:
    rows = [f"{i},{'ab'[i % 2]},{'xyz'[i % 3]},{i * 7 % 11}" for i in range(60)]
    Path("nodes.csv").write_text("\n".join(["id,buys,city,age", *rows]))
    edges = [f"{i},{(i * 5 + 1) % 60}" for i in range(60)]
    Path("edges.csv").write_text("\n".join(["source,destination", *edges]))
    options = ("--target", "buys", "--ignore", "city", "--epochs", 2, "--num-splits", 2)
    tables = ("nodes.csv", "edges.csv", *options, "--bags", 1, "--workers", 1, "--json")
    first = result_of(crossgcn("train", *tables, "--out", "out"))
    file = ("--config", "out/config.json", "--workers", 1, "--json", "--out", "again")
    again = result_of(crossgcn("train", *file))
    assert (again["test"], again["target"]) == (first["test"], "buys")
    columns = json.loads(Path("again/preprocess.json").read_bytes())["feature_names"]
    assert columns == json.loads(Path("out/preprocess.json").read_bytes())["feature_names"]
    assert columns and not any("city" in name for name in columns)


@pytest.mark.parametrize("content", ["{}", '{"training": {}}', "[1]", "{"])
def test_a_json_file_that_is_not_of_a_run_is_refused(content: str, crossgcn: Command) -> None:
    Path("some.json").write_text(content)
    done = crossgcn("train", "--config", "some.json")
    assert done.returncode == 2
    assert "some.json" in done.stderr and "config.json in a folder that crossgcn" in done.stderr


def test_options_win_over_the_file_the_file_over_the_preset_and_that_over_defaults(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(
        f'dataset = "{graph_file}"\nmodel = "cross-gcn-release"\nepochs = 9\nnum_splits = 2\n'
        'train = 5\nhidden_channels = 3\norder_weights = "gated"\n'
    )
    done = crossgcn(
        *("train", "--config", "run.toml", "--epochs", 2, "--workers", 1),
        *("--json", "--out", "out"),
    )
    result = result_of(done)
    assert (result["epochs"], result["hidden_channels"], result["num_splits"]) == (2, 3, 2)
    assert (result["model"], result["order_weights"]) == ("cross-gcn-release", "gated")
    assert result["dropout"] == 0.5
    layer = load_model(tmp_path / "out/cross-gcn-release-2-layer/split-00").layers[0].transform
    assert (layer.first_order, layer.order_aggregation) == ("release", "gated")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--order", "3,1"), {"order": [3, 1]}),
        (("--order", "2", "--order-weights", "1,0.5"), {"order_weights": [1.0, 0.5]}),
        (("--order", "1", "--order-weights", "0.5"), {"order_weights": [0.5]}),
        (
            ("--order-weights", "learned", "--set", "bias=true"),
            {"order_weights": "learned", "bias": True},
        ),
        (
            ("--set", "aggregate_first=true", "--train", "all"),
            {"aggregate_first": True, "train": "all"},
        ),
    ],
)
def test_each_option_reaches_the_run(
    options: tuple[str, ...], expected: dict[str, Any], crossgcn: Command, graph_file: Path
) -> None:
    result = result_of(crossgcn("train", graph_file, *TINY, *options, "--json", "--out", "out"))
    assert result | expected == result
    assert len(result["test_accuracy"]) == 2


def test_the_public_split_is_taken_as_it_is_and_seeds_are_its_spread(
    crossgcn: Command, graph_file: Path
) -> None:
    options = ("--splits", "public", "--num-splits", 3, "--epochs", 2, "--workers", 1)
    result = result_of(crossgcn("train", graph_file, *options, "--json", "--out", "out"))
    assert (result["splits"], result["num_splits"], result["train"]) == ("public", 1, None)
    assert len(result["test_accuracy"]) == 3
    assert result["sd"] is not None


def test_divergence_is_exit_code_1_with_advice_and_json(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    done = crossgcn(
        "train", graph_file, *TINY, "--set", "learning_rate=1e30", "--json", "--out", "out"
    )
    assert done.returncode == 1
    assert "training diverged" in done.stderr and "learning_rate" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 1
    assert not list(tmp_path.rglob("run.json"))


def test_a_disk_that_refuses_is_exit_code_1_without_a_traceback(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cross-gcn-2-layer").touch()
    done = crossgcn("train", graph_file, *TINY, "--out", "out", "--resume")
    assert done.returncode == 1
    assert "crossgcn: out/cross-gcn-2-layer" in done.stderr


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, which is gone afterwards."""
    # A shell that runs the tests in its background has them ignore Ctrl-C, and so all they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "crossgcn", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        for member in alive_in_group(process.pid):
            os.kill(member, signal.SIGKILL)
        process.communicate()


def alive_in_group(group: int) -> list[int]:
    alive = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            alive.append(int(status.parent.name))
    return alive


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@needs_proc
def test_ctrl_c_names_resume_and_leaves_nobody_behind(graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    endless = ("--epochs", 100_000, *LONG[2:])  # for work of a few seconds no other process starts
    with started("train", graph_file, *endless, "--workers", 2, "--out", out) as process:
        wait_until(lambda: len(alive_in_group(process.pid)) >= 3)
        time.sleep(0.7)  # the other worker is importing torch now, the worst of moments
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 130
        assert f"--resume --out {out}" in stderr
        assert "Traceback" not in stdout + stderr
        wait_until(lambda: not alive_in_group(process.pid), seconds=10)


@needs_proc
def test_what_a_killed_command_had_finished_is_not_done_again(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ("train", graph_file, *LONG, "--workers", 2, "--out", out)
    with started(*command) as process:
        wait_until(lambda: list(out.rglob("run.json")))
        process.kill()
        wait_until(lambda: not alive_in_group(process.pid))
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("run.json")}
    assert 1 <= len(kept) < 4
    arguments = ("train", graph_file, *LONG, "--workers", 1, "--json", "--out")
    resumed = result_of(crossgcn(*arguments, out, "--resume"))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    whole = result_of(crossgcn(*arguments, tmp_path / "whole"))
    for key in ("test_accuracy", "validation_score", "best_epoch", "trained_order_weights"):
        assert resumed[key] == whole[key], key
