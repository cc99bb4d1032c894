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

_DASH = "—"


@dataclass(frozen=True)
class NumberLine:
    """One number of the paper and ours.

    Attributes:
        cells: Text of each column, the name first.
        marks: Numbers of its notes.
        run: Whether we have a number.
        interval: 95 % interval of the paired difference, if there is one.
    """

    cells: tuple[str, ...]
    verdict: Verdict | None = None
    marks: tuple[int, ...] = ()
    run: bool = True
    interval: str = ""


class NumberTable:
    """All numbers of an item, the paper's and ours side by side.

    Tables are grouped by column, to set models below each other, and figures by row. Empty columns
    are left out, and so are cells with neither a number of the paper nor one of ours.

    Attributes:
        headers: Headers of the cells; a column for the verdict follows.
        groups: Lines under one heading each.
        notes: Reasons, numbered from 1 by the marks of the lines.
        judged: Whether any line has a verdict.
    """

    def __init__(self, result: Result) -> None:
        item = result.item
        by_column = item.kind == "table" or len(item.columns) == 1
        places = [
            place
            for place, cell in item.cells.items()
            if cell.paper is not None or place in result.measured
        ]
        if by_column:
            columns = [column.label for column in item.columns]
            panels = [panel.label for panel in item.panels]
            places.sort(key=lambda p: (panels.index(p.panel), columns.index(p.column)))
        counted = Counter(key for each in result.measured.values() for key in each.chosen)
        self._main = counted.most_common(1)[0][0] if counted else ""
        self.notes: list[str] = []
        lines = []
        for place in places:
            heading = (place.panel, place.column if by_column else place.row)
            name = place.row if by_column else place.column
            words = " · ".join(part for part in heading if part)
            lines.append((words, self._line(name, place, result)))
        others = sorted({row.compare_with for row in item.rows if row.compare_with})
        other = " or ".join(others) if len(others) <= 2 else "its baseline"
        unit = {"statistics": "", "timing": ", s"}.get(item.kind, ", %")
        headers = (
            "" if by_column else item.x_label,
            f"paper{unit}",
            f"ours{unit}",
            "difference",
            f"times {other}" if item.kind == "timing" else f"paired to {other}",
            f"chosen {_readable(self._main)}",
        )
        kept = [
            i for i in range(6) if i in (0, 2) or any(line.cells[i] != _DASH for _, line in lines)
        ]
        self.headers = tuple(headers[i] for i in kept)
        self.paired_column = kept.index(4) if 4 in kept else None
        self.judged = any(line.verdict is not None for _, line in lines)
        self.groups = [
            (heading, [_keep(line, kept) for _, line in group])
            for heading, group in groupby(lines, key=lambda line: line[0])
        ]
        self.counts = Counter(COUNTED[line.verdict.name] for _, line in lines if line.verdict)
        self.counts["not run"] = sum(not line.run for _, line in lines)

    def _line(self, name: str, place: Place, result: Result) -> NumberLine:
        item, cell = result.item, result.item.cells[place]
        measured, verdict = result.measured.get(place), judge(result, place)
        paper = _spread(cell.paper, item)
        if measured is None:
            return NumberLine((name, paper, "not run", _DASH, _DASH, _DASH), run=False)
        reasons = () if verdict is None else verdict.reasons
        own = [reason for reason in reasons if reason != item.not_reproducible]
        self.notes += [reason for reason in dict.fromkeys(own) if reason not in self.notes]
        other = None if cell.baseline is None else result.measured.get(cell.baseline)
        difference, interval = _paired(measured, other)
        if item.kind == "timing" and cell.baseline is not None:
            difference = _times(measured, other, cell.paper, item.cells[cell.baseline].paper)
        chosen = (
            str(value) if key == self._main else f"{_readable(key)} {value}"
            for key, value in measured.chosen.items()
        )
        cells = (
            name,
            paper,
            _spread(number_of(measured), item),
            _DASH if verdict is None else _signed(verdict.difference, item),
            difference,
            ", ".join(chosen) or _DASH,
        )
        marks = tuple(self.notes.index(reason) + 1 for reason in own)
        return NumberLine(cells, verdict, marks, True, interval)


def _keep(line: NumberLine, columns: Sequence[int]) -> NumberLine:
    cells = tuple(line.cells[i] for i in columns)
    return NumberLine(cells, line.verdict, line.marks, line.run, line.interval)


def _spread(value: Number | None, item: Item) -> str:
    """Format a number; an accuracy with its deviation."""
    if value is None:
        return _DASH
    if item.trains:
        return f"{value.mean:.1f}" if value.sd is None else f"{value.mean:.1f} ± {value.sd:.1f}"
    whole = item.kind == "statistics" and value.mean == round(value.mean)
    return f"{value.mean:,.0f}" if whole else f"{value.mean:.3g}"


def _signed(difference: float, item: Item) -> str:
    if item.kind == "statistics" and difference == round(difference):
        return f"{difference:+,.0f}" if difference else "0"
    return f"{difference:+z.{'1f' if item.trains else '3g'}}"


def _paired(measured: Measured, other: Measured | None) -> tuple[str, str]:
    """Format the paired difference with its standard error, and its 95 % interval."""
    found = paired(measured, other)
    if found is None:
        return _DASH, ""
    if found.interval is None:
        return f"{found.mean:+z.2f}", ""
    low, high = found.interval
    return f"{found.mean:+z.2f} ± {found.error:.2f}", f"{low:+z.2f} to {high:+z.2f}"


def _times(
    measured: Measured, other: Measured | None, paper: Number | None, others: Number | None
) -> str:
    """Format the ratio of seconds to the baseline's, and the paper's ratio in brackets."""
    ours, theirs = number_of(measured), number_of(other)
    if ours is None or theirs is None:
        return _DASH
    ratio = f"{ours.mean / theirs.mean:.2f}"
    return f"{ratio} (paper {paper.mean / others.mean:.2f})" if paper and others else ratio


def _readable(setting: str) -> str:
    names = {"hidden_channels": "size", "laplacian_weight": "Laplacian"}
    return names.get(setting, setting.replace("_", " "))


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
