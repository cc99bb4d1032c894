"""The report of ``crossgcn reproduce``: an HTML page, the same in Markdown, and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, get_args

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from crossgcn.data.files import replacing
from crossgcn.reports.run_report.page import page_parts
from crossgcn.reports.summaries import paired
from crossgcn.reproduction import ITEM_NAMES
from crossgcn.reproduction.figures import draw_item, make_chart
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.numbers import number_table
from crossgcn.reproduction.plan import CellResult, ItemResult
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


def write_report(folder: Path, pairs: Pairs, *, html: bool = True) -> None:
    """Write ``report.html``, unless told otherwise, and ``report.md`` with its figures.

    Each file is replaced as a whole, so the report can be read at any time.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    view = ReportView(pairs)
    figures = {}
    for item, result in pairs:
        drawn = draw_item(item, result)
        if drawn is not None:
            figures[item.name] = f"figures/{item.name}.svg"
            _write(folder / figures[item.name], drawn)
    _write(folder / "report.md", _markdown(view, figures))
    if html:
        _write(folder / "report.html", _html(view))


def render_html(pairs: Pairs) -> str:
    """Return the report as a single page without external files."""
    return _html(ReportView(pairs))


def render_markdown(pairs: Pairs, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report in Markdown; ``figures`` are paths of drawings, by item."""
    return _markdown(ReportView(pairs), figures or {})


class Section:
    """One item of the report; ``counts`` are those of :data:`COUNTED` and ``not run``."""

    def __init__(self, item: Item, result: ItemResult) -> None:
        self.item = item
        self.result = result
        self.table = number_table(item, result)
        self.claims = evaluate_claims(item, result)
        self.chart = make_chart(item, result)
        lines = [line for group in self.table.groups for line in group.lines]
        self.counts = Counter(COUNTED[line.verdict.name] for line in lines if line.verdict)
        self.counts["not run"] = sum(not line.run for line in lines)
        timings = [cell.timing for cell in result.cells if cell.timing is not None]
        devices = (f"{timing['device_name']} ({timing['device']})" for timing in timings)
        self.devices = list(dict.fromkeys(devices))


class ReportView:
    """The content of the report: everything judged and counted.

    Attributes:
        environments: Each environment in words, with the items that were run in it.
        splits: Datasets by the kind of their training sets.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.sections = [Section(item, result) for item, result in pairs]
        self.counts = sum((section.counts for section in self.sections), Counter[str]())
        self.environments: dict[str, list[str]] = {}
        self.splits: dict[str, list[str]] = {}
        for item, result in pairs:
            if result.environment:
                text = _describe(result.environment)
                self.environments.setdefault(text, []).append(item.name)
            for dataset, kind in result.splits.items():
                if dataset not in self.splits.setdefault(kind, []):
                    self.splits[kind].append(dataset)
        trained = {
            json.dumps({**cell.settings, **chosen}, sort_keys=True): len(cell.test_accuracy)
            for _, result in pairs
            for cell in result.cells
            for chosen in [candidate.settings for candidate in cell.candidates] or [{}]
        }
        self.runs = sum(trained.values())

    @property
    def notices(self) -> list[str]:
        """What is missing from a full report, a line each."""
        missing = ITEM_NAMES.keys() - {section.item.name for section in self.sections}
        return [
            f"{what}: {'; '.join(names)}."
            for what, names in (
                ("Shortened, so that their numbers are not final", self._titles("shortened")),
                ("Without all datasets or methods", self._titles("skipped")),
                ("With runs that failed", self._titles("failed")),
                ("Not in this report", [w for name, w in ITEM_NAMES.items() if name in missing]),
            )
            if names
        ]

    def _titles(self, left_out: str) -> list[str]:
        return [each.item.title for each in self.sections if getattr(each.result, left_out)]

    def claims(self, outcome: ClaimOutcome) -> list[tuple[Section, ClaimResult]]:
        """Return all claims with an outcome, and their sections."""
        return [
            (section, claim)
            for section in self.sections
            for claim in section.claims
            if claim.outcome == outcome
        ]


def _describe(environment: Mapping[str, Any]) -> str:
    """Return names and versions in one line."""
    parts = []
    for name, value in environment.items():
        if name == "versions" and isinstance(value, Mapping):
            parts += [f"{package} {_told(version)}" for package, version in value.items()]
        elif value is not None:
            text = _told(value)
            if name == "commit":
                text = re.sub("([0-9a-f]{10})[0-9a-f]+", r"\1", text)
            parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def _told(value: Any) -> str:
    """Return one value, or all that were found, as text."""
    if isinstance(value, list | tuple):
        return " and ".join(dict.fromkeys(_told(each) for each in value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _html(view: ReportView) -> str:
    charts = {s.item.name: s.chart.to_json() for s in view.sections if s.chart is not None}
    return _render("report.html.j2", view, charts) + "\n"


def _markdown(view: ReportView, figures: Mapping[str, str]) -> str:
    page = _render("report.md.j2", view, figures, _escape_markdown)
    return re.sub("\n{3,}", "\n\n", page).strip() + "\n"


def _render(
    template: str,
    view: ReportView,
    figures: Mapping[str, Any],
    escape: Callable[[Any], str] | None = None,
) -> str:
    """Fill in a template; escape every value for HTML, or by ``escape``."""
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("crossgcn.reproduction"), PackageLoader("crossgcn.reports")]
        ),
        autoescape=escape is None,
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        title=_TITLE,
        view=view,
        outcomes=OUTCOMES,
        counted=COUNTED,
        figures=figures,
        page={} if escape else page_parts({"charts": figures}),
    )


def _escape_markdown(value: Any) -> str:
    """Escape a value, also within a table."""
    return " ".join(re.sub(r"[\\|*_<`\[]", r"\\\g<0>", str(value)).split())


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


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
        **result.model_dump(include={"shortened", "skipped", "failed", "splits"}),
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
    return {
        **cell.model_dump(include={"panel", "row", "column", "paper", "chosen", "test_accuracy"}),
        "mean": ours and ours.mean,
        "sd": ours and ours.sd,
        "difference": verdict and verdict.difference,
        "verdict": verdict and verdict.name,
        "reasons": verdict.reasons if verdict else (),
        "compared_with": cell.compare_with,
        **paired(paired_with(cell, baseline_of(cell, result))),
    }
