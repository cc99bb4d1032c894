"""Two writers of one folder, and damage in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from crossgcn.errors import Note, printable

Command = Callable[..., CompletedProcess[str]]
QUICK = ("--splits", "public", "--epochs", 2, "--workers", 1)
HOLD = """
import sys, time
from pathlib import Path
from crossgcn.data.files import holding
with holding(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_the_second_writer_of_a_folder_is_refused(crossgcn: Command, graph_file: Path) -> None:
    command = [sys.executable, "-c", HOLD, "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None and first.stdout.readline() == "ready\n"
        for more in ((), ("--resume",)):
            done = crossgcn("train", graph_file, *QUICK, "--out", "out", *more)
            assert done.returncode == 2
            said = " ".join(done.stderr.split())
            assert f"out is being written by process {first.pid} on {os.uname().nodename}" in said
        first.kill()
    done = crossgcn("train", graph_file, *QUICK, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert not [name for name in os.listdir("out") if name.startswith(".")]  # noqa: PTH208


def test_a_damaged_finished_run_is_trained_again(crossgcn: Command, graph_file: Path) -> None:
    first = json.loads(crossgcn("train", graph_file, *QUICK, "--out", "out", "--json").stdout)
    folder = Path("out/cross-gcn-2-layer/split-00")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    again = ("train", graph_file, *QUICK, "--out", "out", "--resume", "--json")
    with pytest.warns(Note, match=r"split-00/model\.safetensors: .*; the run is trained again"):
        second = json.loads(crossgcn(*again).stdout)
    assert second["test_accuracy"] == first["test_accuracy"]
    assert (folder / "model.safetensors").read_bytes() == weights
    (folder / "config.json").unlink()
    with pytest.warns(Note, match=r"split-00/config\.json"):
        assert crossgcn(*again).returncode == 0
    assert (folder / "config.json").exists()
    result = Path("out/result.json")
    result.write_text(result.read_text().replace('"epochs": 2', '"epochs": 3'))
    done = crossgcn("report", "out")
    assert done.returncode == 2 and "result.json: is not what was written there" in done.stderr


def test_text_is_printable_and_json_stays_json() -> None:
    assert printable("a\tb\nc é ± 日本") == "a\tb\nc é ± 日本"
    assert printable("\x1b[31m\x9b\r\x7f\u202e\udce9") == (
        "\\u001b[31m\\u009b\\u000d\\u007f\\u202e\\udce9"
    )
    text = json.dumps({"a": "\x7f\x9b\u202e"}, ensure_ascii=False)
    assert json.loads(printable(text)) == json.loads(text)
