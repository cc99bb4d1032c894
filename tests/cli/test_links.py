from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from crossgcn.links.settings import encoder_names
from crossgcn.models.catalogue import PRESETS

Command = Callable[..., CompletedProcess[str]]
TINY = (
    *("--num-splits", 2, "--epochs", 3, "--hidden-channels", 4, "--embedding-channels", 4),
    *("--folds", 3, "--hits-at", "1,5", "--workers", 1),
)


def result_of(done: CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_json_has_every_metric_of_every_split(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    done = crossgcn("links", graph_file, *TINY, "--json", "--out", "out", "--order", 3)
    result = result_of(done)
    assert result["metrics"] == ["auc", "ap", "hits@1", "hits@5", "mrr"]
    assert result["num_splits"] == 2 and result["decoder"] == "dot"
    plain, ours = result["models"]
    assert (plain["name"], ours["name"]) == ("gcn", "cross-gcn")
    assert "order" not in plain and ours["order"] == 3
    for metric in result["metrics"]:
        assert len(ours["test"][metric]["values"]) == 2
        assert all(0 <= value <= 1 for value in ours["test"][metric]["values"])
        assert ours["test"][metric]["paired_se"] is not None
    assert result.keys() >= {"seconds", "versions", "threads", "commit", "epochs", "seed", "out"}
    kept = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert kept.pop("sha256") and kept == result
    assert len(list(tmp_path.glob("out/*/split-0?/run.json"))) == 4


def test_a_person_gets_a_table_and_a_verdict(crossgcn: Command, graph_file: Path) -> None:
    done = crossgcn("links", graph_file, *TINY, "--out", "out", "--decoder", "hadamard")
    assert done.returncode == 0, done.stderr
    for words in ("AUC", "Hits@5", "MRR", "paired to gcn", "95 % intervals"):
        assert words in done.stdout, words


def test_without_ranks_those_that_fit_are_shown(crossgcn: Command, graph_file: Path) -> None:
    options = tuple(option for option in TINY if option not in ("--hits-at", "1,5"))
    result = result_of(crossgcn("links", graph_file, *options, "--json", "--out", "out"))
    assert result["metrics"] == ["auc", "ap", "hits@10", "mrr"]


def test_help_offers_nothing_that_no_encoder_has(crossgcn: Command) -> None:
    text = crossgcn("links", "--help-all").stdout
    assert "cross-grand" not in text
    of_encoders = set().union(*(PRESETS[name].options for name in encoder_names()))
    for name in set().union(*(preset.options for preset in PRESETS.values())):
        assert (f"--{name.replace('_', '-')} " in text) == (name in of_encoders), name
    assert "[default: 300]" in text and "[default: 64]" in text


def test_work_is_continued_and_never_written_over(crossgcn: Command, graph_file: Path) -> None:
    arguments = ("links", graph_file, *TINY, "--json", "--out", "out")
    first = result_of(crossgcn(*arguments))
    refused = crossgcn(*arguments)
    assert refused.returncode == 2 and "--resume to continue in it" in refused.stderr
    more = result_of(crossgcn(*arguments, "--resume", "--num-splits", 3))
    for before, after in zip(first["models"], more["models"], strict=True):
        assert after["test"]["auc"]["values"][:2] == before["test"]["auc"]["values"]
    other = crossgcn(*arguments, "--resume", "--seed", 5)
    assert other.returncode == 2 and "finished run with another" in other.stderr


def test_tables_need_no_target_and_leave_it_out_when_there_is_one(
    crossgcn: Command, tmp_path: Path
) -> None:
    assert crossgcn("example", "shop", "--nodes", 300).returncode == 0
    tables = ("links", tmp_path / "shop" / "nodes.csv", tmp_path / "shop" / "edges.csv", *TINY)
    free = result_of(crossgcn(*tables, "--json", "--out", "free"))
    assert free["models"][1]["order"] == [2, 1] and free["models"][0]["bias"] is True
    kept = result_of(crossgcn(*tables, "--json", "--out", "kept", "--target", "buys"))
    assert kept["models"][0]["parameters"] < free["models"][0]["parameters"]
    alone = crossgcn(*tables[:2], *TINY)
    assert alone.returncode == 2 and "give a table of edges after it" in alone.stderr
    inside = crossgcn(*tables, "--out", tmp_path / "shop")
    assert inside.returncode == 2 and "give the results their own folder" in inside.stderr


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--models", "gcn,gni"), ("unknown model 'gni'", "did you mean 'gin'")),
        (("--models", "deep-walk"), ("'deep-walk' cannot predict links", "use one of gcn")),
        (("--models", ","), ("--models takes names", "','")),
        (("--hits-at", "5,1000"), ("Hits@1000", "ask for a smaller K")),
        (
            ("--models", "gcn,mlp", "--order", "3"),
            ("--order has no effect: gcn and mlp do not have it", "one that has it (cross-gcn,"),
        ),
        (
            ("--models", "mlp", "--aggr", "gat"),
            ("--aggr has no effect: mlp does not have it", "gcn,"),
        ),
        (("--node-drop", "0.5"), ("No such option: --node-drop",)),
        (("--hits-at", "ten"), ("--hits-at takes whole numbers", "'ten'")),
        (("--decoder", "bilinear"), ("bilinear", "hadamard")),
        (("--folds", "1"), ("folds is 1; give at least 2",)),
        (("--num-splits", "0"), ("num_splits is 0",)),
        (("--splits", "3"), ("No such option: --splits", "--num-splits")),
        (("--test-share", "0.99"), ("leave none to train on",)),
        (("--epochs", "0"), ("epochs should be greater than or equal to 1",)),
        (("--workers", "0"), ("--workers must be at least 1",)),
        (("--order", "2,1,1"), ("names 3 layers, but num_layers is 2",)),
        (("--device", "tpu"), ("device is 'tpu'",)),
        (("--target", "y"), ("cannot tell that it is a table",)),
    ],
)
def test_bad_requests_are_exit_code_2(
    options: tuple[str, ...],
    fragments: tuple[str, ...],
    crossgcn: Command,
    graph_file: Path,
    tmp_path: Path,
) -> None:
    done = crossgcn("links", graph_file, *TINY, *options)
    assert done.returncode == 2
    for fragment in fragments:
        assert fragment in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("run.json"))
