"""Rules about single columns of the node table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np

from crossgcn.data.tables.cells import (
    DateOrder,
    are_ambiguous_dates,
    are_whole,
    find_date_order,
    find_numbers_as_text,
    how_to_write_number,
    parse_date,
    quote,
)
from crossgcn.data.tables.checks.leaks import count_errors_by_value, r2_of_column
from crossgcn.data.tables.checks.problems import (
    Hits,
    Place,
    Problem,
    Severity,
    check_alike,
    error,
    find_similar,
    share_of,
    warning,
)
from crossgcn.data.tables.columns import MAX_CODES, holds_dates
from crossgcn.data.tables.labels import Labels
from crossgcn.data.tables.plan import NO_HEADER, SHOWN, ColumnKind, TablePlan
from crossgcn.data.tables.table import Mask, Table

MIN_SHARE_NUMBERS_AS_TEXT = 0.8
"""Share of numbers, however written, in a column that should be numeric."""

MIN_SHARE_MIXED = 0.5
"""Share of plain numbers in a column of numbers and words."""

MIN_STAND_INS = 3
STAND_IN_DISTANCE = 3.0
"""Distance of a stand-in from other numbers, as a multiple of their range."""

MIN_OTHER_VALUES = 3
"""Fewer nodes with an unusual value are too few to learn from."""

_OTHER_ORDER: dict[DateOrder, DateOrder] = {
    "day first": "month first",
    "month first": "day first",
}

ENOUGH_NODES = 50
MANY_CATEGORIES = 20

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
    reason: str
    id_column: str
    warns_of_missing_words: bool
    labels: Labels | None

    @property
    def missing_texts(self) -> str:
        """How missing values are written: ``empty``, ``'NA'``, ``empty or 'NA'``."""
        words = set(compress(self.distinct.texts, self.distinct.missing))
        return " or ".join(quote(word) if word else "empty" for word in sorted(words))

    @cached_property
    def is_plain_number(self) -> Mask:
        """Whether each different value is a number that is read as such."""
        return ~np.isnan(self.distinct.numbers)

    @property
    def has_text(self) -> bool:
        """Whether some value is not a number."""
        return not self.is_plain_number.all()

    @cached_property
    def numbers_as_text(self) -> Mask:
        """Numbers written with thousands separators or units, if the column seems numeric."""
        distinct = self.distinct
        none = np.zeros(len(distinct.values), bool)
        if self.kind == "numeric" or holds_dates(distinct) or len(distinct.values) <= MAX_CODES:
            return none
        odd = ~self.is_plain_number & ~distinct.missing
        found = find_numbers_as_text(
            [text if is_odd else "" for text, is_odd in zip(distinct.texts, odd, strict=True)]
        )
        num_numbers = distinct.num_cells(found | self.is_plain_number)
        seems_numeric = num_numbers >= MIN_SHARE_NUMBERS_AS_TEXT * distinct.num_present
        return found if seems_numeric else none

    def numbers_the_rows(self) -> bool:
        """Return whether all-different values are text, run on, or are called a number."""
        if self.kind in ("list", "date"):
            return False
        if self.kind == "categorical":
            return True
        numbers = self.distinct.numbers
        if not are_whole(numbers):
            return False
        later, earlier = numbers[1:], numbers[:-1]
        runs_on = bool((later > earlier).all() or (later < earlier).all())
        is_dense = float(numbers.max()) - float(numbers.min()) < 1.1 * len(numbers)
        return runs_on or is_dense or bool(ID_NAME.fullmatch(self.column.lower()))

    @warning(
        "{value} is in {share} of the cells and counts as missing, not as a category",
        "if it is a category, leave {word} out of the words for a missing value: "
        "--missing {others}",
    )
    def missing_word(self) -> Hits:
        if self.kind == "categorical" and self.warns_of_missing_words:
            yield from self.at_missing_words()

    @warning(
        "no cell has a value: each is {missing}; the column is left out",
        "fill it or delete it",
        stops=True,
    )
    def empty_column(self) -> Hits:
        if self.distinct.num_present == 0:
            yield self.whole(missing=self.missing_texts)

    @warning(
        "every cell is {value}, which does not distinguish nodes",
        "delete the column, or check where it comes from",
        stops=True,
    )
    def constant_column(self) -> Hits:
        distinct = self.distinct
        if not distinct.missing.any() and len({value for value, _ in distinct.present}) == 1:
            yield self.whole(value=distinct.values[0])

    @warning(
        "{share} of the cells are {missing}",
        "fill them, or leave the column out with --ignore {column}",
    )
    def mostly_missing(self) -> Hits:
        num_nodes = len(self.table)
        num_missing = num_nodes - self.distinct.num_present
        if 2 * num_missing > num_nodes:
            share = share_of(num_missing, num_nodes)
            yield self.whole(share=share, missing=self.missing_texts)

    @warning(
        "every cell except {others} is {usual}; {value} is too rare to learn from",
        "leave the column out with --ignore {column}, or check where it comes from",
    )
    def nearly_constant_column(self) -> Hits:
        distinct, num_nodes = self.distinct, len(self.table)
        usual = int(np.argmax(distinct.counts))
        num_others = num_nodes - int(distinct.counts[usual])
        if num_nodes < ENOUGH_NODES or num_others >= MIN_OTHER_VALUES or distinct.missing[usual]:
            return
        yield from self.at_rows(
            distinct.codes != usual, others=num_others, usual=quote(distinct.values[usual])
        )

    @error("{value} is not a number", "{how}, or leave the cell empty")
    def not_a_number(self) -> Hits:
        if self.kind != "numeric":
            return
        wrong = ~self.is_plain_number & ~self.distinct.missing
        if wrong.any():
            first = self.distinct.values[int(np.argmax(wrong))]
            yield from self.at_values(wrong, how=how_to_write_number(first))

    @error("{value} is not a finite number", "write a finite number, or leave the cell empty")
    def infinite_number(self) -> Hits:
        if self.kind == "numeric":
            yield from self.at_values(np.isinf(self.distinct.numbers))

    @warning(
        "{value} is read as {number:g}, though every point has three digits after it, as between "
        "thousands",
        "if thousands are meant, write the numbers without the point",
    )
    def ambiguous_point(self) -> Hits:
        if self.kind == "numeric":
            yield from self.at_ambiguous_points()

    @warning(
        "{value} is far from all other numbers ({low:g} to {high:g}) and may stand for a missing "
        "one",
        "leave the cell empty where {written} means unknown",
    )
    def stand_in_number(self) -> Hits:
        if self.kind != "numeric":
            return
        distinct = self.distinct
        finite = np.isfinite(distinct.numbers)
        for position in np.flatnonzero(finite & (distinct.counts >= MIN_STAND_INS)):
            if not STAND_IN.fullmatch(distinct.texts[position]):
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
                yield from self.at_values(is_same, low=low, high=high, written=written)

    @warning("{value} looks like a number, but is taken as text", "{how}")
    def number_as_text(self) -> Hits:
        found = self.numbers_as_text
        if found.any():
            first = self.distinct.values[int(np.argmax(found))]
            yield from self.at_values(found, how=how_to_write_number(first))

    @warning(
        "{value} is text in a column of which {share} is numbers, so all of it is taken as text",
        "empty such cells and take the rest as numbers with --numeric {column}, or split the "
        "column",
    )
    def mixed_types(self) -> Hits:
        distinct, is_number = self.distinct, self.is_plain_number
        if self.kind in ("numeric", "list") or holds_dates(distinct) or self.numbers_as_text.any():
            return
        num_numbers = distinct.num_cells(is_number)
        is_mixed = MIN_SHARE_MIXED * distinct.num_present <= num_numbers < distinct.num_present
        if is_mixed and len(np.unique(distinct.numbers[is_number])) > MAX_CODES:
            share = share_of(num_numbers, distinct.num_present)
            yield from self.at_values(~is_number & ~distinct.missing, share=share)

    @error(
        "{value} is not a date",
        "write it as 2024-05-17, leave the cell empty, or take the column as text with "
        "--categorical {column}",
    )
    def not_a_date(self) -> Hits:
        if self.kind == "date":
            texts, order = self.distinct.texts, find_date_order(self.distinct.texts)
            is_none = np.array([parse_date(text, order) is None for text in texts], bool)
            yield from self.at_values(is_none & ~self.distinct.missing)

    @warning(
        "{value} is read as {day}, the {order}, though no date of the column tells the day and the "
        "month apart",
        "write dates as 2024-05-17",
    )
    def ambiguous_dates(self) -> Hits:
        texts = self.distinct.texts
        if self.kind == "date" and are_ambiguous_dates(texts):
            order = find_date_order(texts)
            parsed = {
                text: (parse_date(text, order), parse_date(text, _OTHER_ORDER[order]))
                for text in texts
            }
            differ = np.array([parsed[text][0] != parsed[text][1] for text in texts], bool)
            first = texts[int(self.distinct.codes[np.argmax(differ[self.distinct.codes])])]
            yield from self.at_values(differ, day=parsed[first][0], order=order)

    @warning(
        "{value} is {what}: a model would learn nodes by heart",
        "leave the column out with --ignore {column}",
    )
    def id_as_feature(self) -> Hits:
        distinct, num_rows = self.distinct, len(self.table)
        if self.kind == "ignored" or len(distinct.values) < num_rows or num_rows < MANY_CATEGORIES:
            return
        if distinct.texts == self.table.distinct(self.id_column).texts:
            yield self.at_row(0, what="the node's id")
        elif self.numbers_the_rows():
            yield self.at_row(0, what="different for every node, like an id")

    @warning(
        "{value} is one of {once:,} categories, of {all:,}, that occur only once and share a "
        "feature",
        "group them where they are alike; the others of the column are used as they are",
    )
    def rare_categories(self) -> Hits:
        distinct = self.distinct
        once = ~distinct.missing & (distinct.counts == 1)
        num_values, num_once = int((~distinct.missing).sum()), int(once.sum())
        all_different = num_values == len(distinct.codes)
        if self.kind != "categorical" or all_different:
            return
        if num_values >= MANY_CATEGORIES and 2 * num_once > num_values:
            yield from self.at_values(once, once=num_once, all=num_values)

    @warning(
        "{value} differs from {other} only in case or spaces",
        "write both the same way if the same is meant",
    )
    def similar_categories(self) -> Hits:
        if self.kind != "categorical":
            return
        names = self.distinct.texts
        similar = {
            second: first
            for second, first in find_similar(names).items()
            if not self.distinct.missing[second] and names[second] != names[first]
        }
        yield from self.at_similar(names, similar)

    @warning(
        "{value} is what a spreadsheet writes where a formula fails",
        "correct the formula, or leave the cell empty",
    )
    def spreadsheet_error(self) -> Hits:
        if self.has_text:
            yield from self.at_values(self.distinct.matches(SPREADSHEET_ERROR))

    @warning(
        "{value} was read in the wrong encoding before it was saved",
        "export it again as UTF-8",
    )
    def garbled_text(self) -> Hits:
        if self.has_text:
            values = self.distinct.values
            garbled = [not value.isascii() and bool(GARBLED.search(value)) for value in values]
            yield from self.at_values(np.array(garbled))

    @warning(
        "the column is left out ({reason}); {value} is one of its values; {cost}",
        "keep it with --categorical {column} where rows share values, or agree with "
        "--ignore {column}",
    )
    def left_out(self) -> Hits:
        if self.kind == "ignored" and not self.numbers_as_text.any():
            first = int(np.argmax(~self.distinct.missing[self.distinct.codes]))
            yield self.at_row(first, reason=self.reason, cost=self._cost())

    def _cost(self) -> str:
        """Say how many rows share a value, and what it tells of the target where they do."""
        distinct, labels = self.distinct, self.labels
        shared = ((distinct.counts > 1) & ~distinct.missing)[distinct.codes]
        if not shared.any():
            return "no two rows share a value, so as categories they tell a model nothing"
        words = f"{share_of(int(shared.sum()), len(shared))} of the rows share theirs with another"
        known = shared if labels is None else shared & labels.known
        if labels is None or known.sum() < ENOUGH_NODES:
            return words
        if labels.numbers is not None:
            r2 = r2_of_column(distinct, "categorical", known, labels.numbers)
            return f"{words}, whose mean predicts the number with an R² of {r2:.2f}"
        codes, num_classes = labels.codes[known], len(labels.names)
        errors = count_errors_by_value(distinct.codes[known], codes, num_classes)
        most = int(np.bincount(codes).max())
        told, usual = share_of(len(codes) - errors, len(codes)), share_of(most, len(codes))
        return f"{words}, and the others' class is right for {told} of them ({usual} by guessing)"


def check_columns(
    nodes: Table, plan: TablePlan, labels: Labels | None, severity: Severity | None = None
) -> Iterator[Problem]:
    """Yield problems of each column that is, or might have been, made into features.

    Args:
        severity: Of the problems to look for; by default both. Errors are found by one column after
            the other.
    """
    id_column, warns = plan.id_column, plan.missing is None
    columns = [
        _Column(nodes, column.name, column.kind, column.reason, id_column, warns, labels)
        for column in plan.columns
        if column.kind not in ("id", "target", "split")
        and not (column.kind == "ignored" and column.reason in ("as chosen", NO_HEADER, SHOWN))
    ]
    yield from check_alike(columns, severity)
