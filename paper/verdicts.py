"""Verdicts on the paper's numbers, and the comparisons that its claims are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean, stdev
from typing import Final, Literal, NamedTuple

from crossgcn import paired_difference
from paper.cells import Measured, Number, Place, Result

VerdictName = Literal[
    "within one sd",
    "the same",
    "outside",
    "differs",
    "not reproducible as described",
    "not judged",
]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """How our number relates to the paper's.

    Attributes:
        name: ``within one sd`` also covers a tolerance, if no deviation is printed.
        words: The name as shown, such as ``within 3 points`` for a tolerance.
        reasons: Why the numbers differ; empty if they agree.
    """

    name: VerdictName
    words: str
    reasons: tuple[str, ...] = ()


class Paired(NamedTuple):
    """Mean difference over splits, its standard error and its 95 % interval, in points."""

    mean: float
    error: float | None
    interval: tuple[float, float] | None


def number_of(measured: Measured | None) -> Number | None:
    """Return our number in the paper's unit: percent, seconds of an epoch, or a count."""
    if measured is None:
        return None
    if measured.statistics is not None:
        return Number(measured.statistics["value"])
    if measured.timing is not None:
        return Number(measured.timing["mean"])
    percent = [100 * each for each in measured.test_accuracy]
    return Number(fmean(percent), stdev(percent) if len(percent) > 1 else None)


def paired(measured: Measured | None, other: Measured | None) -> Paired | None:
    """Return the paired difference, if both have the same splits."""
    if measured is None or other is None or not measured.test_accuracy:
        return None
    if len(measured.test_accuracy) != len(other.test_accuracy):
        return None
    found = paired_difference(
        [100 * each for each in measured.test_accuracy],
        [100 * each for each in other.test_accuracy],
    )
    return Paired(found.mean, found.standard_error, found.interval())


def judge(result: Result, place: Place) -> Verdict | None:
    """Compare our number with the paper's; ``None`` if one of the two is missing.

    A difference of at most the paper's standard deviation, or of the tolerance if there is none,
    is agreement. A larger one is a disagreement, unless the paper describes the item too
    incompletely to be reproduced.
    """
    item, cell = result.item, result.item.cells[place]
    ours, paper = number_of(result.measured.get(place)), cell.paper
    if paper is None or ours is None:
        return None
    allowed = paper.allowed
    own = () if cell.reason is None else (cell.reason,)

    def verdict(name: VerdictName, *reasons: str, words: str | None = None) -> Verdict:
        return Verdict(name, words or name, reasons)

    if cell.row.made_to_match:
        return verdict("not judged", "Generated to have this size.")
    if item.kind == "statistics":
        same = _as_printed(ours.mean, paper.mean)
        return verdict("the same") if same else verdict("differs", *own)
    if allowed is not None and abs(ours.mean - paper.mean) <= allowed + _ROUNDING:
        words = "within one sd" if paper.sd is not None else f"within {allowed:g} points"
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


@dataclass(frozen=True)
class Check:
    """One comparison of a claim.

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


def beats(result: Result, place: Place, other: Place) -> Check:
    """Check that the 95 % interval of a paired difference in accuracy is above zero."""
    both = _against(place, other)
    found = paired(result.measured.get(place), result.measured.get(other))
    if found is None:
        return Check(both, "not tested", "not run on the same splits")
    points = f"{found.mean:+z.2f}"
    if found.interval is None:
        return Check(both, "not tested", f"{points} points on a single split, which cannot tell")
    low, high = found.interval
    text = f"{points} points, 95 % interval {low:+z.2f} to {high:+z.2f}"
    return Check(both, "shown" if low > 0 else "refuted" if high < 0 else "not shown", text, points)


def row_beats(row: str, other: str) -> Callable[[Result], list[Check]]:
    """Return a function that checks in every panel and column that a row beats another."""
    return lambda r: [beats(r, place, place._replace(row=other)) for place in r.places(row)]


def is_within(
    result: Result, place: Place, *, at_least: float = 0.0, at_most: float = 100.0
) -> Check:
    """Check that the mean, in percent, is within bounds."""
    ours = number_of(result.measured.get(place))
    expected = f"at least {at_least:g}" if at_least else f"at most {at_most:g}"
    if ours is None:
        return Check(place, "not tested", f"not run; {expected} expected")
    mean = f"{ours.mean:.1f}"
    holds = at_least <= ours.mean <= at_most
    return Check(place, _shown(holds), f"{mean}, {expected} expected", mean)


def close_to(result: Result, place: Place, other: Place, within: float) -> Check:
    """Check that two means differ by at most so many points."""
    both = _against(place, other)
    ours, theirs = (number_of(result.measured.get(each)) for each in (place, other))
    if ours is None or theirs is None:
        return Check(both, "not tested", "not run")
    number = f"{ours.mean - theirs.mean:+z.2f}"
    text = f"{number} points, at most {within:g} either way expected"
    return Check(both, _shown(abs(ours.mean - theirs.mean) <= within), text, number)


def takes_at_most(result: Result, place: Place, other: Place, times: float) -> Check:
    """Check that an epoch takes at most so many times as long as another model's."""
    both = _against(place, other)
    ours, theirs = (number_of(result.measured.get(each)) for each in (place, other))
    if ours is None or theirs is None:
        return Check(both, "not tested", "not timed")
    ratio = ours.mean / theirs.mean
    text = f"{ratio:.2f} times the seconds, at most {times:g} expected"
    return Check(both, _shown(ratio <= times), text, f"{ratio:.2f}×")


