"""Whether numbers are numbers, and whether text should have been."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.check_places import Place, Rule, share_of
from crossgcn.data.tables.distinct import Distinct, parse_number
from crossgcn.data.tables.findings import Finding, quote
from crossgcn.data.tables.plan import ColumnKind

__all__ = ["check_numeric_column", "check_text_for_numbers"]

MANY_NUMBERS = 12
"""So many different numbers, and a column is no list of codes."""

MOSTLY = 0.8
MIXED = 0.5
FEWEST_STAND_INS = 3
FAR_OFF = 3.0

_DIGITS = r"[0-9]+(?:[.,'’\u00a0\u202f ][0-9]{3})*(?:[.,][0-9]+)?"
GROUPED = re.compile(rf"[+-]?{_DIGITS}")
WITH_UNIT = re.compile(
    rf"(?P<before>[$€£¥]?)\s?[+-]?{_DIGITS}\s?(?P<after>[a-zA-Z%°$€£¥µ/²³]{{0,8}})"
)
STAND_IN = re.compile(r"-?(9{2,6}|99\.0+|999\.0+)|-1|-1\.0+")


def check_numeric_column(place: Place) -> Iterator[Finding]:
    """Cells of a numeric column that are no finite number, or stand for a missing one.

    Args:
        place: A column that is taken as numbers.
    """
    distinct = place.table.distinct(place.column)
    numbers = distinct.numbers
    wrong = np.isnan(numbers) & ~distinct.missing
    if wrong.any():
        value = distinct.values[int(np.argmax(wrong))]
        rule = Rule("not-a-number", "error", "{value} is no number", _how_to_write(value))
        yield from place.at_values(wrong, rule)
    yield from place.at_values(
        np.isinf(numbers),
        Rule(
            "infinite-number",
            "error",
            "{value} is no finite number",
            "write a finite number, or leave the cell empty",
        ),
    )
    yield from _check_stand_ins(place, distinct)


def check_text_for_numbers(place: Place, kind: ColumnKind) -> Iterator[Finding]:
    """A column taken for text that seems to hold numbers: written otherwise, or mixed.

    Args:
        place: A column that is not taken as numbers.
        kind: What it is taken for instead.
    """
    distinct = place.table.distinct(place.column)
    if len(distinct.values) <= MANY_NUMBERS or distinct.num_present == 0:
        return
    is_number = ~np.isnan(distinct.numbers)
    num_plain = int(distinct.counts[is_number].sum())
    otherwise = _find_written_otherwise(distinct)
    num_otherwise = int(distinct.counts[otherwise].sum())
    if otherwise.any() and num_plain + num_otherwise >= MOSTLY * distinct.num_present:
        value = distinct.values[int(np.argmax(otherwise))]
        rule = Rule(
            "number-as-text",
            "warning",
            "{value} looks like a number, but is taken as text",
            _how_to_write(value).removesuffix(", or leave the cell empty"),
        )
        yield from place.at_values(otherwise, rule)
    elif (
        kind != "list"
        and MIXED * distinct.num_present <= num_plain < distinct.num_present
        and len(np.unique(distinct.numbers[is_number])) > MANY_NUMBERS
    ):
        rule = Rule(
            "mixed-types",
            "warning",
            "{value} is text in a column of which "
            f"{share_of(num_plain, distinct.num_present)} is numbers, so all of it is taken as "
            "text",
            "empty such cells and take the rest as numbers by --numeric {column}, or split it",
        )
        yield from place.at_values(~is_number & ~distinct.missing, rule)


def _find_written_otherwise(distinct: Distinct) -> NDArray[np.bool_]:
    """Which values are numbers with marks between their digits, or with the column's unit."""
    odd = np.isnan(distinct.numbers) & ~distinct.missing
    texts = [
        value.strip() if is_odd else "" for value, is_odd in zip(distinct.values, odd, strict=True)
    ]
    matches = [WITH_UNIT.fullmatch(text) for text in texts]
    units = [match["before"] + match["after"].lower() if match else "" for match in matches]
    (common, _), *_ = [*Counter(filter(None, units)).most_common(1), ("", 0)]
    found = [
        bool(GROUPED.fullmatch(text)) or (unit != "" and unit == common)
        for text, unit in zip(texts, units, strict=True)
    ]
    return np.array(found, dtype=bool)


def _how_to_write(value: str) -> str:
    """What to write instead of a cell that is no number."""
    text = value.strip()
    stripped = re.sub(r"^[$€£¥]\s?|\s?[a-zA-Z%°$€£¥µ/²³]{1,8}$", "", text)
    if stripped != text and (parse_number(stripped) is not None or GROUPED.fullmatch(stripped)):
        plain = _ungroup(stripped)
        return f"write it without the unit: {plain}, or leave the cell empty"
    if GROUPED.fullmatch(text):
        plain = _ungroup(text)
        return (
            f"write a point for decimals and nothing between thousands: {plain}, or leave the "
            "cell empty"
        )
    return "write a number or leave the cell empty"


def _ungroup(text: str) -> str:
    """The number that was meant: the last mark parts the decimals if it is there only once."""
    if parse_number(text) is not None:
        return text
    marks = re.findall(r"[.,'’\u00a0\u202f ]", text)
    last = marks[-1]
    whole, _, rest = text.rpartition(last)
    has_decimals = last in ".," and marks.count(last) == 1 and not (last == "," and len(rest) == 3)
    digits = re.sub(r"[^0-9+-]", "", whole if has_decimals else text)
    return f"{digits}.{rest}" if has_decimals else digits


def _check_stand_ins(place: Place, distinct: Distinct) -> Iterator[Finding]:
    """``-999`` and its like: far from every other number, and there more than by chance."""
    finite = np.isfinite(distinct.numbers)
    for position in np.flatnonzero(finite & (distinct.counts >= FEWEST_STAND_INS)):
        if not STAND_IN.fullmatch(distinct.values[position].strip()):
            continue
        number = distinct.numbers[position]
        others = distinct.numbers[finite & (distinct.numbers != number)]
        if len(others) < MANY_NUMBERS:
            continue
        low, high = float(others.min()), float(others.max())
        distance = low - number if number < low else number - high
        if distance > FAR_OFF * (high - low) or (number == -1 and low >= 0 and np.all(others != 1)):
            mask = distinct.numbers == number
            rule = Rule(
                "stand-in-number",
                "warning",
                f"{{value}} is far from all other numbers ({low:g} to {high:g}), as if it stood "
                "for a missing one",
                f"leave the cell empty where {quote(distinct.values[position])} means unknown",
            )
            yield from place.at_values(mask, rule)
