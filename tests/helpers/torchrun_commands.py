"""Starting ``torchrun`` as a user does, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from crossgcn.training.checkpoints import load_model

__all__ = ["RUN", "TRAIN", "start", "wait_until", "weights_of"]

TRAIN = [
    *("--splits", "public", "--hidden-channels", "8", "--dropout", "0", "--device", "cpu"),
    *("--set", "batch_size=7", "--set", "fanout=4,3", "--model", "cross-gcn"),
]
RUN = Path("cross-gcn-2-layer", "split-00")


def start(
    command: Sequence[object],
    *,
    processes: int,
    options: Sequence[str] = ("--standalone",),
    prefix: Sequence[str] = (),
    **variables: str,
) -> subprocess.Popen[str]:
    """Start processes that share a command.

    Args:
        command: Of ``crossgcn``, or a script with its arguments.
        processes: How many on this machine.
        options: Of ``torchrun``.
        prefix: Words before all of it.
        **variables: Of the environment.
    """
    what = list(map(str, command))
    program = what if what[0].endswith(".py") else ["-m", "crossgcn", *what]
    return subprocess.Popen(
        [
            *prefix,
            *(sys.executable, "-m", "torch.distributed.run", *options),
            *("--nproc-per-node", str(processes), *program),
        ],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CROSSGCN_PROCESS_TIMEOUT": "120",
            "COLUMNS": "200",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something a process does; it must do it before it ends."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def weights_of(folder: Path) -> dict[str, Tensor]:
    """Of a saved model."""
    return load_model(folder).state_dict()