def varies_less(result: Result, row: str, other: str) -> Iterator[Check]:
    """Check in every panel that the means of a row vary less over the columns than another's."""
    for panel in result.item.panels:
        place = Place(f"{row} against {other}", panel.label)
        means = [
            {
                place.column: ours.mean
                for place in result.places(row=label, panel=panel.label)
                if (ours := number_of(result.measured.get(place))) is not None
            }
            for label in (row, other)
        ]
        shared = means[0].keys() & means[1].keys()
        if len(shared) < 2:
            yield Check(place, "not tested", "fewer than two columns were run")
            continue
        values = [[each[column] for column in shared] for each in means]
        one, two = (max(each) - min(each) for each in values)
        text = f"varies by {one:.1f} points, the other by {two:.1f}"
        yield Check(place, _shown(one < two), text, f"{one:.1f} against {two:.1f}")


def better_on_validation(result: Result, place: Place, row: str) -> Place:
    """Return the place, or the one in another row if that validates better."""
    other = place._replace(row=row)
    ours, theirs = (result.measured.get(each, Measured()) for each in (place, other))
    return other if sum(theirs.validation_accuracy) > sum(ours.validation_accuracy) else place


def _shown(holds: bool) -> CheckOutcome:
    return "shown" if holds else "refuted"


def _against(place: Place, other: Place) -> Place:
    labels = zip(place, other, strict=True)
    return Place(*(a if a == b else f"{a} against {b}" for a, b in labels))


_WORDS: Final = {
    "shown": "Holds",
    "refuted": "Refuted",
    "not shown": "Not shown",
    "not tested": "Not tested",
}
_TOO_LONG: Final = 320

ClaimOutcome = Literal["holds", "holds in part", "does not hold", "not tested"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of the paper and its outcome."""

    says: str
    finding: str
    outcome: ClaimOutcome
    checks: tuple[Check, ...]

    def label(self, check: Check) -> str:
        """Return the place of a check without the parts that all checks share."""
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

    def _labels(self, checks: list[Check]) -> Iterator[str]:
        """Yield labels with numbers; those that differ only in the last part are joined."""
        tails: dict[str, list[str]] = {}
        for check in checks:
            head, _, tail = self.label(check).rpartition(", ")
            tails.setdefault(head, []).append(f"{tail} ({check.number})" if check.number else tail)
        for head, told in tails.items():
            yield ": ".join(part for part in (head, ", ".join(told)) if part)


def evaluate_claims(result: Result) -> tuple[JudgedClaim, ...]:
    """Evaluate every claim of an item on the cells that were run.

    A claim holds if all checks show it, holds in part if some do, and does not hold if none does.
    It is not tested if no check could be made, if a shortened run shows nothing, or if places are
    missing and the others leave it open.
    """
    claims = []
    for claim in result.item.claims:
        checks = tuple(claim.checks(result))
        if result.shortened:  # It may show a claim, but is too short to refute one.
            checks = tuple(
                replace(check, outcome="not shown") if check.outcome == "refuted" else check
                for check in checks
            )
        outcome = _outcome(Counter(check.outcome for check in checks), bool(result.shortened))
        claims.append(JudgedClaim(claim.says, claim.finding, outcome, checks))
    return tuple(claims)


def _outcome(count: Counter[CheckOutcome], shortened: bool) -> ClaimOutcome:
    if count["shown"] == count.total():
        return "holds"
    if count["shown"]:
        return "holds in part"
    unsettled = count["not tested"] > 0 and count["refuted"] == 0
    return "not tested" if unsettled or shortened else "does not hold"
