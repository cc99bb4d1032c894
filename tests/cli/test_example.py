from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd

from crossgcn.data.datasets.shop import PLANTED

Command = Callable[..., CompletedProcess[str]]

FILES = {
    *("nodes.csv", "edges.csv", "new_nodes.csv", "new_edges.csv", "new_answers.csv"),
    "README.md",
}


def test_it_says_what_it_wrote_and_what_is_next(crossgcn: Command) -> None:
    done = crossgcn("example", "my shop/", "--nodes", 400)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in Path("my shop").iterdir()} == FILES
    assert "400 customers (nodes.csv), 2,000 recommendations (edges.csv)" in done.stdout
    for cross in PLANTED:
        assert f"planted for {cross.buys}: {cross.name}" in done.stdout
    *_, last = done.stdout.splitlines()
    assert last == "Next: crossgcn check 'my shop/nodes.csv' 'my shop/edges.csv' --target buys"
    assert crossgcn(*shlex.split(last)[2:]).returncode == 0


def test_the_page_names_the_crosses_and_the_commands(crossgcn: Command) -> None:
    crossgcn("example")
    page = Path("shop/README.md").read_text(encoding="utf-8")
    for cross in PLANTED:
        assert f"| {cross.buys} | `{cross.name}` |" in page
    commands = [line.split()[1] for line in page.splitlines() if line.startswith("crossgcn ")]
    assert commands == ["check", "compare", "train", "explain", "predict", "report"]
    assert "--node u_881" in page
    assert page.count("|---|---|") == 2 and "\n\n## What to run" in page


def test_without_crosses_the_page_says_so(crossgcn: Command) -> None:
    done = crossgcn("example", "plain", "--no-crosses", "--nodes", 300)
    assert "no crosses planted" in done.stdout
    page = Path("plain/README.md").read_text(encoding="utf-8")
    assert "No cross." in page and " & " not in page
    assert "--node u_300" in page


def test_json_is_one_object_with_what_was_planted(crossgcn: Command) -> None:
    done = crossgcn(
        *("example", "--out", "there", "--nodes", 500, "--columns", 18, "--format", "parquet"),
        *("--seed", 3, "--json"),
    )
    told = json.loads(done.stdout)
    assert told["crosses"] == [{"buys": cross.buys, "cross": cross.name} for cross in PLANTED]
    assert (told["nodes"], told["edges"], told["new_nodes"]) == (500, 2500, 25)
    assert (told["folder"], told["columns"], told["seed"]) == ("there", 18, 3)
    assert pd.read_parquet(Path("there") / told["files"][0]).shape == (500, 18)


def test_a_folder_in_use_is_refused_and_left_alone(crossgcn: Command, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").touch()
    done = crossgcn("example")
    assert done.returncode == 2
    assert "shop is there and not empty: give a folder that is new or empty" in done.stderr
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["mine.txt"]


def test_two_folders_are_one_too_many(crossgcn: Command) -> None:
    done = crossgcn("example", "here", "--out", "there")
    assert done.returncode == 2
    assert "here and --out there: give one of them" in done.stderr
    assert crossgcn("example", "here", "--out", "here", "--nodes", 300).returncode == 0


def test_numbers_out_of_range_are_refused(crossgcn: Command) -> None:
    for option, value, remedy in (
        ("--nodes", 10, "give at least 300"),
        ("--columns", 3, "give at least 15"),
        ("--seed", -1, "--seed"),
        ("--format", "xlsx", "--format"),
    ):
        done = crossgcn("example", "out", option, value)
        assert done.returncode == 2 and remedy in done.stderr, option
        assert not Path("out").exists()
