"""The result of ``explain`` at the terminal: all terms, one term, or one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import exp
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from crossgcn.explanation.terms import CROSS, SCOPES, score_name
from crossgcn.reports.format import Summary, count, with_error
from crossgcn.reports.terminal.tables import bar, make_table

_TRACK = 20
_NOTHING = 1e-3
_SCOPE_NAMES = {"own": "own", "neighbourhood": "neighbourhood", "both": "own × neighbourhood"}
_LEGEND = (
    "importance: standard deviation of the term over nodes, in the unit of the score (±: standard "
    "error). inside: mean contribution of the nodes that have these values; of one number those "
    "of its lowest and highest eighth."
)
_LEGEND_OF_NEIGHBOURS = (
    " Of neighbours, inside is the quarter of nodes with most neighbours of these values. "
    "position in the graph: what a node with average columns would get at this place."
)
_LEGEND_OF_MARGINS = " margin: the score of the class minus the mean score of the others."


def terms_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    records, unit = summary["terms"], summary["unit"]
    if summary["warning"]:
        yield Text(f"{summary['warning']} Its terms say nothing about the data.", style="yellow")
    if "reason" in summary:
        yield Text(f"Products of features are listed, because {summary['reason']}.", style="dim")
    largest = max((row["importance"] for row in records), default=0.0)
    if largest < _NOTHING * max(1.0, *map(abs, summary.get("average", {}).values()), 0.0):
        yield Text(
            f"All terms are nearly zero (importance below {largest:.1g}): the model gives every "
            "node about the same score.",
            style="yellow",
        )
        return
    for name in dict.fromkeys(row["class"] for row in records):
        yield Text(f"\n{score_name(name, unit)}", style="bold")
        for head, is_cross in (("column", False), ("cross", True)):
            rows = [
                _term_cells(row, largest)
                for row in records
                if row["class"] == name and (len(row["columns"]) > 1) == is_cross
            ]
            if rows:
                yield make_table(rows, [head], ["importance"], ["", "inside"])
        yield from map(Text, _sums(summary, name))
    legend = _LEGEND + _LEGEND_OF_NEIGHBOURS * summary.get("of_neighbours", False)
    yield Text(legend + _LEGEND_OF_MARGINS * (unit == "margin"), style="dim")


def term_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield one term: what it adds for every combination of values."""
    (term,) = summary["terms"]
    yield Text(CROSS.join(term["columns"]), style="bold")
    importance = with_error(f"{term['importance']:#.3g}", term["error"])
    yield Text(f"{score_name(term['class'], summary['unit'])}: importance {importance}")
    largest = max((abs(cell["contribution"]) for cell in term["cells"]), default=1.0) or 1.0
    rows = [
        [
            *(*cell["names"], f"{cell['nodes']:,}"),
            with_error(f"{cell['contribution']:+.3g}", cell["error"]),
            bar(cell["contribution"], largest),
        ]
        for cell in term["cells"]
    ]
    yield make_table(rows, term["columns"], ["nodes", "contribution"], [""])


def node_screen(summary: Summary, top: int) -> Iterator[RenderableType]:
    """Yield one score of one node: from the average over nodes to this node."""
    headline = f"node {summary['name']}"
    if summary["predicted"] is not None:
        headline += f": predicted {summary['predicted']}"
    yield Text(headline, style="bold")
    score = f"{score_name(summary['class'], summary['unit'])}: {summary['score']:+.4g}"
    if summary["unit"] == "log-odds" and " rather than " not in summary["class"]:
        score += f", probability {1 / (1 + exp(-summary['score'])):.0%}"
    yield Text(score)
    yield _waterfall(summary, top)
    neighbours = summary["neighbours"]
    if neighbours:
        largest = abs(neighbours[0]["contribution"]) or 1.0
        rows = [
            [each["node"], f"{each['contribution']:+.4g}", bar(each["contribution"], largest)]
            for each in neighbours[:top]
        ]
        yield make_table(rows, ["neighbour"], ["contribution"], [""])
        others = len(neighbours) - top
        more = f"{count(others, 'more neighbour')} not shown. " if others > 0 else ""
        yield Text(more + summary["meaning"], style="dim")
    if summary["predicted"] is not None:
        yield from _changes(summary["changes"])


