"""One comparison of a claim, at every place it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from crossgcn.evaluation.item_results import CellResult, ItemResult
from crossgcn.evaluation.items import Cell, CellKey, Check, Item
from crossgcn.evaluation.verdicts import measured, paired_with

__all__ = ["CheckOutcome", "CheckResult", "evaluate_check"]

CheckOutcome = Literal["shown", "refuted", "not shown", "not tested"]
Place = tuple[str, str, str]
Found = CellResult | None
Compared = tuple[CheckOutcome, str, str]


@dataclass(frozen=True)
class CheckResult:
    """One comparison at one place.

    Attributes:
        place: Row, panel and column; ``a against b`` where the two sides differ.
        outcome: ``not shown`` when the measurement cannot tell.
        text: The number behind it, in words.
        number: The number alone; empty where nothing was compared.
    """

    place: Place
    outcome: CheckOutcome
    text: str
    number: str = ""


def evaluate_check(check: Check, item: Item, result: ItemResult) -> Iterator[CheckResult]:
    """Make a check wherever its selectors point, run or not.

    Args:
        check: What to compare.
        item: The table or figure with all its cells.
        result: Those that were run.
    """
    if check.narrower_than is not None:
        yield from _narrower(check.cell, check.narrower_than, item, result)
        return
    places = {_place(cell): cell for cell in item.cells()}
    for place, planned in places.items():
        if not _matches(check.cell, planned):
            continue
        cell = _find(result, place)
        if check.or_row is not None:
            place, cell = _better_on_validation(place, check.or_row, result)
        for key in (check.better_than, check.slower_than, check.close_to):
            if key is None or (other := _other(place, key)) == place or other not in places:
                continue
            found = _find(result, other)
            if key is check.better_than:
                outcome = _better(cell, found)
            elif key is check.slower_than:
                outcome = _times(cell, found, check.at_most)
            else:
                outcome = _close(cell, found, check.within)
            yield CheckResult(_both(place, other), *outcome)
        if check.at_most is not None and check.slower_than is None:
            yield CheckResult(place, *_bounded(cell, check.at_most, -1))
        if check.at_least is not None:
            yield CheckResult(place, *_bounded(cell, check.at_least, +1))


def _better_on_validation(place: Place, or_row: str, result: ItemResult) -> tuple[Place, Found]:
    """Of the cell at a place and that of another row, the one that validation would take."""
    other = (or_row, *place[1:])
    cell, rival = _find(result, place), _find(result, other)
    if cell is None or rival is None:
        return place, None
    if sum(rival.validation_accuracy) > sum(cell.validation_accuracy):
        return other, rival
    return place, cell


def _better(cell: Found, other: Found) -> Compared:
    """Whether the 95 % interval of the paired difference is on one side of zero."""
    paired = None if cell is None else paired_with(cell, other)
    if paired is None:
        return "not tested", "not run on the same splits", ""
    points = f"{paired.mean:+z.2f}"
    interval = paired.interval()
    if interval is None:
        return "not tested", f"{points} points on a single split, which cannot tell", points
    low, high = interval
    text = f"{points} points, 95 % interval {low:+z.2f} to {high:+z.2f}"
    return ("shown" if low > 0 else "refuted" if high < 0 else "not shown"), text, points


def _bounded(cell: Found, bound: float, sign: int) -> Compared:
    ours = None if cell is None else measured(cell)
    word = "at least" if sign > 0 else "at most"
    if ours is None:
        return "not tested", f"not run; {word} {bound:g} expected", ""
    holds = sign * (ours.mean - bound) >= 0
    mean = f"{ours.mean:.1f}"
    return ("shown" if holds else "refuted"), f"{mean}, {word} {bound:g} expected", mean


def _times(cell: Found, other: Found, at_most: float | None) -> Compared:
    ours = None if cell is None else measured(cell)
    theirs = None if other is None else measured(other)
    if ours is None or theirs is None:
        return "not tested", "not timed", ""
    ratio = ours.mean / theirs.mean
    number, text = f"{ratio:.2f}×", f"{ratio:.2f} times the seconds"
    if at_most is None:
        return ("shown" if ratio > 1 else "refuted"), text, number
    text += f", at most {at_most:g} expected"
    return ("shown" if ratio <= at_most else "refuted"), text, number


def _close(cell: Found, other: Found, within: float | None) -> Compared:
    ours = None if cell is None else measured(cell)
    theirs = None if other is None else measured(other)
    if ours is None or theirs is None:
        return "not tested", "not run", ""
    difference, allowed = ours.mean - theirs.mean, within or 0.0
    number = f"{difference:+z.2f}"
    text = f"{number} points, at most {allowed:g} either way expected"
    return ("shown" if abs(difference) <= allowed else "refuted"), text, number


def _narrower(
    first: CellKey, second: CellKey, item: Item, result: ItemResult
) -> Iterator[CheckResult]:
    """Whether one row's means stay closer together over the columns than another's."""
    for panel in (panel.label for panel in item.panels if first.panel in (None, panel.label)):
        means: list[dict[str, float]] = []
        for key in (first, second):
            cells = result.matching(CellKey(panel=panel, row=key.row, column=first.column))
            ours = ((cell.column, measured(cell)) for cell in cells)
            means.append({column: value.mean for column, value in ours if value is not None})
        shared = means[0].keys() & means[1].keys()
        place = (f"{first.row} against {second.row}", panel, first.column or "")
        if len(shared) < 2:
            yield CheckResult(place, "not tested", "fewer than two columns were run")
            continue
        one, two = (
            max(row[column] for column in shared) - min(row[column] for column in shared)
            for row in means
        )
        text = f"varies by {one:.1f} points, the other by {two:.1f}"
        number = f"{one:.1f} against {two:.1f}"
        yield CheckResult(place, "shown" if one < two else "refuted", text, number)


def _place(cell: Cell) -> Place:
    return cell.row, cell.panel, cell.column


def _matches(key: CellKey, cell: Cell) -> bool:
    wanted = zip((key.row, key.panel, key.column), _place(cell), strict=True)
    return all(part in (None, label) for part, label in wanted)


def _find(result: ItemResult, place: Place) -> Found:
    row, panel, column = place
    return result.find(panel, row, column)


def _other(place: Place, key: CellKey) -> Place:
    """The place a selector means beside another: alike in what it leaves out."""
    row, panel, column = place
    return (
        row if key.row is None else key.row,
        panel if key.panel is None else key.panel,
        column if key.column is None else key.column,
    )


def _both(place: Place, other: Place) -> Place:
    row, panel, column = (
        a if a == b else f"{a} against {b}" for a, b in zip(place, other, strict=True)
    )
    return row, panel, column
