"""Work that is broken off, and what is left of it."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from crossgcn.data import build_graph, open_graph
from crossgcn.data.files import LOCK
from crossgcn.data.stored.write import writing_graph
from crossgcn.errors import BadInput, WorkFailed


def write(out: Path, how: str) -> str:
    """Write a graph of 100,000 edges, or break off; return what is said about it."""

    def stop(stage: str, done: int, total: int | None) -> None:
        if how == "kill" and stage == "sorting" and done > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        with writing_graph(out, num_nodes=500, memory_limit=1 << 20, progress=stop) as writer:
            for seed in range(5):
                writer.add_edges(*np.random.default_rng(seed).integers(0, 500, (2, 20_000)))
    except WorkFailed as error:
        return str(error)
    return ""


def write_in_a_process(out: Path, how: str) -> tuple[int, str]:
    """The same in a copy of this process; returns how that ended, and what it said."""
    said, saying = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python does not like copies of processes with threads
        child = os.fork()
    if child == 0:
        try:
            os.write(saying, write(out, how).encode())
        finally:
            os._exit(0)
    os.close(saying)
    _, status = os.waitpid(child, 0)
    with os.fdopen(said, "rb") as pipe:
        return os.waitstatus_to_exitcode(status), pipe.read().decode()


def test_a_file_that_cannot_grow_ends_in_a_message_and_leaves_nothing(tmp_path: Path) -> None:
    code, said = write_in_a_process(tmp_path / "graph", "full")
    assert code == 0
    assert "graph could not be written (File too large); nothing of it is kept" in said
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_in_a_message_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkFailed, match=r"\(No space left on device\); .* free some space"):
        build_graph(np.array([[0], [1]]), out=tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_not_trusted_and_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "graph"
    code, _ = write_in_a_process(out, "kill")
    assert code == -signal.SIGKILL
    left = tmp_path / ".graph.building"
    assert any((left / "scratch").iterdir()) and (left / "graph" / "neighbours.npy").exists()
    for folder in (out, left / "graph"):
        with pytest.raises(BadInput):
            open_graph(folder)
    assert write(out, "finish") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
    whole = np.concatenate(
        [np.random.default_rng(seed).integers(0, 500, (2, 20_000)) for seed in range(5)], axis=1
    )
    again = build_graph(whole, out=tmp_path / "again", num_nodes=500)
    assert open_graph(out).fingerprint == again.fingerprint


def test_what_a_kill_after_the_last_step_left_is_removed(tmp_path: Path) -> None:
    edges = np.array([[0], [1]])
    build_graph(edges, out=tmp_path / "graph")
    (tmp_path / ".graph.building").mkdir()
    (tmp_path / ".graph.building" / ".lock").touch()
    with pytest.raises(BadInput, match="graph is there and not empty"):
        build_graph(edges, out=tmp_path / "graph")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_an_error_and_ctrl_c_leave_nothing(tmp_path: Path) -> None:
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), writing_graph(tmp_path / "graph", num_nodes=3) as writer:
            writer.add_edges(np.array([0]), np.array([1]))
            raise error
        assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").touch()
    (tmp_path / "file").touch()
    for name in ("mine", "file"):
        with pytest.raises(BadInput, match=f"{name} is there and not empty"):
            build_graph(np.array([[0], [1]]), out=tmp_path / name)
    with pytest.raises(BadInput, match="cannot be made"):
        build_graph(np.array([[0], [1]]), out=tmp_path / "file" / "below")
    (tmp_path / "empty").mkdir()
    build_graph(np.array([[0], [1]]), out=tmp_path / "empty")


def test_two_processes_do_not_write_the_same_folder(tmp_path: Path) -> None:
    shelter = tmp_path / ".graph.building"
    shelter.mkdir()
    with (
        FileLock(shelter / LOCK),
        pytest.raises(BadInput, match="graph is being written by another process"),
    ):
        build_graph(np.array([[0], [1]]), out=tmp_path / "graph")
    assert shelter.exists()
    build_graph(np.array([[0], [1]]), out=tmp_path / "graph")
    assert not shelter.exists()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_opening_reads_nothing_and_a_row_is_read_by_itself(tmp_path: Path) -> None:
    megabytes = 48
    with writing_graph(tmp_path / "graph", num_nodes=megabytes * 4096) as writer:
        for start in range(megabytes):
            rows = np.full((4096, 64), start, np.float32)
            writer.add_features(rows)
        random = np.random.default_rng(0)
        writer.add_edges(*random.integers(0, megabytes * 4096, (2, 100_000)))
    open_graph(tmp_path / "graph")
    before = resident_bytes()
    graph = open_graph(tmp_path / "graph")
    opened = resident_bytes() - before
    found = graph.features(np.array([5, 40 * 4096, 7 * 4096]))
    read = resident_bytes() - before
    assert found[:, 0].tolist() == [0.0, 40.0, 7.0]
    assert opened < 1e6, opened
    assert read < 4e6, read
    graph.features()
    assert resident_bytes() - before > 40e6, "the measure sees what is read"
