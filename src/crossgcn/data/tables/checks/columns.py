"""Rules about single columns of the node table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.checks.problems import (
    Hit,
    Place,
    Problem,
    Rules,
    count_of,
    find_similar,
    quote,
    share_of,
)
from crossgcn.data.tables.checks.target import MISSING_CATEGORY_RULES
from crossgcn.data.tables.columns import DATE, MAX_CODES, MIN_SHARE_OF_KIND
from crossgcn.data.tables.plan import NO_HEADER, ColumnKind, TablePlan
from crossgcn.data.tables.table import Distinct, Table, parse_number

MIN_SHARE_NUMBERS_AS_TEXT = 0.8
"""Share of numbers, however written, in a column that should be numeric."""

MIN_SHARE_MIXED = 0.5
"""Share of plain numbers in a column of numbers and words."""

MIN_STAND_INS = 3
STAND_IN_DISTANCE = 3.0
"""Distance of a stand-in from other numbers, as a multiple of their range."""

MIN_OTHER_VALUES = 3
"""Fewer nodes with an unusual value are too few to learn from."""

ENOUGH_NODES = 50
MANY_CATEGORIES = 20

_DIGITS = r"[0-9]+(?:[.,'’\u00a0\u202f ][0-9]{3})*(?:[.,][0-9]+)?"
GROUPED = re.compile(rf"[+-]?{_DIGITS}")
WITH_UNIT = re.compile(
    rf"(?P<before>[$€£¥]?)\s?[+-]?{_DIGITS}\s?(?P<after>[a-zA-Z%°$€£¥µ/²³]{{0,8}})"
)
STAND_IN = re.compile(r"-?(9{2,6}|99\.0+|999\.0+)|-1|-1\.0+")
SPREADSHEET_ERROR = re.compile(
    r"#(REF!|DIV/0!|VALUE!|NAME\?|NUM!|NULL!|N/A|SPILL!|####*)", re.IGNORECASE
)
GARBLED = re.compile("\ufffd|Ã[\u0080-\u00bf\u2018-\u201d\u20ac]|â€|Â[\u00a0-\u00bf]")
ID_NAME = re.compile(r"(?:^|.*[_\W])(id|ids|uid|uuid|guid|no|nr|number|num|key|index|row)")


@dataclass(frozen=True)
class _Column(Place):
    """A column that is, or might have been, made into features."""

    kind: ColumnKind
    ids: Distinct

    @property
    def missing_texts(self) -> str:
        """How missing values are written: ``empty``, ``'NA'``, ``empty or 'NA'``."""
        pairs = zip(self.distinct.values, self.distinct.missing, strict=True)
        words = {value.strip() for value, is_missing in pairs if is_missing}
        return " or ".join(quote(word) if word else "empty" for word in sorted(words))

    @cached_property
    def holds_dates(self) -> bool:
        """Whether nearly all values are dates."""
        is_date = [bool(DATE.fullmatch(value.strip())) for value in self.distinct.values]
        num_dates = int(self.distinct.counts[is_date].sum())
        return num_dates >= MIN_SHARE_OF_KIND * self.distinct.num_present

    @cached_property
    def is_plain_number(self) -> NDArray[np.bool_]:
        """Whether each different value is a number that is read as such."""
        return ~np.isnan(self.distinct.numbers)

    @property
    def has_text(self) -> bool:
        """Whether some value is not a number."""
        return not self.is_plain_number.all()

    @cached_property
    def numbers_as_text(self) -> NDArray[np.bool_]:
        """Numbers written with thousands separators or units, if the column seems numeric."""
        distinct = self.distinct
        none = np.zeros(len(distinct.values), bool)
        if self.kind == "numeric" or self.holds_dates or len(distinct.values) <= MAX_CODES:
            return none
        found = _find_numbers_as_text(distinct)
        num_numbers = int(distinct.counts[found | self.is_plain_number].sum())
        seems_numeric = num_numbers >= MIN_SHARE_NUMBERS_AS_TEXT * distinct.num_present
        return found if seems_numeric else none


def check_columns(nodes: Table, plan: TablePlan) -> Iterator[Problem]:
    """Yield problems of each column that is, or might have been, made into features."""
    ids = nodes.distinct(plan.id_column)
    columns = [
        _Column(nodes, column.name, column.kind, ids)
        for column in plan.columns
        if column.kind not in ("id", "target", "split")
        and not (column.kind == "ignored" and column.reason in ("as chosen", NO_HEADER))
    ]
    yield from COLUMN_RULES.apply_to_columns(columns)
    if plan.missing is None:
        categories = [column for column in columns if column.kind == "categorical"]
        yield from MISSING_CATEGORY_RULES.apply_to_columns(categories)


COLUMN_RULES = Rules[_Column]()


@COLUMN_RULES.rule(
    "warning",
    "no cell has a value: each is {missing}; the column is left out",
    "fill it or delete it",
    stops=True,
)
def _empty_column(column: _Column) -> Iterator[Hit]:
    if column.distinct.num_present == 0:
        yield column.whole(missing=column.missing_texts)


@COLUMN_RULES.rule(
    "warning",
    "every cell is {value}, which does not distinguish nodes",
    "delete the column, or check where it comes from",
    stops=True,
)
def _constant_column(column: _Column) -> Iterator[Hit]:
    distinct = column.distinct
    if not distinct.missing.any() and len({value for value, _ in distinct.present}) == 1:
        yield column.whole(value=distinct.values[0])


@COLUMN_RULES.rule(
    "warning",
    "{share} of the cells are {missing}",
    "fill them, or leave the column out with --ignore {column}",
)
def _mostly_missing(column: _Column) -> Iterator[Hit]:
    num_nodes = len(column.table)
    num_missing = num_nodes - column.distinct.num_present
    if 2 * num_missing > num_nodes:
        share = share_of(num_missing, num_nodes)
        yield column.whole(share=share, missing=column.missing_texts)


@COLUMN_RULES.rule(
    "warning",
    "every cell except {others} is {usual}; {value} is too rare to learn from",
    "leave the column out with --ignore {column}, or check where it comes from",
)
def _nearly_constant_column(column: _Column) -> Iterator[Hit]:
    distinct, num_nodes = column.distinct, len(column.table)
    usual = int(np.argmax(distinct.counts))
    num_others = num_nodes - int(distinct.counts[usual])
    if num_nodes < ENOUGH_NODES or num_others >= MIN_OTHER_VALUES or distinct.missing[usual]:
        return
    yield from column.at_rows(
        distinct.codes != usual, others=num_others, usual=quote(distinct.values[usual])
    )


@COLUMN_RULES.rule("error", "{value} is not a number", "{how}, or leave the cell empty")
def _not_a_number(column: _Column) -> Iterator[Hit]:
    wrong = ~column.is_plain_number & ~column.distinct.missing
    if column.kind == "numeric" and wrong.any():
        first = column.distinct.values[int(np.argmax(wrong))]
        yield from column.at_values(wrong, how=_how_to_write(first))


@COLUMN_RULES.rule(
    "error", "{value} is not a finite number", "write a finite number, or leave the cell empty"
)
def _infinite_number(column: _Column) -> Iterator[Hit]:
    if column.kind == "numeric":
        yield from column.at_values(np.isinf(column.distinct.numbers))


@COLUMN_RULES.rule(
    "warning",
    "{value} is far from all other numbers ({low:g} to {high:g}) and may stand for a missing one",
    "leave the cell empty where {written} means unknown",
)
def _stand_in_number(column: _Column) -> Iterator[Hit]:
    if column.kind != "numeric":
        return
    distinct = column.distinct
    finite = np.isfinite(distinct.numbers)
    for position in np.flatnonzero(finite & (distinct.counts >= MIN_STAND_INS)):
        if not STAND_IN.fullmatch(distinct.values[position].strip()):
            continue
        number = distinct.numbers[position]
        others = distinct.numbers[finite & (distinct.numbers != number)]
        if len(others) < MAX_CODES:
            continue
        low, high = float(others.min()), float(others.max())
        distance = low - number if number < low else number - high
        is_far = distance > STAND_IN_DISTANCE * (high - low)
        if is_far or (number == -1 and low >= 0 and np.all(others != 1)):
            written = quote(distinct.values[position])
            is_same = distinct.numbers == number
            yield from column.at_values(is_same, low=low, high=high, written=written)


@COLUMN_RULES.rule("warning", "{value} looks like a number, but is taken as text", "{how}")
def _number_as_text(column: _Column) -> Iterator[Hit]:
    found = column.numbers_as_text
    if found.any():
        first = column.distinct.values[int(np.argmax(found))]
        yield from column.at_values(found, how=_how_to_write(first))


@COLUMN_RULES.rule(
    "warning",
    "{value} is text in a column of which {share} is numbers, so all of it is taken as text",
    "empty such cells and take the rest as numbers with --numeric {column}, or split the column",
)
def _mixed_types(column: _Column) -> Iterator[Hit]:
    distinct, is_number = column.distinct, column.is_plain_number
    if column.kind in ("numeric", "list") or column.holds_dates or column.numbers_as_text.any():
        return
    num_numbers = int(distinct.counts[is_number].sum())
    is_mixed = MIN_SHARE_MIXED * distinct.num_present <= num_numbers < distinct.num_present
    if is_mixed and len(np.unique(distinct.numbers[is_number])) > MAX_CODES:
        share = share_of(num_numbers, distinct.num_present)
        yield from column.at_values(~is_number & ~distinct.missing, share=share)


@COLUMN_RULES.rule(
    "warning",
    "{value} and {others} are dates, which are {taken}",
    "write a number instead, such as the days since a certain date",
)
def _dates(column: _Column) -> Iterator[Hit]:
    distinct = column.distinct
    if column.kind in ("ignored", "categorical") and column.holds_dates:
        yield column.at_row(
            int(np.argmax(~distinct.missing[distinct.codes])),
            others=count_of(len(distinct.values) - 1, "other value"),
            taken="left out" if column.kind == "ignored" else "taken as categories",
        )


@COLUMN_RULES.rule(
    "warning",
    "{value} is {what}: a model would learn nodes by heart",
    "leave the column out with --ignore {column}",
)
def _id_as_feature(column: _Column) -> Iterator[Hit]:
    values, num_rows = column.distinct.values, len(column.table)
    if column.kind == "ignored" or len(values) < num_rows or num_rows < MANY_CATEGORIES:
        return
    if list(map(str.strip, values)) == list(map(str.strip, column.ids.values)):
        yield column.at_row(0, what="the node's id")
    elif _numbers_the_rows(column):
        yield column.at_row(0, what="different for every node, like an id")


def _numbers_the_rows(column: _Column) -> bool:
    """Return whether all-different values are text, run on, or are called a number."""
    if column.kind in ("categorical", "list"):
        return True
    numbers = column.distinct.numbers
    if not (np.isfinite(numbers).all() and (np.floor(numbers) == numbers).all()):
        return False
    later, earlier = numbers[1:], numbers[:-1]
    runs_on = bool((later > earlier).all() or (later < earlier).all())
    is_dense = float(numbers.max()) - float(numbers.min()) < 1.1 * len(numbers)
    return runs_on or is_dense or bool(ID_NAME.fullmatch(column.column.lower()))


@COLUMN_RULES.rule(
    "warning",
    "{value} is one of {once:,} categories, of {all:,}, that occur only once",
    "group them, or leave the column out with --ignore {column}",
)
def _rare_categories(column: _Column) -> Iterator[Hit]:
    distinct = column.distinct
    once = ~distinct.missing & (distinct.counts == 1)
    num_values, num_once = int((~distinct.missing).sum()), int(once.sum())
    all_different = num_values == len(distinct.codes)
    if column.kind != "categorical" or all_different:
        return
    if num_values >= MANY_CATEGORIES and 2 * num_once > num_values:
        yield from column.at_values(once, once=num_once, all=num_values)


@COLUMN_RULES.rule(
    "warning",
    "{value} differs from {other} only in case or spaces",
    "write both the same way if the same is meant",
)
def _similar_categories(column: _Column) -> Iterator[Hit]:
    if column.kind != "categorical":
        return
    names = [value.strip() for value in column.distinct.values]
    similar = {
        second: first
        for second, first in find_similar(names).items()
        if not column.distinct.missing[second] and names[second] != names[first]
    }
    for second, first in [*similar.items()][:1]:
        row = column.distinct.first_row(second)
        yield column.at_row(row, count=len(similar), other=quote(names[first]))


@COLUMN_RULES.rule(
    "warning",
    "{value} is what a spreadsheet writes where a formula fails",
    "correct the formula, or leave the cell empty",
)
def _spreadsheet_error(column: _Column) -> Iterator[Hit]:
    if column.has_text:
        texts = map(str.strip, column.distinct.values)
        broken = [bool(SPREADSHEET_ERROR.fullmatch(text)) for text in texts]
        yield from column.at_values(np.array(broken))


@COLUMN_RULES.rule(
    "warning",
    "{value} was read in the wrong encoding before it was saved",
    "export it again as UTF-8",
)
def _garbled_text(column: _Column) -> Iterator[Hit]:
    if column.has_text:
        values = column.distinct.values
        garbled = [not value.isascii() and bool(GARBLED.search(value)) for value in values]
        yield from column.at_values(np.array(garbled))


def _find_numbers_as_text(distinct: Distinct) -> NDArray[np.bool_]:
    """Return which values are numbers with separators of thousands, or with the usual unit."""
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
    """Return what to write instead of a cell that is not a number."""
    text = value.strip()
    stripped = re.sub(r"^[$€£¥]\s?|\s?[a-zA-Z%°$€£¥µ/²³]{1,8}$", "", text)
    if stripped != text and (parse_number(stripped) is not None or GROUPED.fullmatch(stripped)):
        return f"write it without the unit: {_ungroup(stripped)}"
    if GROUPED.fullmatch(text):
        return f"write a point for decimals and nothing between thousands: {_ungroup(text)}"
    return "write a number"


def _ungroup(text: str) -> str:
    """Return the number that was meant: a mark that occurs once, and last, separates decimals."""
    if parse_number(text) is not None:
        return text
    marks = re.findall(r"[.,'’\u00a0\u202f ]", text)
    last = marks[-1]
    whole, _, rest = text.rpartition(last)
    has_decimals = last in ".," and marks.count(last) == 1 and not (last == "," and len(rest) == 3)
    digits = re.sub(r"[^0-9+-]", "", whole if has_decimals else text)
    return f"{digits}.{rest}" if has_decimals else digits
