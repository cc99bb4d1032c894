"""Whether a column of the node table says something, and only what it should."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from crossgcn.data.tables.check_missing import tell_missing
from crossgcn.data.tables.check_numbers import check_numeric_column, check_text_for_numbers
from crossgcn.data.tables.check_places import Place, Rule, count_of, find_alike, share_of
from crossgcn.data.tables.columns import DATE
from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.findings import Finding, quote
from crossgcn.data.tables.plan import NO_HEADER, ColumnPlan
from crossgcn.data.tables.table import Table

__all__ = ["check_column"]

FEWEST_OTHERS = 3
"""Fewer nodes with another value than the usual one teach nothing."""

ENOUGH_NODES = 50
MANY_CATEGORIES = 20
MOSTLY = 0.9

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
    return int(distinct.counts[is_date].sum()) >= MOSTLY * distinct.num_present


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
