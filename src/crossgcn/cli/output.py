"""Print on the terminal. Nothing that comes from data may control it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from crossgcn.errors import Note, printable


@dataclass
class _Verbosity:
    quiet: bool = False


VERBOSITY = _Verbosity()
"""What the options of the command that runs ask for."""


class SafeConsole(Console):
    """A console that shows control characters in texts and tables instead of printing them."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: D102
        return super().render_str(printable(text), **options)

    def render(  # noqa: D102
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            safe = segment.text if segment.control else printable(segment.text)
            yield Segment(safe, segment.style, segment.control)


class UntilClosed:
    """A stream that goes on without a reader, so that ``| head`` does not stop the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; nothing happens if the reader has gone."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self.discard()
            return len(text)

    def flush(self) -> None:
        """Write what is waiting; nothing happens if the reader has gone."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self.discard()

    def discard(self) -> None:
        """Drop what is waiting and all that follows."""
        with suppress(OSError):  # a stream without a file
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_line(words: str, *, error: bool = False) -> None:
    """Print a line to stdout, or to stderr."""
    print(printable(words), file=sys.stderr if error else sys.stdout)


def print_json(content: dict[str, Any]) -> None:
    """Print an object as one line of JSON."""
    print_line(json.dumps(content, ensure_ascii=False))


def print_answer(summary: dict[str, Any], parts: Iterable[RenderableType], as_json: bool) -> None:
    """Print a result: as one JSON object, or its parts for people.

    Args:
        parts: Strings are printed as they are, ``Text`` is wrapped between words.
    """
    if as_json:
        print_json(summary)
        return
    console = SafeConsole()
    if not console.is_terminal:
        console = SafeConsole(width=200)  # lines are not wrapped in files and pipes
    for part in parts:
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str))


def duration(seconds: float) -> str:
    """Return ``45 s``, ``3 min`` or ``1 h 30 min``."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def show_notes() -> None:
    """Print each :class:`~crossgcn.errors.Note` as one line, without its place in the code."""
    warnings.formatwarning = _describe_warning


_usual_description = warnings.formatwarning


def _describe_warning(message: Any, category: Any, *place: Any, **more: Any) -> str:
    if issubclass(category, Note):
        return f"crossgcn: {printable(str(message))}\n"
    return _usual_description(message, category, *place, **more)
