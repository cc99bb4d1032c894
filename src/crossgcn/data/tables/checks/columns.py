"""Whether a column of the node table says something, and only what it should."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import parse_number
from crossgcn.data.tables.checks.problems import (
    Finding,
    Place,
    Rule,
    count_of,
    find_alike,
    quote,
    share_of,
)
from crossgcn.data.tables.checks.rows import tell_missing
from crossgcn.data.tables.columns import DATE
from crossgcn.data.tables.plan import NO_HEADER, ColumnKind, ColumnPlan
from crossgcn.data.tables.table import Distinct, Table

MANY_NUMBERS = 12
"""So many different numbers, and a column is no list of codes."""

MOSTLY_NUMBERS = 0.8
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
    if otherwise.any() and num_plain + num_otherwise >= MOSTLY_NUMBERS * distinct.num_present:
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


FEWEST_OTHERS = 3
"""Fewer nodes with another value than the usual one teach nothing."""

ENOUGH_NODES = 50
MANY_CATEGORIES = 20
MOSTLY_DATES = 0.9

SPREADSHEET_ERROR = re.compile(
    r"#(REF!|DIV/0!|VALUE!|NAME\?|NUM!|NULL!|N/A|SPILL!|####*)", re.IGNORECASE
)
GARBLED = re.compile("\ufffd|Ã[\u0080-\u00bf\u2018-\u201d\u20ac]|â€|Â[\u00a0-\u00bf]")
ID_NAME = re.compile(r"(?:^|.*[_\W])(id|ids|uid|uuid|guid|no|nr|number|num|key|index|row)")


def check_column(nodes: Table, column: ColumnPlan, id_column: str) -> Iterator[Finding]:
    """What is wrong with one column that features are, or might have been, made of.

    Args:
        nodes: The node table.
        column: What the column is taken for; one that the user left out is not looked at.
        id_column: Where the ids are.
    """
    if column.kind == "ignored" and column.reason in ("as chosen", NO_HEADER):
        return
    place, distinct = Place(nodes, column.name), nodes.distinct(column.name)
    if distinct.num_present == 0:
        rule = Rule(
            "empty-column",
            "warning",
            f"no cell has a value: each is {tell_missing(distinct)}; it is left out",
            "fill it or delete it",
        )
        yield place.as_a_whole(rule)
        return
    if not distinct.missing.any() and len({value for value, _ in distinct.present}) == 1:
        rule = Rule(
            "constant-column",
            "warning",
            "every cell is {value}, which tells no node from another",
            "delete the column, or check where it comes from",
        )
        yield place.as_a_whole(rule, value=distinct.values[0])
        return
    yield from _check_spread(place, distinct)
    if column.kind == "numeric":
        yield from check_numeric_column(place)
    elif not _holds_dates(distinct):
        yield from check_text_for_numbers(place, column.kind)
    elif column.kind in ("ignored", "categorical"):
        yield _dates(place, distinct, column)
    if column.kind != "ignored":
        yield from _check_identity(place, distinct, column, nodes.distinct(id_column))
    if column.kind == "categorical":
        yield from _check_categories(place, distinct)
    yield from _check_text(place, distinct)


def _check_spread(place: Place, distinct: Distinct) -> Iterator[Finding]:
    num_nodes = len(distinct.codes)
    num_missing = num_nodes - distinct.num_present
    if 2 * num_missing > num_nodes:
        rule = Rule(
            "mostly-missing",
            "warning",
            f"{share_of(num_missing, num_nodes)} of the cells are {tell_missing(distinct)}",
            "fill them, or leave the column out by --ignore {column}",
        )
        yield place.as_a_whole(rule)
    most = int(np.argmax(distinct.counts))
    num_others = num_nodes - int(distinct.counts[most])
    if num_nodes >= ENOUGH_NODES and num_others < FEWEST_OTHERS and not distinct.missing[most]:
        rule = Rule(
            "nearly-constant-column",
            "warning",
            f"every cell but {num_others} is {quote(distinct.values[most])}; {{value}} is not, and "
            "too rare to learn from",
            "leave the column out by --ignore {column}, or check where it comes from",
        )
        yield place.at_row(int(np.argmax(distinct.codes != most)), rule, count=num_others)


def _holds_dates(distinct: Distinct) -> bool:
    is_date = [bool(DATE.fullmatch(value.strip())) for value in distinct.values]
    return int(distinct.counts[is_date].sum()) >= MOSTLY_DATES * distinct.num_present


def _dates(place: Place, distinct: Distinct, column: ColumnPlan) -> Finding:
    taken = "left out" if column.kind == "ignored" else "taken as categories"
    rule = Rule(
        "dates",
        "warning",
        f"{{value}} and {count_of(len(distinct.values) - 1, 'other value')} are dates, "
        f"which are {taken}",
        "write a number instead, such as the days since a certain one",
    )
    return place.at_row(int(np.argmax(~distinct.missing[distinct.codes])), rule)


def _check_identity(
    place: Place, distinct: Distinct, column: ColumnPlan, ids: Distinct
) -> Iterator[Finding]:
    """A column that names the node instead of describing it."""
    num_rows = len(distinct.codes)
    if len(distinct.values) < num_rows or num_rows < MANY_CATEGORIES:
        return
    same = np.array_equal(
        [value.strip() for value in distinct.values], [value.strip() for value in ids.values]
    )
    if same or _numbers_the_rows(distinct, column):
        rule = Rule(
            "id-as-feature",
            "warning",
            "{value} is "
            + ("the node's id" if same else "another for every node, like an id")
            + ": a model would learn nodes by heart",
            "leave the column out by --ignore {column}",
        )
        yield place.at_row(0, rule)


def _numbers_the_rows(distinct: Distinct, column: ColumnPlan) -> bool:
    """Text that is never the same; whole numbers that run on, or are called a number."""
    if column.kind in ("categorical", "list"):
        return True
    numbers = distinct.numbers
    if not (np.isfinite(numbers).all() and (np.floor(numbers) == numbers).all()):
        return False
    later, earlier = numbers[1:], numbers[:-1]
    runs_on = bool((later > earlier).all() or (later < earlier).all())
    is_dense = float(numbers.max()) - float(numbers.min()) < 1.1 * len(numbers)
    return runs_on or is_dense or bool(ID_NAME.fullmatch(column.name.lower()))


def _check_categories(place: Place, distinct: Distinct) -> Iterator[Finding]:
    kept = ~distinct.missing
    once = kept & (distinct.counts == 1)
    num_values, num_once = int(kept.sum()), int(once.sum())
    all_different = num_values == len(distinct.codes)
    if num_values >= MANY_CATEGORIES and 2 * num_once > num_values and not all_different:
        rule = Rule(
            "rare-categories",
            "warning",
            f"{{value}} is one of {num_once:,} categories, of {num_values:,}, that are there once",
            "group them, or leave the column out by --ignore {column}",
        )
        yield from place.at_values(once, rule)
    names = [value.strip() for value in distinct.values]
    alike = {
        second: first
        for second, first in find_alike(names).items()
        if kept[second] and names[second] != names[first]
    }
    if alike:
        second, first = next(iter(alike.items()))
        rule = Rule(
            "similar-categories",
            "warning",
            f"{{value}} differs from {quote(names[first])} only in case or spaces",
            "write both the same way if the same is meant",
        )
        yield place.at_row(int(np.argmax(distinct.codes == second)), rule, count=len(alike))


def _check_text(place: Place, distinct: Distinct) -> Iterator[Finding]:
    """What a spreadsheet or a wrong encoding leaves behind."""
    if np.isnan(distinct.numbers).any():
        broken = [bool(SPREADSHEET_ERROR.fullmatch(value.strip())) for value in distinct.values]
        yield from place.at_values(
            np.array(broken),
            Rule(
                "spreadsheet-error",
                "warning",
                "{value} is what a spreadsheet writes where a formula fails",
                "mend the formula, or leave the cell empty",
            ),
        )
        garbled = [not value.isascii() and bool(GARBLED.search(value)) for value in distinct.values]
        yield from place.at_values(
            np.array(garbled),
            Rule(
                "garbled-text",
                "warning",
                "{value} was read in the wrong encoding before it was saved",
                "export it again as UTF-8",
            ),
        )
