"""The errors that this package raises on purpose.

:class:`BadInput` can be corrected by the user: its message says what was given, where, and what
to do; the exit code is 2. :class:`WorkFailed` has the exit code 1. The command line prints the
message without a traceback.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Iterable, Sequence


class CrossGCNError(Exception):
    """Base class of the errors of this package."""

    exit_code = 1


class BadInput(CrossGCNError, ValueError):
    """The input cannot be used; the message says what to give instead."""

    exit_code = 2


class WorkFailed(CrossGCNError, RuntimeError):
    """The input is valid, but the work could not be finished."""


class Note(UserWarning):
    """A message to the user that does not stop the work."""


# Control characters except tab and newline, marks that change the direction of text, and lone
# surrogates, which stand for undecodable bytes of file names.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Escape characters that could control a terminal, such as ``\u001b``.

    Valid JSON stays valid JSON.
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """Return an error for an unknown name: the nearest known ones, or else a list of them.

    Args:
        kind: What is named, such as "dataset".
        name: The name given.
        known: All valid names.
    """
    known = list(known)
    return BadInput(f"unknown {kind} {name!r}: {nearest(name, known) or 'known are ' + few(known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'age'?``; empty if no known name is like the given one."""
    spelled = {each.lower(): each for each in known}
    near = [spelled[each] for each in difflib.get_close_matches(name.lower(), spelled, n=2)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def few(names: Sequence[str], most: int = 10) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def check_count(name: str, count: object, note: str = "") -> int:
    """Return a whole number of at least 1 as an ``int``, or raise :class:`BadInput`."""
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        note = f" ({note})" if note else ""
        raise BadInput(f"{name} must be a whole number of at least 1{note}; got {count!r}")
    return number
