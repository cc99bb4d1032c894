"""The command line: one file per command, which parses options, calls the package and prints."""

from __future__ import annotations

import sys
from typing import Any

import typer

from crossgcn.errors import CrossGCNError, nearest

__all__ = ["main"]

_USAGE_ERRORS: Any = typer.BadParameter.__bases__
"""Click's base class of usage errors; Typer exports only a subclass."""


def main() -> int:
    """Run ``crossgcn`` and return its exit code: 0 done, 1 failed, 2 bad input or usage.

    Ctrl-C returns 130. Errors that are bugs of this package are raised.
    """
    from crossgcn.cli.running import print_json, print_line, show_notes

    show_notes()
    try:
        from crossgcn.cli.app import app

        code: int | None = app(prog_name="crossgcn", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        message, code = _describe(error)
        if message is None:
            raise
        print_line(f"crossgcn: {message}", error=True)
        if "--json" in sys.argv:
            print_json({"error": message, "exit_code": code})
    return code or 0


def _describe(error: Any) -> tuple[str | None, int]:
    """Return the message for the user and the exit code; no message for a bug."""
    if isinstance(error, CrossGCNError):
        return str(error), error.exit_code
    if isinstance(error, _USAGE_ERRORS):
        hint = "" if error.ctx is None else f" (see {error.ctx.command_path} --help)"
        if getattr(error, "possibilities", None) and (name := getattr(error, "option_name", "")):
            like = nearest(name, error.possibilities)
            return f"there is no option {name}{f': {like}' if like else ''}{hint}", 2
        return error.format_message() + hint, 2
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", 1
    words = str(error).lower()
    if isinstance(error, MemoryError) or any(
        each in words for each in ("allocate memory", "failed to map segment", "out of memory")
    ):
        return "there is not enough memory; give fewer --workers, or free some", 1
    return None, 1
