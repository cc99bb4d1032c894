"""The report of a reproduction as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crossgcn.evaluation.claims import ClaimResult
from crossgcn.reports.item_view import Line, NumberTable
from crossgcn.reports.markdown import markdown_table
from crossgcn.reports.report_view import OUTCOMES, ReportView, Section

__all__ = ["markdown"]


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
