"""Judge numbers against those of the paper, and the claims of the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from crossgcn.experiments.statistics import PairedDifference, Summary, paired_difference, summarise
from crossgcn.reproduction.items import CellKey, Check, Claim, Item, Place
from crossgcn.reproduction.plan import CellResult, ItemResult

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
    """How our number relates to the paper's.

    Attributes:
        name: ``within one sd`` also covers a tolerance, if no deviation is printed.
        difference: Ours minus the paper's, in the paper's unit.
        words: The name as shown, such as ``within 2 points`` for a tolerance.
        reasons: Why the numbers differ; empty if they agree.
    """

    name: VerdictName
    difference: float
    words: str
    reasons: tuple[str, ...] = ()


def measured(cell: CellResult | None) -> Summary | None:
    """Return our number in the paper's unit: percent, seconds of an epoch, or a statistic."""
    if cell is None:
        return None
    if cell.statistics is not None:
        return Summary(cell.statistics["value"], None, 1)
    if cell.timing is not None:
        seconds = cell.timing.get("mean")
        return None if seconds is None else Summary(float(seconds), cell.timing.get("sd"), 1)
    if cell.test_accuracy:
        return summarise([100 * accuracy for accuracy in cell.test_accuracy])
    return None


def paired_with(cell: CellResult | None, other: CellResult | None) -> PairedDifference | None:
    """Return the paired difference of two cells in points, if both have the same splits."""
    if cell is None or other is None or not cell.test_accuracy:
        return None
    if len(cell.test_accuracy) != len(other.test_accuracy):
        return None
    return paired_difference(
        [100 * accuracy for accuracy in cell.test_accuracy],
        [100 * accuracy for accuracy in other.test_accuracy],
    )


def baseline_of(cell: CellResult, result: ItemResult) -> CellResult | None:
    """Return the cell in the same panel and column of the row it is compared with."""
    if cell.compare_with is None:
        return None
    return result.find(cell.panel, cell.compare_with, cell.column)


def judge_cell(cell: CellResult, item: Item) -> Verdict | None:
    """Compare a cell with the paper's number; ``None`` if one of the two is missing.

    A difference of at most the paper's standard deviation, or of the tolerance if there is
    none, is agreement. A larger one is a disagreement, unless the paper describes the item too
    incompletely to be reproduced.
    """
    ours = measured(cell)
    if cell.paper is None or ours is None:
        return None
    difference = ours.mean - cell.paper.mean
    allowed = cell.paper.allowed
    own = () if cell.reason is None else (cell.reason,)

    def verdict(name: VerdictName, *reasons: str, words: str | None = None) -> Verdict:
        return Verdict(name, difference, words or name, reasons)

    if any(row.made_to_match for row in item.rows if row.label == cell.row):
        return verdict("not judged", "Generated to have this size.")
    if cell.statistics is not None:
        same = _as_printed(ours.mean, cell.paper.mean) or abs(difference) <= (allowed or 0.0)
        return verdict("the same") if same else verdict("differs", *own)
    if allowed is not None and abs(difference) <= allowed + _ROUNDING:
        unit = "s" if cell.timing is not None else " point" if allowed == 1 else " points"
        words = "within one sd" if cell.paper.sd is not None else f"within {allowed:g}{unit}"
        return verdict("within one sd", words=words)
    if item.not_reproducible is not None:
        return verdict("not reproducible as described", item.not_reproducible, *own)
    if allowed is None:
        return verdict("not judged", "The paper prints no deviation.", *own)
    return verdict("outside", *own)


def _as_printed(ours: float, paper: float) -> bool:
    """Return whether ours, rounded to the digits that the paper prints, is the paper's number."""
    digits = Decimal(repr(paper)).normalize().as_tuple().exponent
    return isinstance(digits, int) and round(ours, max(-digits, 0)) == paper


