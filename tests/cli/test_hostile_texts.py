"""Texts from data that would do harm if something ran, parsed or obeyed them."""

from __future__ import annotations

import csv
import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from conftest_fixtures import Command
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from crossgcn.cli.running import print_answer

CONTROLS = frozenset(
    [
        *map(chr, [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)]),
        *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    ]
)
"""Characters that no command may print."""
TEXTS = [
    "\x1b[31mred",
    "\x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;ZWNobyB4\x07",
    "\x9b31mred",
    "\x07\x08\x7f",
    "over\rwritten",
    "\u202etxt.exe",
    "\u2028\u2029\x85",
    "[bold]rich[/bold]",
    "[link=http://x.invalid]x[/link]",
    "[/]",
    ":smile:",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% for x in y %}",
    "$\\frac{1}{0}$ %s %d %n {0.__class__}",
    "=cmd|'/C calc'!A0",
    "../../etc/passwd",
    "--help",
    "$(touch executed)`touch executed`; touch executed",
    '"quoted", a;b\tc|d',
    "null",
    "None",
    "\ufeffmark",
    "e\u0301\u0301\u0301\u0301",
    "\U0001f468\u200d\U0001f469\u0627\u0644",
    "x" * 10_000,
]
QUICK = ("--epochs", 1, "--num-splits", 1, "--workers", 1)


@given(st.text())
def test_no_text_controls_the_terminal_and_json_stays_json(text: str) -> None:
    table = Table("column")
    table.add_row(Text(text))
    for as_json in (False, True):
        with redirect_stdout(StringIO()) as out:
            print_answer({"text": text}, [text, Text(text), table], as_json)
        assert not CONTROLS & set(out.getvalue())
    assert json.loads(out.getvalue()) == {"text": text}


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_texts_in_tables_and_as_arguments_are_shown_as_text(model: str, crossgcn: Command) -> None:
    """Every text is an id and a value, every third a column, three are classes."""
    rows = range(4 * len(TEXTS))
    ids = [f"{TEXTS[row % len(TEXTS)]}{row}" for row in rows]
    columns = {f"{text} {at}": [row * at % 7 % 2 for row in rows] for at, text in enumerate(TEXTS)}
    chosen = dict(list(columns.items())[::3])
    values = [TEXTS[row * 7 % len(TEXTS)] for row in rows]
    kinds = [(TEXTS[0], "[bold]rich[/bold]", "</script>")[row % 3] for row in rows]
    nodes = pd.DataFrame({"id": ids, **chosen, "\x1b'": values, "kind": kinds})
    nodes.to_csv("nodes.csv", index=False, quoting=csv.QUOTE_ALL)
    edges = pd.DataFrame({"from": ids, "to": ids[1:] + ids[:1]})
    edges.to_csv("edges.csv", index=False, quoting=csv.QUOTE_ALL)

    def run(*arguments: object, code: int = 0) -> str:
        done = crossgcn(*arguments)
        assert done.returncode == code, (arguments, done.stderr[-2000:])
        assert not CONTROLS & set(done.stdout + done.stderr), arguments
        assert not Path("executed").exists()
        return done.stdout

    own = ("nodes.csv", "edges.csv", "--target", "kind", "--id-column", "id")
    run("check", *own)
    run("train", *own, "--model", model, *QUICK, "--out", "run")
    shown = run("explain", "run", "--top", 30)
    assert "[bold]rich[/bold]" in shown and "\\u001b[31mred" in shown
    run("explain", "run", "--json")
    run("explain", "run", "--node", f"{TEXTS[2]}2", code=0 if model == "cross-hops" else 2)
    run("predict", "run", "--out", "p.csv", "--json")
    for text in TEXTS[::4]:
        unknown = f"{text}?"
        run("explain", "run", f"--node={unknown}", code=2)
        run("explain", "run", f"--class={unknown}", code=2)
        run("train", *own[:2], f"--target={unknown}", "--out", "new", code=2)
        run("train", "us-county", f"--model={unknown}", "--out", "new", code=2)
        run("predict", "--", unknown, code=2)
        run("--", unknown, code=2)
