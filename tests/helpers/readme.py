"""Run the snippets of README.md, and check that they print what it shows.

``python tests/helpers/readme.py`` does so with the installed package, in the current folder.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from math import isclose
from pathlib import Path

PAGE = Path(__file__).parents[2] / "README.md"
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


def blocks() -> list[tuple[str, str]]:
    """Return the language and the text of every block of code."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run_snippets() -> None:
    """Run the snippets one after another in the current folder."""
    printed = ""
    for language, text in blocks():
        if language == "console":
            for part in re.split(r"^\$ crossgcn ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                check_shown(shown, run_crossgcn(command))
        elif language == "python":
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(text, PAGE, "exec"), {})
            printed = output.getvalue()
        elif language == "text":
            check_shown(text, printed)


def run_crossgcn(command: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "crossgcn", *shlex.split(command)],
        env=os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_shown(shown: str, printed: str) -> None:
    """Check that every line that is shown was printed, in this order; … stands for others."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() not in ("", "…"):
            assert any(is_like(line, other) for other in lines), f"{line!r} not in\n{printed}"


def is_like(shown: str, printed: str) -> bool:
    """Return whether two lines differ by rounding only; training depends on the processor."""
    words = [NUMBER.sub("#", line.replace("█", "")).split() for line in (shown, printed)]
    ours, theirs = (
        [float(each.replace(",", "")) for each in NUMBER.findall(line)] for line in (shown, printed)
    )
    return words[0] == words[1] and all(
        isclose(one, other, rel_tol=0.1, abs_tol=0.03)
        for one, other in zip(ours, theirs, strict=True)
    )


if __name__ == "__main__":
    run_snippets()
