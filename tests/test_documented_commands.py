"""Every command line of README.md and docs/ runs, on less data and for fewer epochs.

Blocks without a language hold commands. Blocks of the language ``console`` hold commands, each
after ``$``, with what they print; after a change of an output run
``UPDATE_DOCS=1 pytest tests/test_documented_commands.py``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest_fixtures import Command
from shop_tables import make_shop

from crossgcn.cli.app import load_command
from crossgcn.data import read_real

PROJECT = Path(__file__).parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]

ONE_RUN = ("--num-splits", "1", "--epochs", "1")
QUICK = {
    "train": (*ONE_RUN, "--workers", "1"),
    "compare": ("--num-splits", "2", "--epochs", "1", "--workers", "1"),
    "report": ("--nodes", "20"),
}
STAND_INS = {"cora": "citeseer", "pubmed": "citeseer", "cuda": "cpu"}
"""What every machine has, in place of what it may lack."""

UNUSED = "state,economy,rural_urban_code,birth_rate,death_rate,international_migration_rate"
"""Columns that are left out, so that explanations take less time."""

RUN = ("train us-county --hops 1 --columns all --out run",)
BEFORE = {"explanations.md": RUN, "databases.md": RUN}
"""Commands of other pages that a page relies on."""


def logical_lines(block: str) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip():
            yield line


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for marked, block in found if marked == language]


def commands_of(page: Path) -> list[list[str]]:
    lines = [line for block in blocks(page, "") for line in logical_lines(block)]
    return [shlex.split(line, comments=True) for line in lines]


def shortened(words: list[str]) -> list[str]:
    words = [STAND_INS.get(word, word) for word in words]
    if not words:
        return ["--help"]
    quick = QUICK.get(words[0], ())
    if words[0] == "compare" and "--models" not in words:
        quick = (*quick, "--models", "majority-or-mean,linear")
    if words[0] == "train" and {"--target", "us-county"} & {*words} and "--model" not in words:
        quick = (*quick, "--hops", "1", "--bags", "2")
    if words[0] == "train" and "counties/nodes.csv" in words:
        quick = (*quick, "--ignore", f"democratic_share,{UNUSED}")
    if "--config" in words:
        quick = ()
    return [*words, *quick]


def check_command(words: list[str], crossgcn: Command) -> None:
    """Run a command line, or check that what it names exists if it installs or measures."""
    while "=" in words[0]:
        words = words[1:]
    if words[0] == "pip":
        extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\[(\w+)\]", words[-1]):
            assert extra in extras["optional-dependencies"]
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}\b.*:", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]) is not None, words
    else:
        assert "crossgcn" in words, words
        words = shortened(words[words.index("crossgcn") + 1 :])
        done = crossgcn(*words)
        if "tolokers" in words:  # Not on this machine: the fixture hides the data.
            assert done.returncode == 2 and "real/tolokers" in done.stderr
        else:
            assert done.returncode == 0, (words, done.stdout[-500:], done.stderr[-1500:])


def write_tables(folder: Path) -> None:
    """The files that the pages name."""
    shop = make_shop(300)
    shop.nodes.rename(columns={"buys": "label"}).to_csv(folder / "nodes.csv", index=False)
    shop.edges.to_parquet(folder / "edges.parquet")
    counties = read_real("us-county")
    known = counties.nodes.head(3)
    known.assign(fips=["90001", "90002", "90003"]).to_csv(folder / "new_nodes.csv", index=False)
    ends = {"county": ["90001", "90002"], "neighbour": known["fips"].astype(str)[:2]}
    pd.DataFrame(ends).to_csv(folder / "new_edges.csv", index=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_commands_of_a_page_run(page: Path, crossgcn: Command, graph_file: Path) -> None:
    commands = commands_of(page)
    if not commands:
        pytest.skip("no commands on this page")
    shutil.copy(graph_file, "my_graph.npz")
    write_tables(Path())
    for line in BEFORE.get(page.name, ()):
        check_command(["crossgcn", *line.split()], crossgcn)
    for words in commands:
        check_command(words, crossgcn)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_printed_output_of_a_page_is_what_is_printed(
    page: Path, crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks(page, "console"):
        fresh = ""
        for line in block.splitlines():
            if line.startswith("$ crossgcn "):
                monkeypatch.setenv("COLUMNS", "110")
                done = crossgcn(*shlex.split(line)[2:])
                assert done.returncode == 0, done.stderr
                output = "\n".join(row.rstrip() for row in done.stdout.splitlines())
                fresh += f"{line}\n{output.strip()}\n"
        if "UPDATE_DOCS" in os.environ:
            text = text.replace(block, fresh)
            page.write_text(text, encoding="utf-8")
        else:
            assert block == fresh, f"{page.name}: run UPDATE_DOCS=1 pytest {__file__}"


def test_the_commands_within_sentences_exist() -> None:
    for page in PAGES:
        for line in re.findall(r"`crossgcn ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
            name, *words = line.split()
            command: Any = load_command(name)
            if hasattr(command, "commands") and words:
                command = command.commands[words.pop(0)]
            known = {option for each in command.params for option in each.opts}
            known |= {option for each in command.params for option in each.secondary_opts}
            asked = {word for word in words if word.startswith("--")} - {"--help", "--help-all"}
            assert asked <= known, (page.name, line)
