"""Files are replaced as a whole, by one process at a time, and nothing is left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.files import (
    holding,
    is_empty,
    read_hashed_json,
    read_json_object,
    refuse_changed_files,
    replacing,
    sha256_of_files,
    write_hashed_json,
    write_json,
)
from crossgcn.errors import BadInput, WorkFailed

WAIT = """
import sys, time
from pathlib import Path
from crossgcn.data.files import holding, replacing
with holding(Path(sys.argv[1])), replacing(Path(sys.argv[1]) / "result.json") as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WAIT, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_the_second_process_is_refused(tmp_path: Path) -> None:
    with start(tmp_path) as first:
        with pytest.raises(BadInput, match="by another process; wait"), holding(tmp_path):
            pass
        assert is_empty(tmp_path)
        first.send_signal(signal.SIGKILL)
    with holding(tmp_path), holding(tmp_path):
        write_json(tmp_path / "result.json", {})
    assert (tmp_path / "result.json").exists() and not (tmp_path / ".lock").exists()


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real" / "file.json")
    for content in ({"a": 1}, {"a": 2}):
        write_json(link, content)
        assert link.is_symlink() and json.loads(link.read_bytes()) == content
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["file.json"]


def test_pipes_and_devices_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match=r"pipe: cannot be read \(not a regular file\)"):
        read_json_object(tmp_path / "pipe", "give another", "make it again")
    with pytest.raises(BadInput, match="pipe: exists and is not a regular file"):
        write_json(tmp_path / "pipe", {})
    with pytest.raises(BadInput, match="null: exists and is not a regular file"):
        write_json(Path("/dev/null"), {})
    assert (tmp_path / "pipe").is_fifo() and Path("/dev/null").is_char_device()


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with (
            pytest.raises(WorkFailed, match=r"big\.bin: could not be written .File too large"),
            replacing(tmp_path / "big.bin") as file,
        ):
            file.write(bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_a_damaged_and_another_json_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(BadInput, match=r"a\.json: cannot be read \(No such file.*; look here"):
        read_json_object(path, "look here", "make it again")
    for content in ("{", "[" * 100_000):
        path.write_text(content)
        with pytest.raises(BadInput, match=r"a\.json: is not valid JSON .*; make it again"):
            read_json_object(path, "look here", "make it again")
    path.write_text("[1]")
    assert read_json_object(path, "look here", "make it again") == {}


OBJECTS = st.dictionaries(st.text().filter(lambda key: key != "sha256"), st.integers() | st.text())


@given(OBJECTS, st.text())
def test_a_changed_json_object_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, object], extra: str
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    write_hashed_json(path, content)
    assert read_hashed_json(path, "", "") == content
    changed = extra + str(content.get("changed"))
    for damaged in (json.loads(path.read_bytes()) | {"changed": changed}, content):
        write_json(path, damaged)
        with pytest.raises(BadInput, match=r"a\.json: is not what was written.*; make it again"):
            read_hashed_json(path, "", "make it again")


def test_a_changed_or_missing_file_of_a_folder_is_noticed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    hashes = sha256_of_files(tmp_path, ("a", "b"))
    refuse_changed_files(tmp_path, hashes, "")
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").unlink()
    for name, known in hashes.items():
        with pytest.raises(BadInput, match=f"{name}: is not what was written there.*; copy it"):
            refuse_changed_files(tmp_path, {name: known}, "copy it")
    missing = sha256_of_files(tmp_path, ["b"])
    with pytest.raises(BadInput, match="b: is not what was written"):
        refuse_changed_files(tmp_path, missing, "")


def test_a_file_name_that_is_no_utf8_survives(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "a.json", {"out": name})
    assert read_json_object(tmp_path / "a.json", "", "") == {"out": name}
