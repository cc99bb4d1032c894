"""Two machines, as far as the network is concerned: each process in a network of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torchrun_commands import RUN, TRAIN, start, weights_of

pytestmark = pytest.mark.slow
NAMES = tuple(f"crossgcn-{os.getpid()}-{number}" for number in (0, 1))
ADDRESSES = ("10.231.7.1", "10.231.7.2")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by one cable."""
    if shutil.which("ip") is None:
        pytest.skip("there is no ip command here, which makes networks")
    made: list[str] = []
    try:
        try:
            for name in NAMES:
                _ip("netns", "add", name)
                made.append(name)
            ends = [f"cg{os.getpid()}{number}" for number in (0, 1)]
            _ip("link", "add", ends[0], "netns", NAMES[0], "type", "veth", "peer", "name", ends[1])
            _ip("link", "set", ends[1], "netns", NAMES[1])
            for name, end, address in zip(NAMES, ends, ADDRESSES, strict=True):
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                _ip("-n", name, "link", "set", end, "name", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except OSError as error:
            pytest.skip(f"networks cannot be made here: {error}")
        yield NAMES[0], NAMES[1]
    finally:
        for name in made:
            _ip("netns", "delete", name)


def test_two_machines_give_what_one_process_gives(
    machines: tuple[str, str],
    crossgcn: Callable[..., CompletedProcess[str]],
    graph_file: Path,
    tmp_path: Path,
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", 12, "--json", "--out"]
    processes = [
        start(
            # The second machine has no such folder, and needs none.
            [*arguments, tmp_path / "two" if rank == 0 else "/dev/null/nowhere"],
            processes=1,
            options=(
                *("--nnodes", "2", "--node-rank", str(rank)),
                *("--master-addr", ADDRESSES[0], "--master-port", "29611"),
            ),
            prefix=("ip", "netns", "exec", machine),
            GLOO_SOCKET_IFNAME="eth0",
        )
        for rank, machine in enumerate(machines)
    ]
    one = crossgcn(*arguments, tmp_path / "one")
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert results[1][0] == ""
    assert json.loads(results[0][0])["test_accuracy"] == json.loads(one.stdout)["test_accuracy"]
    assert json.loads((tmp_path / "two" / RUN / "run.json").read_text())["processes"] == 2
    for name, value in weights_of(tmp_path / "one").items():
        torch.testing.assert_close(weights_of(tmp_path / "two")[name], value, rtol=1e-3, atol=1e-4)
