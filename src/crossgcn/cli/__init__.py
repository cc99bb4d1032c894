"""The command line: one file per command, which parses options, calls the package and prints."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from crossgcn.errors import CrossGCNError

__all__ = ["main"]


def main() -> int:
    """Run ``crossgcn`` and return its exit code: 0 done, 1 failed, 2 bad input or usage."""
    from crossgcn.cli.output import UntilClosed, show_notes

    show_notes()
    before = sys.stdout, sys.stderr
    for stream in before:
        # Do not lose a result to a terminal or pipe that cannot encode ± or α.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    written = UntilClosed(sys.stdout)
    sys.stdout, sys.stderr = written, UntilClosed(sys.stderr)
    try:
        with _stopped_by_signals() as stopped:
            return _run(stopped)
    finally:
        try:
            written.flush()
        except OSError:  # told by now; the interpreter would try again
            written.discard()
        sys.stdout, sys.stderr = before


def _run(stopped: list[int]) -> int:
    from crossgcn.cli.output import print_json

    try:
        from crossgcn.cli.app import app, refuse_left

        refuse_left(sys.argv[1:])
        app(prog_name="crossgcn")
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        # A command that raised typer.Exit has printed its answer already.
        answered = isinstance(end.__context__, typer.Exit)
        if code == 2 and "--json" in sys.argv and not answered:
            print_json({"error": "bad usage, described on stderr", "exit_code": code})
        return _flushed(code)
    except CrossGCNError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        return _fail(_of_system(error), 1)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if stopped:
            return 130  # an interrupted import raises any error
        if _is_memory(error):
            return _fail("there is not enough memory; give fewer --workers, or free some", 1)
        raise
    return 0


def _flushed(code: int) -> int:
    """Return the exit code of a command once its answer is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _fail(_of_system(error), 1)
    return code


def _of_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _is_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(
        each in words for each in ("allocate memory", "failed to map segment", "out of memory")
    )


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
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, stop)
    if before[signal.SIGINT] is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _fail(message: str, exit_code: int) -> int:
    from crossgcn.cli.output import print_json, print_line

    with suppress(OSError):
        print_line(f"crossgcn: {message}", error=True)
    with suppress(OSError):  # stdout may be what is full
        if "--json" in sys.argv:
            print_json({"error": message, "exit_code": exit_code})
            sys.stdout.flush()
    return exit_code
