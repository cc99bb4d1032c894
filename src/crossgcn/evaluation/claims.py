"""What the paper concludes from an item, held against what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from crossgcn.evaluation.checks import CheckResult, evaluate_check
from crossgcn.evaluation.item_results import ItemResult
from crossgcn.evaluation.items import Claim, Item

__all__ = ["ClaimOutcome", "ClaimResult", "evaluate_claim", "evaluate_claims"]

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
