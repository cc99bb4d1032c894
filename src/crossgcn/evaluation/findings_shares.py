"""Work divided among machines that share no folder."""

from __future__ import annotations

from argparse import ArgumentTypeError

__all__ = ["parse_share"]


def parse_share(text: str) -> tuple[int, int]:
    """Which part of how many, for the command line: ``0/4`` to ``3/4`` are all of it.

    Args:
        text: As given.

    Raises:
        ArgumentTypeError: If there is no such part.
    """
    index, _, of = text.partition("/")
    if not (index.isdecimal() and of.isdecimal() and int(index) < int(of)):
        raise ArgumentTypeError(f"{text!r} is no share: give 0/4, 1/4, 2/4 or 3/4")
    return int(index), int(of)
