"""Everything the report of a reproduction says, before it becomes a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crossgcn.evaluation.claims import ClaimOutcome, ClaimResult, evaluate_claims
from crossgcn.evaluation.item_names import ITEM_NAMES
from crossgcn.evaluation.item_results import ItemResult
from crossgcn.evaluation.items import Item
from crossgcn.reports.figures import draw_item
from crossgcn.reports.item_view import NumberTable, number_table

__all__ = ["COUNTED", "OUTCOMES", "ReportView", "Section", "view_report"]

Pairs = Sequence[tuple[Item, ItemResult]]

COUNTED: Final = {
    "within one sd": "agree",
    "the same": "agree",
    "outside": "outside",
    "differs": "outside",
    "not reproducible as described": "not reproducible",
    "not judged": "not judged",
}
"""What each verdict counts as in the summary."""

OUTCOMES: Final[Mapping[ClaimOutcome, str]] = {
    "holds": "These claims hold",
    "holds in part": "These hold only under conditions",
    "does not hold": "These do not hold",
    "not tested": "These were not tested",
}
"""In the order in which the reader meets them."""


@dataclass(frozen=True)
class Section:
    """One item of the report.

    Attributes:
        item: What the paper shows.
        result: What was measured.
        table: Its numbers.
        figure: An ``<svg>`` element, where there is something to draw.
        claims: The paper's claims and what came of them.
        counts: How many numbers agree, are outside, not reproducible, not run.
    """

    item: Item
    result: ItemResult
    table: NumberTable
    figure: str | None
    claims: tuple[ClaimResult, ...]
    counts: Counter[str]

    @property
    def devices(self) -> list[str]:
        """What epochs were timed on, each once."""
        timings = [cell.timing for cell in self.result.cells if cell.timing is not None]
        return list(dict.fromkeys(f"{t['device_name']} ({t['device']})" for t in timings))


@dataclass(frozen=True)
class ReportView:
    """The whole report.

    Attributes:
        sections: One for each item.
        counts: Those of the sections, added up.
        environments: Each once, as words, with the items that were run in it.
        splits: The datasets that were run with each kind of training sets.
        runs: How many trainings stand behind the numbers.
    """

    sections: tuple[Section, ...]
    counts: Counter[str]
    environments: tuple[tuple[str, tuple[str, ...]], ...]
    splits: Mapping[str, tuple[str, ...]]
    runs: int

    @property
    def notices(self) -> list[str]:
        """What keeps this from being the whole paper in full, a line each."""
        short = [section.item.title for section in self.sections if section.result.shortened]
        skipped = [section.item.title for section in self.sections if section.result.skipped]
        failed = [section.item.title for section in self.sections if section.result.failed]
        here = {section.item.name for section in self.sections}
        missing = [words for name, words in ITEM_NAMES.items() if name not in here]
        return [
            f"{what}: {'; '.join(names)}."
            for what, names in (
                ("Shortened, so that their numbers are not final", short),
                ("Without all datasets or methods", skipped),
                ("With runs that failed", failed),
                ("Not in this report", missing),
            )
            if names
        ]

    def claims(self, outcome: ClaimOutcome) -> list[tuple[Section, ClaimResult]]:
        """All claims that came out so, with the items they belong to."""
        return [
            (section, claim)
            for section in self.sections
            for claim in section.claims
            if claim.outcome == outcome
        ]


def view_report(pairs: Pairs, *, draw: bool = True) -> ReportView:
    """Judge, count and draw everything once.

    Args:
        pairs: The items and what came out of them, in the order of the report.
        draw: Whether figures are wanted.
    """
    sections = tuple(_view_section(item, result, draw) for item, result in pairs)
    environments: dict[str, list[str]] = {}
    splits: dict[str, dict[str, None]] = {}
    for item, result in pairs:
        if result.environment:
            environments.setdefault(_describe(result.environment), []).append(item.name)
        for dataset, kind in result.splits.items():
            splits.setdefault(kind, {})[dataset] = None
    trained = {
        json.dumps({**cell.settings, **chosen}, sort_keys=True): len(cell.test_accuracy)
        for _, result in pairs
        for cell in result.cells
        for chosen in [candidate.settings for candidate in cell.candidates] or [{}]
    }
    return ReportView(
        sections,
        sum((section.counts for section in sections), Counter()),
        tuple((text, tuple(names)) for text, names in environments.items()),
        {kind: tuple(datasets) for kind, datasets in splits.items()},
        sum(trained.values()),
    )


def _view_section(item: Item, result: ItemResult, draw: bool) -> Section:
    table = number_table(item, result)
    counts: Counter[str] = Counter()
    for line in (line for group in table.groups for line in group.lines):
        if not line.run:
            counts["not run"] += 1
        elif line.verdict is not None:
            counts[COUNTED[line.verdict.name]] += 1
    claims = evaluate_claims(item, result)
    figure = draw_item(item, result) if draw else None
    return Section(item, result, table, figure, claims, counts)


def _describe(environment: Mapping[str, Any]) -> str:
    """Names and versions in one line, whatever a record holds."""
    parts = []
    for name, value in environment.items():
        if name == "versions" and isinstance(value, Mapping):
            parts += [f"{package} {_told(version)}" for package, version in value.items()]
        elif name == "commit" and value is not None:
            commits = value if isinstance(value, list | tuple) else [value]
            parts.append(f"commit {_told([_short(str(commit)) for commit in commits])}")
        elif value is not None:
            parts.append(f"{name.replace('_', ' ')} {_told(value)}")
    return ", ".join(parts)


def _short(commit: str) -> str:
    digest, *modified = commit.split("-")
    return "-".join([digest[:10], *modified])


def _told(value: Any) -> str:
    """One value, or all that were found."""
    if isinstance(value, list | tuple):
        return " and ".join(dict.fromkeys(_told(each) for each in value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
