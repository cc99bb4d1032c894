"""The report of ``crossgcn reproduce``: an HTML page, the same in Markdown, and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crossgcn.data.files import replacing
from crossgcn.reports.format import markdown_table
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.figures import draw_item
from crossgcn.reproduction.item_names import ITEM_NAMES
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.numbers import NumberLine, NumberTable, number_table
from crossgcn.reproduction.verdicts import (
    ClaimOutcome,
    ClaimResult,
    VerdictName,
    baseline_of,
    evaluate_claims,
    judge_cell,
    measured,
    paired_with,
)

Pairs = Sequence[tuple[Item, ItemResult]]
"""Items and their results, in the order of the report."""

_TITLE: Final = "Cross-GCN, reproduced"

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
"""Headings of the claims, in the order of the report."""


def write_report(folder: Path, pairs: Pairs) -> None:
    """Write ``report.html``, and ``report.md`` with its figures.

    Each file is replaced as a whole, so the report can be read at any time.
    """
    view = view_report(pairs)
    _write_markdown(folder, view)
    _write(folder / "report.html", _html(view))


def write_markdown(folder: Path, pairs: Pairs) -> None:
    """Write ``report.md`` with its figures, without ``report.html``."""
    _write_markdown(folder, view_report(pairs))


def render_html(pairs: Pairs) -> str:
    """Return the report as a single page without scripts or external files."""
    return _html(view_report(pairs))


def render_markdown(pairs: Pairs, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report in Markdown; ``figures`` are paths of drawings, by item."""
    return _markdown(view_report(pairs, draw=False), figures or {})


