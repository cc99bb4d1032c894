from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from conftest_fixtures import Command

from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.data.datasets.load import load_dataset


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


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("citeseer", 0, "citeseer is here (bundled)"),
        ("citesear", 2, "unknown dataset 'citesear': did you mean 'citeseer'"),
        ("citeseer-cross --out o --seed 99999999999", 2, str(2**32 - 1)),
    ],
)
def test_a_dataset_is_found_or_refused(
    arguments: str, code: int, words: str, crossgcn: Command
) -> None:
    done = crossgcn("data", "get", *arguments.split())
    assert done.returncode == code and words in done.stdout + done.stderr
