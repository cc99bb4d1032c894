"""Ours beside the paper's number: how far apart, and whether that is a disagreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from crossgcn.experiments.statistics import PairedDifference, Summary, paired_difference, summarise
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.items import Cell, CellKey, Check, Claim, Item

VerdictName = Literal[
    "within one sd",
    "outside",
    "not reproducible as described",
    "the same",
    "differs",
    "not judged",
]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What a cell says about the paper's number.

    Attributes:
        name: What it counts as; ``within one sd`` also where a tolerance
            stands in for a deviation that is not printed.
        difference: Ours minus the paper's, in the paper's unit.
        words: The name as shown: ``within 2 points`` where that is the tolerance.
        reasons: Why ours is not the same; empty when it is.
    """

    name: VerdictName
    difference: float
    words: str
    reasons: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words and the reasons, on one line."""
        return f"{self.words}: {' '.join(self.reasons)}" if self.reasons else self.words


def measured(cell: CellResult) -> Summary | None:
    """Ours in the paper's unit: percent, seconds of an epoch, or the statistic itself."""
    if cell.statistics is not None:
        return Summary(cell.statistics["value"], None, 1)
    if cell.timing is not None:
        seconds = cell.timing.get("mean")
        return None if seconds is None else Summary(float(seconds), cell.timing.get("sd"), 1)
    if cell.test_accuracy:
        return summarise([100 * accuracy for accuracy in cell.test_accuracy])
    return None


def paired_with(cell: CellResult, other: CellResult | None) -> PairedDifference | None:
    """Difference of two cells split by split, in points; none without the same splits."""
    if other is None or not cell.test_accuracy:
        return None
    if len(cell.test_accuracy) != len(other.test_accuracy):
        return None
    return paired_difference(
        [100 * accuracy for accuracy in cell.test_accuracy],
        [100 * accuracy for accuracy in other.test_accuracy],
    )


def baseline_of(cell: CellResult, result: ItemResult) -> CellResult | None:
    """The cell of the row it is compared with, in the same panel and column."""
    if cell.compare_with is None:
        return None
    return result.find(cell.panel, cell.compare_with, cell.column)


def judge_cell(cell: CellResult, item: Item) -> Verdict | None:
    """Compare a cell with the paper's number; none where either is missing.

    Within the paper's standard deviation (or the tolerance that stands in for it)
    is agreement. Beyond it, an item that the paper does not describe well enough
    to be run again is no disagreement but not reproducible; any other is.

    Args:
        cell: What was measured.
        item: The table or figure it belongs to.
    """
    ours = measured(cell)
    if cell.paper is None or ours is None:
        return None
    difference = ours.mean - cell.paper.mean
    allowed = cell.paper.allowed
    own = () if cell.reason is None else (cell.reason,)
    if any(row.made_to_match for row in item.rows if row.label == cell.row):
        return Verdict("not judged", difference, "not judged", ("Generated to have this size.",))
    if cell.statistics is not None:
        same = _as_printed(ours.mean, cell.paper.mean) or abs(difference) <= (allowed or 0.0)
        return (
            Verdict("the same", difference, "the same")
            if same
            else Verdict("differs", difference, "differs", own)
        )
    if allowed is not None and abs(difference) <= allowed + _ROUNDING:
        unit = "s" if cell.timing is not None else " point" if allowed == 1 else " points"
        words = "within one sd" if cell.paper.sd is not None else f"within {allowed:g}{unit}"
        return Verdict("within one sd", difference, words)
    if item.not_reproducible is not None:
        name: VerdictName = "not reproducible as described"
        return Verdict(name, difference, name, (item.not_reproducible, *own))
    if allowed is None:
        return Verdict(
            "not judged", difference, "not judged", ("The paper prints no deviation.", *own)
        )
    return Verdict("outside", difference, "outside", own)


def _as_printed(ours: float, paper: float) -> bool:
    """Whether ours, rounded to the digits the paper prints, is the paper's number."""
    digits = Decimal(repr(paper)).normalize().as_tuple().exponent
    return isinstance(digits, int) and round(ours, max(-digits, 0)) == paper


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


_WORDS: Final[dict[str, str]] = {
    "shown": "Holds",
    "refuted": "Refuted",
    "not shown": "Not shown",
    "not tested": "Not tested",
}
_TOO_LONG: Final = 320

ClaimOutcome = Literal["holds", "holds in part", "does not hold", "not tested"]


@dataclass(frozen=True)
class ClaimResult:
    """A claim and all its comparisons.

    Attributes:
        claim: As the item states it.
        outcome: Whether all, some or none of the comparisons show it.
        checks: Each comparison.
    """

    claim: Claim
    outcome: ClaimOutcome
    checks: tuple[CheckResult, ...]

    def label(self, check: CheckResult) -> str:
        """Where a comparison stands, without what all comparisons of the claim share."""
        varying = [
            part
            for part, *others in zip(check.place, *(c.place for c in self.checks), strict=True)
            if part and len(set(others)) > 1
        ]
        return ", ".join(varying or [part for part in check.place if part])

    @property
    def where(self) -> str:
        """At which places it is shown, refuted, not shown or not tested; counts where too many."""
        total = len(self.checks)
        if total == 1:
            return f"{self.checks[0].text[:1].upper()}{self.checks[0].text[1:]}."
        found = [(word, [c for c in self.checks if c.outcome == word]) for word in _WORDS]
        found = [(word, checks) for word, checks in found if checks]
        parts = [f"{_WORDS[word]} for {'; '.join(self._labels(checks))}." for word, checks in found]
        if sum(map(len, parts)) > _TOO_LONG:
            parts = [f"{_WORDS[word]} in {len(checks)} of {total}." for word, checks in found]
        return " ".join(parts)

    def _labels(self, checks: list[CheckResult]) -> Iterator[str]:
        """Labels with numbers, those that differ only in the last part told in one breath."""
        tails: dict[str, list[str]] = {}
        for check in checks:
            head, _, tail = self.label(check).rpartition(", ")
            tails.setdefault(head, []).append(f"{tail} ({check.number})" if check.number else tail)
        for head, told in tails.items():
            yield ": ".join(part for part in (head, ", ".join(told)) if part)


def evaluate_claims(item: Item, result: ItemResult) -> tuple[ClaimResult, ...]:
    """Every claim of an item."""
    return tuple(evaluate_claim(claim, item, result) for claim in item.claims)


def evaluate_claim(claim: Claim, item: Item, result: ItemResult) -> ClaimResult:
    """Hold a claim against the cells that were run.

    All comparisons shown: it holds; some: it holds in part; none: it does not. It
    counts as not tested when no comparison could be made, when none is shown by a
    shortened run, and when places are missing and the others leave it open.

    Args:
        claim: What the paper says.
        item: The table or figure with every cell, run or not.
        result: What was measured.
    """
    checks = tuple(
        outcome for check in claim.checks for outcome in evaluate_check(check, item, result)
    )
    count = Counter(check.outcome for check in checks)
    unsettled = count["not tested"] > 0 and count["refuted"] == 0
    outcome: ClaimOutcome
    if count["shown"] == len(checks):
        outcome = "holds"
    elif count["shown"]:
        outcome = "holds in part"
    else:
        outcome = "not tested" if unsettled or result.shortened else "does not hold"
    return ClaimResult(claim, outcome, checks)
