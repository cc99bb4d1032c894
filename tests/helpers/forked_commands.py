"""Commands in children of this process: they have imported everything, and can be killed."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from crossgcn.cli import main as run_crossgcn

FAILED, PATIENCE = 97, 120.0
Setup = Callable[[], None]

SAID, SAYING = os.pipe()
"""What children print; not a file, which limits of files would hold too."""
os.set_blocking(SAID, False)
fcntl.fcntl(SAYING, fcntl.F_SETPIPE_SZ, 1 << 20)


def read_said() -> str:
    """Return what children printed since the last call."""
    with suppress(BlockingIOError):
        return os.read(SAID, 1 << 20).decode(errors="replace")
    return ""


def start(arguments: Sequence[object], folder: Path, setup: Setup | None = None) -> int:
    """Run a command in a child that is set up before."""
    child = os.fork()
    if child:
        return child
    code = FAILED
    warnings.resetwarnings()
    try:
        os.chdir(folder)
        for stream in (1, 2):
            os.dup2(SAYING, stream)
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", 1, "utf-8") for stream in (1, 2))
        sys.argv = ["crossgcn", *map(str, arguments)]
        if setup is not None:
            setup()
        code = run_crossgcn()
        sys.stdout.flush()
    except BaseException as error:
        if code == FAILED:
            os.write(SAYING, traceback.format_exc().encode())
        elif isinstance(error, OSError):  # a closed stream at the end: what Python itself returns
            code = 120 if code == 0 else code
    finally:
        os._exit(code)


def wait(child: int) -> int | None:
    """Return the exit code of a process, or minus its signal; ``None`` if it had to be ended."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def cpu_seconds(child: int) -> float:
    """Return the processor time of a process so far."""
    return int(Path(f"/proc/{child}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def started(*arguments: object) -> Iterator[int]:
    """A command in a process group of its own, which is gone afterwards."""
    child = start(arguments, Path.cwd(), os.setsid)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        read_said()


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)  # a look at all processes costs milliseconds
