"""The report: the paper's numbers beside ours, and which of its claims hold."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from paper.cells import Item, Measured, Number, Place, Result
from paper.figures import draw_item
from paper.items import ITEMS
from paper.verdicts import (
    ClaimOutcome,
    JudgedClaim,
    Verdict,
    evaluate_claims,
    judge,
    number_of,
    paired,
)

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


@dataclass(frozen=True)
class NumberLine:
    """One number of the paper and ours.

    Attributes:
        cells: Text by the name of its column; empty ones are left out.
        marks: Numbers of its notes.
    """

    heading: str
    cells: dict[str, str]
    verdict: Verdict | None
    marks: tuple[int, ...]


class NumberTable:
    """All numbers of an item, the paper's and ours side by side.

    Tables are grouped by column, to set models below each other, and figures by row. Empty columns
    are left out, and so are cells with neither a number of the paper nor one of ours.

    Attributes:
        headers: Header of each column of cells, the name first; the verdict follows.
        groups: Lines under one heading each.
        notes: Reasons, numbered from 1 by the marks of the lines.
        judged: Whether any line has a verdict.
    """

    def __init__(self, result: Result) -> None:
        item = result.item
        by_column = item.kind == "table" or len(item.columns) == 1
        places = [p for p, cell in item.cells.items() if cell.paper or p in result.measured]
        if by_column:
            columns = [column.label for column in item.columns]
            panels = [panel.label for panel in item.panels]
            places.sort(key=lambda p: (panels.index(p.panel), columns.index(p.column)))
        self.notes: list[str] = []
        lines = [self._line(place, by_column, result) for place in places]
        used = {name for line in lines for name in line.cells}
        others = sorted({row.compare_with for row in item.rows if row.compare_with})
        other = " or ".join(others) if len(others) <= 2 else "its baseline"
        unit = {"statistics": "", "timing": ", s"}.get(item.kind, ", %")
        headers = {
            "name": "" if by_column else item.x_label,
            "paper": f"paper{unit}",
            "ours": f"ours{unit}",
            "paired": f"paired to {other}",
            "times": f"times {other}",
            "chosen": "chosen",
        }
        self.headers = {name: header for name, header in headers.items() if name in used}
        self.judged = any(line.verdict is not None for line in lines)
        self.groups = [
            (heading, list(group)) for heading, group in groupby(lines, key=lambda x: x.heading)
        ]
        self.counts = Counter(COUNTED[line.verdict.name] for line in lines if line.verdict)
        self.counts["not run"] = len([place for place in places if place not in result.measured])

    def _line(self, place: Place, by_column: bool, result: Result) -> NumberLine:
        item, cell = result.item, result.item.cells[place]
        measured, verdict = result.measured.get(place), judge(result, place)
        heading = (place.panel, place.column if by_column else place.row)
        reasons = () if verdict is None else verdict.reasons
        own = [reason for reason in reasons if reason != item.not_reproducible]
        self.notes += [reason for reason in dict.fromkeys(own) if reason not in self.notes]
        cells = {
            "name": place.row if by_column else place.column,
            "paper": _spread(cell.paper, item),
            "ours": _spread(number_of(measured), item) or "not run",
        }
        if measured is not None:
            other = None if cell.baseline is None else result.measured.get(cell.baseline)
            cells["paired"] = _paired(measured, other)
            if item.kind == "timing" and cell.baseline is not None:
                printed = cell.paper, item.cells[cell.baseline].paper
                cells["times"] = _ratio(number_of(measured), number_of(other))
                cells["times"] += f" (paper {_ratio(*printed)})" if all(printed) else ""
            cells["chosen"] = ", ".join(
                f"{_READABLE.get(key, key)} {value}" for key, value in measured.chosen.items()
            )
        return NumberLine(
            " · ".join(part for part in heading if part),
            {name: text for name, text in cells.items() if text},
            verdict,
            tuple(self.notes.index(reason) + 1 for reason in own),
        )


_READABLE = {"hidden_channels": "size", "laplacian_weight": "Laplacian"}


def _spread(value: Number | None, item: Item) -> str:
    """Format a number; an accuracy with its deviation."""
    if value is None:
        return ""
    if item.trains:
        return f"{value.mean:.1f}" if value.sd is None else f"{value.mean:.1f} ± {value.sd:.1f}"
    whole = item.kind == "statistics" and value.mean == round(value.mean)
    return f"{value.mean:,.0f}" if whole else f"{value.mean:.3g}"


def _paired(measured: Measured, other: Measured | None) -> str:
    """Format the paired difference with its standard error, and its 95 % interval."""
    found = paired(measured, other)
    if found is None or found.interval is None:
        return "" if found is None else f"{found.mean:+z.2f}"
    low, high = found.interval
    return f"{found.mean:+z.2f} ± {found.error:.2f} ({low:+z.2f} to {high:+z.2f})"


def _ratio(ours: Number | None, theirs: Number | None) -> str:
    return f"{ours.mean / theirs.mean:.2f}" if ours and theirs else ""


class Section:
    """One item of the report; ``counts`` are those of :data:`COUNTED` and ``not run``."""

    def __init__(self, result: Result) -> None:
        self.item, self.result = result.item, result
        self.table = NumberTable(result)
        self.claims = evaluate_claims(result)
        self.counts = self.table.counts
        self.figure = draw_item(result)
        timings = [each.timing for each in result.measured.values() if each.timing is not None]
        devices = (f"{timing['device_name']} ({timing['device']})" for timing in timings)
        self.devices = list(dict.fromkeys(devices))

    @property
    def figure_uri(self) -> str:
        """The figure as the address of an image."""
        encoded = base64.b64encode((self.figure or "").encode()).decode()
        return f"data:image/svg+xml;base64,{encoded}"

    @property
    def left_out(self) -> Iterator[tuple[str, str]]:
        """What the run lacks, a word and a line each."""
        for word in ("shortened", "skipped"):
            for line in getattr(self.result, word):
                yield word.capitalize(), line


class Report:
    """The content of the report: everything judged and counted.

    Attributes:
        environments: Each environment in words, with the items that were run in it.
        splits: Datasets by the kind of their training sets.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.sections = [Section(result) for result in results]
        self.counts = sum((section.counts for section in self.sections), Counter[str]())
        self.environments: dict[str, list[str]] = {}
        self.splits: dict[str, list[str]] = {}
        for result in results:
            if result.environment:
                text = _describe(result.environment)
                self.environments.setdefault(text, []).append(result.item.name)
            for dataset, kind in result.splits.items():
                if dataset not in self.splits.setdefault(kind, []):
                    self.splits[kind].append(dataset)
        trained = {
            json.dumps({**each.settings, **chosen}, sort_keys=True): len(each.test_accuracy)
            for result in results
            for each in result.measured.values()
            for chosen in [one["settings"] for one in each.candidates] or [{}]
        }
        self.num_runs = sum(trained.values())

    @property
    def notices(self) -> list[str]:
        """What is missing from a full report, a line each."""
        names = {section.item.name for section in self.sections}
        missing = [item.title for name, item in ITEMS.items() if name not in names]
        return [
            f"{what}: {'; '.join(titles)}."
            for what, titles in (
                ("Shortened, so that their numbers are not final", self._titles("shortened")),
                ("Without all datasets or methods", self._titles("skipped")),
                ("Not in this report", missing),
            )
            if titles
        ]

    def _titles(self, left_out: str) -> list[str]:
        return [each.item.title for each in self.sections if getattr(each.result, left_out)]

    def claims(self, outcome: ClaimOutcome) -> list[tuple[Section, JudgedClaim]]:
        """Return all claims with an outcome, and their sections."""
        return [
            (section, claim)
            for section in self.sections
            for claim in section.claims
            if claim.outcome == outcome
        ]

    def write(self, folder: Path) -> None:
        """Write ``report.html``, one file, and ``report.md`` with its figures."""
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for section in self.sections:
            if section.figure is not None:
                path = folder / "figures" / f"{section.item.name}.svg"
                path.write_text(section.figure, encoding="utf-8")
        (folder / "report.md").write_text(self.markdown(), encoding="utf-8")
        (folder / "report.html").write_text(self.html(), encoding="utf-8")

    def html(self) -> str:
        """Return the report as a single page without external files."""
        return self._render("report.html.j2") + "\n"

    def markdown(self) -> str:
        """Return the report in Markdown, with figures in a folder beside it."""
        page = self._render("report.md.j2")
        return re.sub("\n{3,}", "\n\n", page).strip() + "\n"

    def _render(self, template: str) -> str:
        is_html = template.endswith(".html.j2")
        environment = Environment(
            loader=PackageLoader("paper"),
            autoescape=is_html,
            finalize=None if is_html else _escape_markdown,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        names = {"report": self, "outcomes": OUTCOMES, "counted": COUNTED}
        return environment.get_template(template).render(title="Cross-GCN, reproduced", **names)


def _describe(environment: Mapping[str, Any]) -> str:
    """Return names and versions in one line."""
    parts = []
    for name, value in environment.items():
        if name == "versions" and isinstance(value, Mapping):
            parts += [f"{package} {_told(each)}" for package, each in value.items()]
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


def _escape_markdown(value: Any) -> str:
    """Escape a value, also within a table."""
    return " ".join(re.sub(r"[\\|*_<`\[]", r"\\\g<0>", str(value)).split())