def _sums(summary: Summary, name: str) -> Iterator[str]:
    """Yield what all terms of a score are worth together, and the crosses that are not listed."""
    if "average" not in summary:
        return
    sums = ", of ".join(
        f"{'one column' if size == 1 else f'{size} columns'} {value:#.3g}"
        for size, value in summary["by_number_of_columns"][name].items()
    )
    yield f"importance of all terms together: of {sums}"
    if name not in summary["unlisted_importance"]:
        return
    counts = [f"{number:,} of {size} columns" for size, number in summary["unlisted"].items()]
    yield (
        f"not listed one by one, the weakest or too many to compare: {' and '.join(counts)}, "
        f"importance together {summary['unlisted_importance'][name]:#.3g}"
    )


def _term_cells(row: Mapping[str, Any], largest: float) -> list[str | Text]:
    importance = with_error(f"{row['importance']:#.3g}", row["error"])
    return [CROSS.join(row["columns"]), importance, bar(row["importance"], largest), _inside(row)]


def _inside(row: Mapping[str, Any]) -> str:
    """Return the largest cells; of one number its lowest and highest part."""
    cells = row.get("cells", [])
    if "slope" in row and not cells:
        return f"slope {row['slope']:+.3g}"
    if "slope" in row and len(row["columns"]) == 1:
        known = [cell for cell in cells if not cell["names"][0].endswith(" missing")] or cells
        low, high = known[0]["contribution"], known[-1]["contribution"]
        return f"low {low:+.3g}, high {high:+.3g}"
    return "; ".join(
        f"{' & '.join(_short(name, row['columns']) for name in cell['names'])} "
        f"{cell['contribution']:+.3g}"
        for cell in cells[:2]
    )


def _short(name: str, columns: Sequence[str]) -> str:
    """Return the name of a value without that of its column, which stands beside it."""
    for column in columns:
        for start in (column, column.split(": ", 1)[-1]):
            if name.startswith((f"{start}=", f"{start}:", f"{start} ")):
                return name[len(start) + 1 :]
    return name


def _waterfall(summary: Summary, top: int) -> RenderableType:
    """Return the way from the average to the score: own terms, neighbourhood, and both."""
    steps: list[tuple[str, float, bool]] = []
    for scope in SCOPES:
        terms = [(at, term) for at, term in enumerate(summary["terms"]) if term["scope"] == scope]
        if not terms:
            continue
        steps.append((_SCOPE_NAMES[scope], summary[scope], True))
        for _, term in (each for each in terms if each[0] < top):
            name, held = CROSS.join(term["columns"]) or "all other crosses", term["shown"]
            name = f"  {name}" + (f" ({', '.join(held)})" if held else "")
            steps.append((name, term["value"], False))
        others = [term["value"] for at, term in terms if at >= top]
        if others:
            steps.append((f"  {count(len(others), 'other term')}", sum(others), False))
    average, score = summary["average"], summary["score"]
    amounts = [0.0 if is_sum else amount for _, amount, is_sum in steps]
    levels = list(accumulate(amounts, initial=average))
    low, high = min(levels), max(levels)
    rows: list[list[str | Text]] = [
        ["average", f"{average:+.4g}", _track(average, average, low, high)]
    ]
    for (name, amount, is_sum), start, end in zip(steps, levels, levels[1:], strict=False):
        style = "bold" if is_sum else ""
        track = Text() if is_sum else _track(start, end, low, high)
        rows.append([Text(name, style=style), Text(f"{amount:+.4g}", style=style), track])
    end_row = [
        Text("score", "bold"),
        Text(f"{score:+.4g}", "bold"),
        _track(score, score, low, high),
    ]
    return make_table([*rows, end_row], ["term"], ["contribution"], [""], lines_after=[len(steps)])


def _track(start: float, end: float, low: float, high: float) -> Text:
    """Return one step of a waterfall; a step of no length is a mark."""
    unit = (high - low) / (_TRACK - 1) or 1.0
    first, last = sorted((round((start - low) / unit), round((end - low) / unit)))
    if start == end:
        return Text(" " * first + "│")
    return Text(" " * first + "█" * max(1, last - first), style="green" if end > start else "red")


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    yield Text("\nWhat the model would need to see for another answer", style="bold")
    for change in changes:
        words = f"{change['column']} {change['after']} instead of {change['before']}"
        yield Text(f"{change['outcome']}: {words}")
    if not changes:
        yield Text("No change of one of its own columns gives another answer.")
        return
    yield Text(
        "This is the model's view, with the neighbourhood as it is. It does not say that the "
        "change would cause the outcome.",
        style="dim",
    )