@dataclass(frozen=True)
class Section:
    """One item of the report.

    Attributes:
        figure: An ``<svg>`` element, if there is something to draw.
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
        """The devices on which epochs were timed."""
        timings = [cell.timing for cell in self.result.cells if cell.timing is not None]
        return list(dict.fromkeys(f"{t['device_name']} ({t['device']})" for t in timings))


@dataclass(frozen=True)
class ReportView:
    """The content of the report.

    Attributes:
        environments: Each environment in words, with the items that were run in it.
        splits: Datasets by the kind of their training sets.
        runs: Number of trainings.
    """

    sections: tuple[Section, ...]
    environments: Mapping[str, Sequence[str]]
    splits: Mapping[str, Sequence[str]]
    runs: int

    @property
    def counts(self) -> Counter[str]:
        """The counts of all sections, added up."""
        return sum((section.counts for section in self.sections), Counter())

    @property
    def notices(self) -> list[str]:
        """What is missing from a full report, a line each."""
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
        """Return all claims with an outcome, and their sections."""
        return [
            (section, claim)
            for section in self.sections
            for claim in section.claims
            if claim.outcome == outcome
        ]


def view_report(pairs: Pairs, *, draw: bool = True) -> ReportView:
    """Judge, count and, unless told otherwise, draw everything."""
    environments: dict[str, list[str]] = {}
    splits: dict[str, list[str]] = {}
    for item, result in pairs:
        if result.environment:
            environments.setdefault(_describe(result.environment), []).append(item.name)
        for dataset, kind in result.splits.items():
            if dataset not in splits.setdefault(kind, []):
                splits[kind].append(dataset)
    trained = {
        json.dumps({**cell.settings, **chosen}, sort_keys=True): len(cell.test_accuracy)
        for _, result in pairs
        for cell in result.cells
        for chosen in [candidate.settings for candidate in cell.candidates] or [{}]
    }
    sections = tuple(_view_section(item, result, draw) for item, result in pairs)
    return ReportView(sections, environments, splits, sum(trained.values()))


def _view_section(item: Item, result: ItemResult, draw: bool) -> Section:
    table = number_table(item, result)
    counts: Counter[str] = Counter()
    for line in (line for group in table.groups for line in group.lines):
        if not line.run:
            counts["not run"] += 1
        elif line.verdict is not None:
            counts[COUNTED[line.verdict.name]] += 1
    figure = draw_item(item, result) if draw else None
    return Section(item, result, table, figure, evaluate_claims(item, result), counts)


def _describe(environment: Mapping[str, Any]) -> str:
    """Return names and versions in one line."""
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
    """Return one value, or all that were found, as text."""
    if isinstance(value, list | tuple):
        return " and ".join(dict.fromkeys(_told(each) for each in value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _html(view: ReportView) -> str:
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("crossgcn.reproduction"), PackageLoader("crossgcn.reports")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=_TITLE,
        view=view,
        outcomes=OUTCOMES,
        counted=COUNTED,
        figures={s.item.name: Markup(s.figure) for s in view.sections if s.figure is not None},
    )
    return page + "\n"


def _write_markdown(folder: Path, view: ReportView) -> None:
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = {}
    for section in view.sections:
        if section.figure is not None:
            drawn[section.item.name] = f"figures/{section.item.name}.svg"
            _write(folder / drawn[section.item.name], section.figure + "\n")
    _write(folder / "report.md", _markdown(view, drawn))


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def _markdown(view: ReportView, figures: Mapping[str, str]) -> str:
    blocks = [f"# {_TITLE}", *_summary(view)]
    for section in view.sections:
        blocks += _section(section, figures.get(section.item.name))
    return "\n\n".join(blocks) + "\n"


def _summary(view: ReportView) -> Iterator[str]:
    counts = view.counts
    if view.notices:
        yield "\n".join(f"- **{_escape(notice)}**" for notice in view.notices)
    yield (
        f"Beside the numbers that the paper prints, **{counts['agree']}** of ours are within one "
        f"standard deviation (or the same), **{counts['outside']}** are outside, "
        f"**{counts['not reproducible']}** are not reproducible as described, "
        f"{counts['not judged']} not judged, {counts['not run']} not run."
    )
    for outcome, heading in OUTCOMES.items():
        claims = view.claims(outcome)
        if claims:
            yield f"## {heading}"
            yield "\n".join(
                f"- {_escape(claim.claim.says)} ({section.item.source}) {_escape(claim.where)}"
                for section, claim in claims
            )
    yield "## What was run"
    lines = [f"- {view.runs:,} trainings"]
    lines += [f"- {_escape(kind)} training sets: {', '.join(n)}" for kind, n in view.splits.items()]
    lines += [f"- {_escape(text)} ({', '.join(n)})" for text, n in view.environments.items()]
    yield "\n".join(lines)


def _section(section: Section, figure: str | None) -> Iterator[str]:
    item, result = section.item, section.result
    yield f"## {_escape(item.title)} ({item.source})"
    if item.paper_says:
        yield f"The paper: {_escape(item.paper_says)}"
    if item.protocol:
        yield f"How it was run: {_escape(item.protocol)}"
    if section.devices:
        yield f"Timed on: {_escape(', '.join(section.devices))}"
    if item.not_reproducible:
        yield f"**Not reproducible as described:** {_escape(item.not_reproducible)}"
    left_out = [f"- Shortened: {_escape(line)}" for line in result.shortened]
    left_out += [f"- Failed: {_escape(line)}" for line in result.failed]
    left_out += [f"- Skipped: {_escape(line)}" for line in result.skipped]
    if left_out:
        yield "\n".join(left_out)
    if figure is not None:
        yield f"![{_escape(item.title)}]({figure})"
    yield from _numbers(section.table)
    for claim in section.claims:
        yield from _claim(claim)


def _numbers(table: NumberTable) -> Iterator[str]:
    for group in table.groups:
        if group.label:
            yield f"**{_escape(group.label)}**"
        verdict = ["verdict"] * table.judged
        rows = [[*_cells(line, table), *([_verdict(line)] * table.judged)] for line in group.lines]
        yield markdown_table([*map(_escape, table.headers), *verdict], rows)
    if table.notes:
        yield "\n".join(f"{i}. {_escape(note)}" for i, note in enumerate(table.notes, 1))


def _cells(line: NumberLine, table: NumberTable) -> Iterator[str]:
    for index, cell in enumerate(line.cells):
        interval = line.interval if index == table.paired_column else ""
        yield _escape(f"{cell} ({interval})" if interval else cell)


def _verdict(line: NumberLine) -> str:
    marks = "".join(f" [{mark}]" for mark in line.marks)
    return "—" if line.verdict is None else f"{line.verdict.words}{marks}"


def _claim(claim: ClaimResult) -> Iterator[str]:
    yield f"**{claim.outcome.capitalize()}:** {_escape(claim.claim.says)} {_escape(claim.where)}"
    if claim.claim.finding:
        yield f"> In this project's full run: {_escape(claim.claim.finding)}"
    yield "\n".join(
        f"- {_escape(claim.label(check))}: {check.outcome}, {_escape(check.text)}"
        for check in claim.checks
    )


def _escape(text: str) -> str:
    """Escape Markdown, also within a table."""
    for character in ("\\", "|", "*", "_", "<", "`", "["):
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def summarise_reproduction(pairs: Pairs) -> dict[str, Any]:
    """Return every number with its verdict and every claim with its outcome, and their counts."""
    items = [_item(item, result) for item, result in pairs]
    verdicts = Counter(cell["verdict"] for item in items for cell in item["cells"])
    claims = Counter(claim["outcome"] for item in items for claim in item["claims"])
    return {
        "verdicts": {name: verdicts[name] for name in get_args(VerdictName)},
        "claims": {name: claims[name] for name in get_args(ClaimOutcome)},
        "items": items,
    }


def _item(item: Item, result: ItemResult) -> dict[str, Any]:
    return {
        "item": item.name,
        "title": item.title,
        "source": item.source,
        "shortened": list(result.shortened),
        "skipped": list(result.skipped),
        "failed": list(result.failed),
        "splits": dict(result.splits),
        "cells": [_cell(cell, item, result) for cell in result.cells],
        "claims": [
            {
                "says": claim.claim.says,
                "finding": claim.claim.finding,
                "outcome": claim.outcome,
                "where": claim.where,
                "checks": [asdict(check) for check in claim.checks],
            }
            for claim in evaluate_claims(item, result)
        ],
    }


def _cell(cell: CellResult, item: Item, result: ItemResult) -> dict[str, Any]:
    ours, verdict = measured(cell), judge_cell(cell, item)
    paired = paired_with(cell, baseline_of(cell, result))
    return {
        "panel": cell.panel,
        "row": cell.row,
        "column": cell.column,
        "mean": None if ours is None else ours.mean,
        "sd": None if ours is None else ours.sd,
        "paper": None if cell.paper is None else cell.paper.model_dump(),
        "difference": None if verdict is None else verdict.difference,
        "verdict": None if verdict is None else verdict.name,
        "reasons": [] if verdict is None else list(verdict.reasons),
        "compared_with": cell.compare_with,
        "paired_difference": None if paired is None else paired.mean,
        "paired_se": None if paired is None else paired.standard_error,
        "paired_interval": None if paired is None else paired.interval(),
        "chosen": dict(cell.chosen),
        "test_accuracy": list(cell.test_accuracy),
    }
