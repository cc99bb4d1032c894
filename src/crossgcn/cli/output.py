"""Print on the terminal. Nothing that comes from data may control it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from crossgcn.errors import Note, printable


class SafeConsole(Console):
    """A console that shows control characters in texts and tables instead of printing them."""

    def render(  # noqa: D102
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            safe = segment.text if segment.control else printable(segment.text)
            yield Segment(safe, segment.style, segment.control)


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


def show_notes() -> None:
    """Print each :class:`~crossgcn.errors.Note` as one line, without its place in the code."""
    warnings.formatwarning = _describe_warning


_usual_description = warnings.formatwarning


def _describe_warning(message: Any, category: Any, *place: Any, **more: Any) -> str:
    if issubclass(category, Note):
        return f"crossgcn: {printable(str(message))}\n"
    return _usual_description(message, category, *place, **more)
