"""Everything the report of a reproduction says, before it becomes a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from crossgcn.experiments.statistics import Summary
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.figures import draw_item
from crossgcn.reproduction.item_names import ITEM_NAMES
from crossgcn.reproduction.items import Cell, Item, PaperValue
from crossgcn.reproduction.verdicts import (
    ClaimOutcome,
    ClaimResult,
    Verdict,
    baseline_of,
    evaluate_claims,
    judge_cell,
    measured,
    paired_with,
)

_DASH = "—"


@dataclass(frozen=True)
class Line:
    """One number of the paper and ours.

    Attributes:
        cells: Text of each column, the name first.
        verdict: None where there is nothing to compare.
        marks: Numbers of the notes that belong to it.
        run: Whether we have a number.
        interval: 95 % interval of the paired difference, where there is one.
    """

    cells: tuple[str, ...]
    verdict: Verdict | None
    marks: tuple[int, ...]
    run: bool
    interval: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under one heading."""

    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class NumberTable:
    """All numbers of an item.

    Attributes:
        headers: Of the columns; the verdict comes last and is not among them.
        groups: The lines.
        notes: Reasons, counted from 1 by the marks of the lines.
    """

    headers: tuple[str, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def judged(self) -> bool:
        """Whether there is a verdict at all."""
        return any(line.verdict is not None for group in self.groups for line in group.lines)

    @property
    def paired_column(self) -> int | None:
        """Where the intervals belong."""
        found = (i for i, header in enumerate(self.headers) if header.startswith("paired"))
        return next(found, None)


def number_table(item: Item, result: ItemResult) -> NumberTable:
    """Set the paper's numbers and ours side by side.

    A table goes column by column, so that models stand under each other; a figure
    line by line. A column of the table that would be empty is left out, and so is
    a cell for which there is neither a number of the paper nor one of ours.

    Args:
        item: What the paper shows.
        result: What was measured.
    """
    by_column = item.kind == "table" or len(item.columns) == 1
    cells = [(cell, result.find(cell.panel, cell.row, cell.column)) for cell in item.cells()]
    shown = [(cell, ours) for cell, ours in cells if cell.paper is not None or ours is not None]
    if by_column:
        columns = [column.label for column in item.columns]
        panels = [panel.label for panel in item.panels]
        shown.sort(key=lambda both: (panels.index(both[0].panel), columns.index(both[0].column)))
    notes: list[str] = []
    drafts = []
    for cell, ours in shown:
        place = (cell.panel, cell.column if by_column else cell.row)
        name = cell.row if by_column else cell.column
        heading = " · ".join(part for part in place if part)
        drafts.append((heading, _line(name, cell, ours, item, result, notes)))
    headers = _headers(item, shown, by_column)
    kept = [
        index
        for index in range(len(headers))
        if index in (0, 2) or any(line.cells[index] != _DASH for _, line in drafts)
    ]
    groups = tuple(
        Group(heading, tuple(_keep(line, kept) for _, line in group))
        for heading, group in groupby(drafts, key=lambda draft: draft[0])
    )
    return NumberTable(tuple(headers[index] for index in kept), groups, tuple(notes))


def spread(value: Summary | PaperValue | None, item: Item) -> str:
    """A number with its deviation, as many digits as its kind has."""
    text = mean_text(value, item)
    accuracy = item.kind not in ("statistics", "timing")
    return f"{text} ± {value.sd:.1f}" if accuracy and value and value.sd is not None else text


def mean_text(value: Summary | PaperValue | None, item: Item) -> str:
    """A number without its deviation."""
    if value is None:
        return _DASH
    if item.kind == "statistics":
        return f"{value.mean:,.0f}" if value.mean == round(value.mean) else f"{value.mean:.3g}"
    return f"{value.mean:.3g}" if item.kind == "timing" else f"{value.mean:.1f}"


def _headers(
    item: Item, shown: Sequence[tuple[Cell, CellResult | None]], by_column: bool
) -> tuple[str, ...]:
    other = " or ".join(sorted({cell.compare_with for cell, _ in shown if cell.compare_with}))
    main = _main_choice(ours for _, ours in shown if ours is not None)
    unit = {"statistics": "", "timing": ", s"}.get(item.kind, ", %")
    return (
        "" if by_column else item.x_label,
        f"paper{unit}",
        f"ours{unit}",
        "difference",
        f"times {other}" if item.kind == "timing" else f"paired to {other}",
        f"chosen {_readable(main)}",
    )


def _line(
    name: str,
    cell: Cell,
    ours: CellResult | None,
    item: Item,
    result: ItemResult,
    notes: list[str],
) -> Line:
    if ours is None:
        return Line(
            (name, spread(cell.paper, item), "not run", _DASH, _DASH, _DASH), None, (), False
        )
    verdict = judge_cell(ours, item)
    own = (
        [reason for reason in verdict.reasons if reason != item.not_reproducible] if verdict else []
    )
    notes.extend(reason for reason in dict.fromkeys(own) if reason not in notes)
    paired, interval = _paired(ours, result)
    if item.kind == "timing":
        paired = _times(ours, result)
    cells = (
        name,
        spread(cell.paper, item),
        spread(measured(ours), item),
        _DASH if verdict is None else _difference(verdict.difference, item),
        paired,
        _chosen(ours, result),
    )
    return Line(cells, verdict, tuple(notes.index(reason) + 1 for reason in own), True, interval)


def _difference(difference: float, item: Item) -> str:
    if item.kind == "statistics" and difference == round(difference):
        return f"{difference:+,.0f}" if difference else "0"
    return f"{difference:+z.{'3g' if item.kind in ('statistics', 'timing') else '1f'}}"


def _paired(cell: CellResult, result: ItemResult) -> tuple[str, str]:
    """Mean ± standard error of the difference split by split, and its 95 % interval."""
    paired = paired_with(cell, baseline_of(cell, result))
    if paired is None:
        return _DASH, ""
    interval = paired.interval()
    if paired.standard_error is None or interval is None:
        return f"{paired.mean:+z.2f}", ""
    low, high = interval
    text = f"{paired.mean:+z.2f} ± {paired.standard_error:.2f}"
    return text, f"{low:+z.2f} to {high:+z.2f}"


def _times(cell: CellResult, result: ItemResult) -> str:
    """Seconds over the baseline's, and the paper's ratio in brackets."""
    other = baseline_of(cell, result)
    ours = measured(cell)
    theirs = None if other is None else measured(other)
    if ours is None or other is None or theirs is None:
        return _DASH
    ratio = f"{ours.mean / theirs.mean:.2f}"
    if cell.paper is None or other.paper is None:
        return ratio
    return f"{ratio} (paper {cell.paper.mean / other.paper.mean:.2f})"


def _chosen(cell: CellResult, result: ItemResult) -> str:
    """What validation chose, without the name of what the column is about."""
    main = _main_choice(result.cells)
    parts = [
        str(value) if key == main else f"{_readable(key)} {value}"
        for key, value in cell.chosen.items()
    ]
    return ", ".join(parts) or _DASH


def _main_choice(cells: Iterable[CellResult]) -> str:
    counted = Counter(key for cell in cells for key in cell.chosen)
    return counted.most_common(1)[0][0] if counted else ""


def _readable(setting: str) -> str:
    return {"hidden_channels": "size", "laplacian_weight": "Laplacian"}.get(
        setting, setting.replace("_", " ")
    )


def _keep(line: Line, kept: Iterable[int]) -> Line:
    return replace(line, cells=tuple(line.cells[index] for index in kept))


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
