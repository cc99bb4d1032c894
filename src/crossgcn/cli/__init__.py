"""The command line: one file per command, which parses options, calls the package and prints."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from crossgcn.errors import CrossGCNError, WorkFailed

__all__ = ["main"]


def main() -> int:
    """Run ``crossgcn`` and return its exit code: 0 done, 1 failed, 2 bad input or usage."""
    if threading.current_thread() is not threading.main_thread():
        return _run()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = _run()
        _exit_if_distributed(code)
        return code
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _exit_if_distributed(code: int) -> None:
    """Exit at once after a failure in one of several processes.

    A regular exit would wait for processes that no longer exist.
    """
    distributed = sys.modules.get("torch.distributed")
    if code != 0 and distributed is not None and distributed.is_initialized():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _run() -> int:
    for stream in (sys.stdout, sys.stderr):
        # Do not lose a result to a terminal or pipe that cannot encode ± or α.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _stopped_by_signals() as stopped:
            from crossgcn.cli.output import print_json, show_notes
            from crossgcn.cli.torchrun import refuse_other_commands

            show_notes()

            refuse_other_commands(sys.argv)
            from crossgcn.cli.app import app, refuse_left

            refuse_left(sys.argv[1:])
            app(prog_name="crossgcn")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        # A command that raised typer.Exit has printed its answer already.
        answered = isinstance(end.__context__, typer.Exit)
        if code == 2 and "--json" in sys.argv and not answered:
            print_json({"error": "bad usage, described on stderr", "exit_code": code})
        return code
    except CrossGCNError as error:
        return _fail(error, error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(WorkFailed(f"{where}{error.strerror or error}"), 1)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if stopped:
            return 130  # an interrupted import raises any error
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            remedy = "give fewer --workers or a smaller --batch-size; finished runs are kept"
            return _fail(WorkFailed(f"there is not enough memory; {remedy}"), 1)
        raise
    return 0


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Treat SIGTERM, which batch systems send, like Ctrl-C, so that finished work is kept.

    Yields:
        The signals that came.
    """
    came: list[int] = []

    def stop(which: int, _: object) -> None:
        came.append(which)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    try:
        yield came
    finally:
        # Print the reason even if torchrun sends SIGTERM again.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _fail(error: CrossGCNError, exit_code: int) -> int:
    from crossgcn.cli.output import print_json, print_line
    from crossgcn.cli.torchrun import message_of
    from crossgcn.training.launch import find_launch

    try:
        launch = find_launch()
    except CrossGCNError:  # the error that is being reported
        launch = None
    message = message_of(error, launch)
    if message is None:
        return exit_code
    with suppress(OSError):  # nobody reads it
        # Print one JSON object: from the first process only, and not if it will be restarted.
        if "--json" in sys.argv and (launch is None or launch.rank == launch.restarts_left == 0):
            print_json({"error": message, "exit_code": exit_code})
        print_line(f"crossgcn: {message}", error=True)
    return exit_code
