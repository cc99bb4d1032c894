"""Hostile texts in tables and as arguments, through every command that prints."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest
from hostile_texts import CONTROLS, HOSTILE_TEXTS

Command = Callable[..., CompletedProcess[str]]
# A table with a NUL byte is refused, and a blank cell is no class.
TEXTS = [text for text in HOSTILE_TEXTS if "\x00" not in text and text.strip()]
QUICK = ("--epochs", 1, "--num-splits", 1, "--workers", 1)


def check_output(done: CompletedProcess[str], code: int | None = 0) -> str:
    assert code in (None, done.returncode), (done.args, done.stderr[-2000:])
    for stream in (done.stdout, done.stderr):
        assert not CONTROLS & set(stream), done.args
        assert "Traceback" not in stream, done.args
    assert not Path("executed").exists()
    return done.stdout


def write_tables(num_rows: int, num_columns: int) -> tuple[object, ...]:
    """Every text is an id and a value, and every eighth a column; three are classes."""
    rows = range(num_rows)
    ids = [f"{TEXTS[row % len(TEXTS)]}{row}" for row in rows]
    headers = enumerate(TEXTS[:: len(TEXTS) // num_columns])
    columns = {text: [row * at % 7 % 2 for row in rows] for at, text in headers}
    values = {f"{TEXTS[0]}'": [TEXTS[row * 7 % len(TEXTS)] for row in rows]}
    kinds = [(TEXTS[0], "[bold]rich[/bold]", "</script>")[row % 3] for row in rows]
    frame = pd.DataFrame({"id": ids, **columns, **values, "kind": kinds})
    frame.to_csv("nodes.csv", index=False, quoting=csv.QUOTE_ALL)
    edges = pd.DataFrame({"from": ids, "to": ids[1:] + ids[:1]})
    edges.to_csv("edges.csv", index=False, quoting=csv.QUOTE_ALL)
    return "nodes.csv", "edges.csv", "--target", "kind", "--id-column", "id"


def test_there_are_sixty() -> None:
    assert len(set(HOSTILE_TEXTS)) >= 60


def test_texts_in_tables_are_shown_as_text(crossgcn: Command) -> None:
    own = write_tables(160, 10)
    model = ("--model", "cross-gcn", *QUICK, "--splits", "stratified")
    check_output(crossgcn("check", *own))
    check_output(crossgcn("check", *own, "--json"))
    check_output(crossgcn("train", *own, *model, "--out", "run"))
    shown = check_output(crossgcn("explain", "run", "--top", 30))
    assert "[bold]rich[/bold]" in shown and "\\u001b[31mred" in shown
    check_output(crossgcn("explain", "run", "--json"))
    check_output(crossgcn("explain", "run", "--node", f"{TEXTS[2]}2"))
    check_output(crossgcn("predict", "run", "--out", "p.csv"))
    check_output(crossgcn("predict", "run", "--out", "p.csv", "--json"))


def test_commands_that_train_show_classes_as_text(crossgcn: Command) -> None:
    own = write_tables(60, 3)
    compare = ("--models", "cross-hops-1,cross-hops-2", "--num-splits", 1, "--workers", 1)
    check_output(crossgcn("compare", *own, *compare, "--epochs", 1, "--out", "compared"))
    check_output(crossgcn("train", *own, *QUICK, "--bags", 1, "--out", "run"))
    check_output(crossgcn("explain", "run"))


ARGUMENTS: list[tuple[str, ...]] = [
    ("explain", "run", "--node"),
    ("explain", "run", "--class"),
    ("train", "nodes.csv", "edges.csv", "--out", "new", "--target"),
    ("train", "us-county", "--out", "new", "--model"),
    ("train", "--out", "new"),
    ("data", "show"),
    ("compare", "us-county", "--out", "new", "--models"),
    ("predict",),
    ("report",),
]


@pytest.fixture(autouse=True)
def plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to compile."""
    monkeypatch.setenv("CROSSGCN_PLAIN_KERNELS", "1")


@pytest.fixture
def run(crossgcn: Command) -> None:
    own = write_tables(60, 3)
    check_output(crossgcn("train", *own, *QUICK, "--model", "cross-gcn", "--out", "run"))


@pytest.mark.usefixtures("run")
def test_texts_as_arguments_are_refused_as_text(crossgcn: Command) -> None:
    for at, text in enumerate(HOSTILE_TEXTS):
        arguments = ARGUMENTS[at % len(ARGUMENTS)]
        if text.strip():
            done = crossgcn(*arguments, f"{text}?")  # no class, id or file of the run's own tables
            check_output(done, None)
            assert done.returncode in (1, 2), (arguments, text)
