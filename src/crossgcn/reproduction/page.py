"""The report of ``crossgcn reproduce``: one page, and the same in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crossgcn.data.files import replacing
from crossgcn.reports.format import markdown_table
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.page_view import (
    COUNTED,
    OUTCOMES,
    Line,
    NumberTable,
    ReportView,
    Section,
    view_report,
)
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


def markdown(view: ReportView, title: str, figures: Mapping[str, str] | None = None) -> str:
    """The whole report.

    Args:
        view: What it says.
        title: Its heading.
        figures: Files to show, by item.
    """
    blocks = [f"# {_escape(title)}", *_summary(view)]
    for section in view.sections:
        blocks += _section(section, (figures or {}).get(section.item.name))
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
    lines += [f"- {_escape(text)} ({', '.join(names)})" for text, names in view.environments]
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


def _cells(line: Line, table: NumberTable) -> Iterator[str]:
    for index, cell in enumerate(line.cells):
        interval = line.interval if index == table.paired_column else ""
        yield _escape(f"{cell} ({interval})" if interval else cell)


def _verdict(line: Line) -> str:
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
    """Text that Markdown shows as it is, within a table too."""
    for character in ("\\", "|", "*", "_", "<", "`", "["):
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


Pairs = Sequence[tuple[Item, ItemResult]]


def summarise_reproduction(pairs: Pairs) -> dict[str, Any]:
    """Every number with its verdict, every claim with its outcome, and how many of each.

    Args:
        pairs: Items and what came out of them.
    """
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


TITLE = "Cross-GCN, reproduced"


def render_html(pairs: Pairs, *, title: str = TITLE) -> str:
    """The report as one page that needs nothing else: no script, no request.

    Args:
        pairs: Items and what came out of them, in the order of the report.
        title: Of the page.
    """
    return _html(view_report(pairs), title)


def render_markdown(
    pairs: Pairs, *, title: str = TITLE, figures: Mapping[str, str] | None = None
) -> str:
    """The same in Markdown, figures as tables.

    Args:
        pairs: Items and what came out of them, in the order of the report.
        title: Its heading.
        figures: Drawings to show as well, by item, each as a path.
    """
    return markdown(view_report(pairs, draw=False), title, figures)


def write_report(folder: Path, pairs: Pairs, *, title: str = TITLE) -> None:
    """Write ``report.html``, and ``report.md`` with its figures beside it.

    Each file is replaced whole or not at all, so that a report can be read while
    the next one is being written.

    Args:
        folder: Where to; made when it is not there.
        pairs: Items and what came out of them, in the order of the report.
        title: Of the page.
    """
    view = view_report(pairs)
    _write(folder / "report.md", markdown(view, title, _write_figures(folder, view)))
    _write(folder / "report.html", _html(view, title))


def write_markdown(folder: Path, pairs: Pairs, *, title: str = TITLE) -> None:
    """Write ``report.md`` with its figures beside it, as :func:`write_report` does, alone."""
    view = view_report(pairs)
    _write(folder / "report.md", markdown(view, title, _write_figures(folder, view)))


def _write_figures(folder: Path, view: ReportView) -> dict[str, str]:
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = {}
    for section in view.sections:
        if section.figure is not None:
            drawn[section.item.name] = f"figures/{section.item.name}.svg"
            _write(folder / drawn[section.item.name], section.figure + "\n")
    return drawn


def _html(view: ReportView, title: str) -> str:
    environment = Environment(
        loader=PackageLoader("crossgcn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=title,
        view=view,
        outcomes=OUTCOMES,
        counted=COUNTED,
        figures={s.item.name: Markup(s.figure) for s in view.sections if s.figure is not None},
    )
    return page + "\n"


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
