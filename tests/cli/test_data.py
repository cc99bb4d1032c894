from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import torch

from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.data.datasets.load import load_dataset

Command = Callable[..., CompletedProcess[str]]


def test_the_list_says_what_is_here(crossgcn: Command) -> None:
    listed = json.loads(crossgcn("data", "list", "--json").stdout)["datasets"]
    assert [row["name"] for row in listed] == list(DATASET_NAMES)
    where = {row["name"]: row["where"] for row in listed}
    assert (where["citeseer"], where["citeseer-cross"], where["cora"]) == (
        "bundled",
        "generated",
        None,
    )
    shown = crossgcn("data", "list").stdout
    assert "not here" in shown and "crossgcn data get NAME" in shown


def test_a_drawn_graph_can_be_kept_and_trained_on(crossgcn: Command, tmp_path: Path) -> None:
    got = crossgcn("data", "get", "citeseer-cross", "--seed", 3, "--out", "mine", "--json")
    file = json.loads(got.stdout)["file"]
    assert Path(file) == Path("mine/citeseer-cross.npz")
    drawn = load_dataset(tmp_path / file)
    assert torch.equal(drawn.x, load_dataset("citeseer-cross", seed=3).x)
    assert not torch.equal(drawn.x, load_dataset("citeseer-cross").x)
    done = crossgcn(
        *("train", file, "--epochs", 2, "--num-splits", 1, "--workers", 1),
        *("--json", "--out", "out"),
    )
    assert done.returncode == 0, done.stderr


def test_what_ships_with_the_package_needs_no_fetching(crossgcn: Command) -> None:
    done = crossgcn("data", "get", "citeseer")
    assert (done.returncode, done.stdout) == (0, "citeseer is here (bundled)\n")


def test_an_unknown_dataset_is_refused_with_the_near_miss(crossgcn: Command) -> None:
    done = crossgcn("data", "get", "citesear")
    assert done.returncode == 2
    assert "unknown dataset 'citesear': did you mean 'citeseer'" in done.stderr


def test_a_seed_out_of_range_is_refused(crossgcn: Command) -> None:
    done = crossgcn("data", "get", "citeseer-cross", "--seed", 2**64, "--out", "out")
    assert done.returncode == 2
    assert "--seed" in done.stderr and str(2**32 - 1) in done.stderr