CheckOutcome = Literal["shown", "refuted", "not shown", "not tested"]
Found = CellResult | None
Compared = tuple[CheckOutcome, str, str]
"""The outcome, the number behind it in words, and the number alone."""


@dataclass(frozen=True)
class CheckResult:
    """A check at one place.

    Attributes:
        place: With ``a against b`` where the two sides differ.
        outcome: ``not shown`` if the measurement cannot tell.
        text: The number behind the outcome, in words.
        number: The number alone; empty if nothing was compared.
    """

    place: Place
    outcome: CheckOutcome
    text: str
    number: str = ""


def evaluate_check(check: Check, item: Item, result: ItemResult) -> Iterator[CheckResult]:
    """Make a check at every place that it selects, whether it was run or not."""
    if check.narrower_than is not None:
        yield from _narrower(check.cell, check.narrower_than, item, result)
        return
    places = {cell.place: cell for cell in item.cells()}
    for place, planned in places.items():
        if not check.cell.matches(planned):
            continue
        cell = result.at(place)
        if check.or_row is not None:
            place, cell = _better_on_validation(place, check.or_row, result)
        for key, compare in (
            (check.better_than, _better),
            (check.slower_than, partial(_slower, at_most=check.at_most)),
            (check.close_to, partial(_close, within=check.within or 0.0)),
        ):
            if key is None or (other := _other(place, key)) == place or other not in places:
                continue
            yield CheckResult(_both(place, other), *compare(cell, result.at(other)))
        if check.at_most is not None and check.slower_than is None:
            yield CheckResult(place, *_bounded(cell, check.at_most, -1))
        if check.at_least is not None:
            yield CheckResult(place, *_bounded(cell, check.at_least, +1))


def _better_on_validation(place: Place, or_row: str, result: ItemResult) -> tuple[Place, Found]:
    """Return the cell at a place or that of another row, whichever validates better."""
    other = (or_row, *place[1:])
    cell, rival = result.at(place), result.at(other)
    if cell is None or rival is None:
        return place, None
    if sum(rival.validation_accuracy) > sum(cell.validation_accuracy):
        return other, rival
    return place, cell


def _better(cell: Found, other: Found) -> Compared:
    """Check that the 95 % interval of the paired difference is above zero."""
    paired = paired_with(cell, other)
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
    ours, expected = measured(cell), f"{'at least' if sign > 0 else 'at most'} {bound:g} expected"
    if ours is None:
        return "not tested", f"not run; {expected}", ""
    mean = f"{ours.mean:.1f}"
    return _shown(sign * (ours.mean - bound) >= 0), f"{mean}, {expected}", mean


def _slower(cell: Found, other: Found, at_most: float | None) -> Compared:
    ours, theirs = measured(cell), measured(other)
    if ours is None or theirs is None:
        return "not tested", "not timed", ""
    ratio = ours.mean / theirs.mean
    number, text = f"{ratio:.2f}×", f"{ratio:.2f} times the seconds"
    if at_most is None:
        return _shown(ratio > 1), text, number
    return _shown(ratio <= at_most), f"{text}, at most {at_most:g} expected", number


def _close(cell: Found, other: Found, within: float) -> Compared:
    ours, theirs = measured(cell), measured(other)
    if ours is None or theirs is None:
        return "not tested", "not run", ""
    number = f"{ours.mean - theirs.mean:+z.2f}"
    text = f"{number} points, at most {within:g} either way expected"
    return _shown(abs(ours.mean - theirs.mean) <= within), text, number


