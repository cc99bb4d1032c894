"""The two ways a command can fail, and the near miss that helps with the first.

Bad input is the caller's to mend: its message names what was given, where,
and what to do, and the command line turns it into exit code 2. Failed work is
ours or the machine's: exit code 1. Neither shows a traceback.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable


class CrossGCNError(Exception):
    """Anything this package raises on purpose."""

    exit_code = 1


class BadInput(CrossGCNError, ValueError):
    """What the caller gave cannot be used; the message says what to give instead."""

    exit_code = 2


class WorkFailed(CrossGCNError, RuntimeError):
    """The input was fine, the work was not finished."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """An error for a name that is not in a list, with the nearest that are.

    Args:
        kind: What the name stands for, as the user would say it ("dataset").
        name: What was given.
        known: The names that would have worked.
    """
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return BadInput(f"unknown {kind} {name!r}: {hint}known are {', '.join(known)}")


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
