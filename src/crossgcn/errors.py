"""The two ways a command can fail, and the near miss that helps with the first.

Bad input is the caller's to mend: its message names what was given, where,
and what to do, and the command line turns it into exit code 2. Failed work is
ours or the machine's: exit code 1. Neither shows a traceback.
"""

from __future__ import annotations

import difflib
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