def _narrower(
    first: CellKey, second: CellKey, item: Item, result: ItemResult
) -> Iterator[CheckResult]:
    """Check that the means of one row vary less over the columns than those of another."""
    for panel in (panel.label for panel in item.panels if first.panel in (None, panel.label)):
        place = (f"{first.row} against {second.row}", panel, first.column or "")
        means: list[dict[str, float]] = []
        for key in (first, second):
            wanted = CellKey(panel=panel, row=key.row, column=first.column)
            cells = filter(wanted.matches, result.cells)
            means.append({cell.column: ours.mean for cell in cells if (ours := measured(cell))})
        shared = means[0].keys() & means[1].keys()
        if len(shared) < 2:
            yield CheckResult(place, "not tested", "fewer than two columns were run")
            continue
        rows = [[row[column] for column in shared] for row in means]
        one, two = (max(row) - min(row) for row in rows)
        text = f"varies by {one:.1f} points, the other by {two:.1f}"
        yield CheckResult(place, _shown(one < two), text, f"{one:.1f} against {two:.1f}")


def _shown(holds: bool) -> CheckOutcome:
    return "shown" if holds else "refuted"


def _other(place: Place, key: CellKey) -> Place:
    """Return the place that a selector means; it takes from ``place`` what it leaves out."""
    row, panel, column = place
    return key.row or row, key.panel or panel, key.column or column


def _both(place: Place, other: Place) -> Place:
    row, panel, column = (
        a if a == b else f"{a} against {b}" for a, b in zip(place, other, strict=True)
    )
    return row, panel, column


_WORDS: Final = {
    "shown": "Holds",
    "refuted": "Refuted",
    "not shown": "Not shown",
    "not tested": "Not tested",
}
_TOO_LONG: Final = 320

ClaimOutcome = Literal["holds", "holds in part", "does not hold", "not tested"]


@dataclass(frozen=True)
class ClaimResult:
    """A claim, its outcome and the result of each check."""

    claim: Claim
    outcome: ClaimOutcome
    checks: tuple[CheckResult, ...]

    def label(self, check: CheckResult) -> str:
        """Return the place of a check without the parts that all checks of the claim share."""
        varying = [
            part
            for part, *others in zip(check.place, *(c.place for c in self.checks), strict=True)
            if part and len(set(others)) > 1
        ]
        return ", ".join(varying or [part for part in check.place if part])

    @property
    def where(self) -> str:
        """The places of each outcome, or their numbers if there are too many."""
        total = len(self.checks)
        if total == 1:
            return f"{self.checks[0].text[:1].upper()}{self.checks[0].text[1:]}."
        outcomes = {word: [c for c in self.checks if c.outcome == word] for word in _WORDS}
        found = [(word, checks) for word, checks in outcomes.items() if checks]
        parts = [f"{_WORDS[word]} for {'; '.join(self._labels(checks))}." for word, checks in found]
        if sum(map(len, parts)) > _TOO_LONG:
            parts = [f"{_WORDS[word]} in {len(checks)} of {total}." for word, checks in found]
        return " ".join(parts)

    def _labels(self, checks: list[CheckResult]) -> Iterator[str]:
        """Yield labels with numbers; those that differ only in the last part are joined."""
        tails: dict[str, list[str]] = {}
        for check in checks:
            head, _, tail = self.label(check).rpartition(", ")
            tails.setdefault(head, []).append(f"{tail} ({check.number})" if check.number else tail)
        for head, told in tails.items():
            yield ": ".join(part for part in (head, ", ".join(told)) if part)


def evaluate_claims(item: Item, result: ItemResult) -> tuple[ClaimResult, ...]:
    """Evaluate every claim of an item on the cells that were run.

    A claim holds if all checks show it, holds in part if some do, and does not hold if none
    does. It is not tested if no check could be made, if a shortened run shows nothing, or if
    places are missing and the others leave it open.
    """
    return tuple(_evaluate_claim(claim, item, result) for claim in item.claims)


def _evaluate_claim(claim: Claim, item: Item, result: ItemResult) -> ClaimResult:
    checks = tuple(
        outcome for check in claim.checks for outcome in evaluate_check(check, item, result)
    )
    if result.shortened:  # It may show a claim, but is too short to refute one.
        checks = tuple(
            replace(check, outcome="not shown") if check.outcome == "refuted" else check
            for check in checks
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
