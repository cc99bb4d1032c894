"""The result of ``explain`` at the terminal: all terms, one term, or one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from crossgcn.explanation.columns import SCOPES, score_name
from crossgcn.explanation.terms import CROSS
from crossgcn.reports.format import Summary, bar, count, make_table, with_error
from crossgcn.reports.summaries import describe_shares

_SCOPE_NAMES = {"own": "own", "neighbourhood": "neighbourhood", "both": "own × neighbourhood"}
_LEGEND = (
    "importance: standard deviation of the term over nodes, in the unit of the score (±: standard "
    "error). inside: mean contribution of the nodes with these values; low, high: the lowest and "
    "highest eighth of a number."
)
_MOST_DROPPED = 30
"""Maximum number of dropped columns that the terminal names."""
_LEGEND_OF_MARGINS = "margin: the score of the class minus the mean score of the others."
_LEGEND_OF_CHANGES = (
    "This is the model's view, with the neighbourhood as it is. It does not say that the change "
    "would cause the outcome."
)


def terms_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    records, unit = summary["terms"], summary["unit"]
    if summary["warning"]:
        yield Text(summary["warning"], style="yellow")
    if "reason" in summary:
        yield Text(f"Products of features are listed, because {summary['reason']}.", style="dim")
    largest = max((row["importance"] for row in records), default=0.0)
    for name in dict.fromkeys(row["class"] for row in records):
        yield Text(f"\n{score_name(name, unit)}", style="bold")
        for head, is_cross in (("column", False), ("cross", True)):
            rows = [
                (
                    CROSS.join(row["columns"]),
                    with_error(f"{row['importance']:#.3g}", row["error"]),
                    bar(row["importance"], largest),
                    _inside(row),
                )
                for row in records
                if row["class"] == name and (len(row["columns"]) > 1) == is_cross
            ]
            if rows:
                yield make_table(rows, [head], ["importance"], ["", "inside"])
        if "average" in summary:
            yield from map(Text, _sums(summary, name))
    if "columns" in summary:
        yield Text("")
        yield from map(Text, filter(None, (describe_shares(summary), _columns(summary))))
    legend = [_LEGEND, summary.get("limits"), _LEGEND_OF_MARGINS if unit == "margin" else None]
    yield Text(" ".join(filter(None, legend)), style="dim")


def term_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield one term: what it adds for every combination of values."""
    (term,) = summary["terms"]
    yield Text(CROSS.join(term["columns"]), style="bold")
    importance = with_error(f"{term['importance']:#.3g}", term["error"])
    yield Text(f"{score_name(term['class'], summary['unit'])}: importance {importance}")
    largest = max((abs(cell["contribution"]) for cell in term["cells"]), default=0.0)
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
    """Yield one score of one node: the average over nodes, and what each term adds."""
    predicted = summary["predicted"]
    headline = f"node {summary['name']}"
    yield Text(headline if predicted is None else f"{headline}: predicted {predicted}", "bold")
    score = f"{score_name(summary['class'], summary['unit'])}: {summary['score']:+.4g}"
    if summary["unit"] == "log-odds" and " rather than " not in summary["class"]:
        score += f", probability {1 / (1 + exp(-summary['score'])):.0%}"
    yield Text(score)
    yield make_table(_steps(summary, top), ["term"], ["contribution"], [""])
    neighbours = summary["neighbours"]
    if neighbours:
        largest = abs(neighbours[0]["contribution"])
        rows = [
            [each["node"], f"{each['contribution']:+.4g}", bar(each["contribution"], largest)]
            for each in neighbours[:top]
        ]
        yield make_table(rows, ["neighbour"], ["contribution"], [""])
        others = len(neighbours) - top
        more = f"{count(others, 'more neighbour')} not shown. " if others > 0 else ""
        yield Text(more + summary["meaning"], style="dim")
    if predicted is None:
        return
    yield Text("\nWhat the model would need to see for another answer", style="bold")
    for change in summary["changes"]:
        words = f"{change['column']} {change['after']} instead of {change['before']}"
        yield Text(f"{change['outcome']}: {words}")
    if summary["changes"]:
        yield Text(_LEGEND_OF_CHANGES, style="dim")
    else:
        yield Text("No change of one of its own columns gives another answer.")


def _steps(summary: Summary, top: int) -> Iterator[list[str | Text]]:
    """Yield rows from the average to the score: terms of own columns, neighbourhood, and both."""
    terms = summary["terms"]
    largest = max((abs(term["value"]) for term in terms), default=0.0)
    yield ["average", f"{summary['average']:+.4g}", ""]
    for scope in SCOPES:
        shown = [term for term in terms[:top] if term["scope"] == scope]
        more = [term for term in terms[top:] if term["scope"] == scope]
        if len(more) == 1:  # as long as a line that counts it
            shown, more = [*shown, *more], []
        others = [term["value"] for term in more]
        if shown or others:
            yield [Text(_SCOPE_NAMES[scope], "bold"), Text(f"{summary[scope]:+.4g}", "bold"), ""]
        for term in shown:
            name = CROSS.join(term["columns"]) or "all other crosses"
            held = f" ({'; '.join(term['shown'])})" if term["shown"] else ""
            yield [f"  {name}{held}", f"{term['value']:+.4g}", bar(term["value"], largest)]
        if others:
            yield [f"  {count(len(others), 'other term')}", f"{sum(others):+.4g}", ""]
    yield [Text("score", "bold"), Text(f"{summary['score']:+.4g}", "bold"), ""]


def _sums(summary: Summary, name: str) -> Iterator[str]:
    """Yield the importance of all terms of a score together, and of the crosses not listed."""
    sums = ", of ".join(
        f"{count(size, 'column')} {value:#.3g}"
        for size, value in summary["by_number_of_columns"][name].items()
    )
    yield f"importance of all terms together: of {sums}"
    if name in summary["unlisted_importance"]:
        counts = [f"{number:,} of {size} columns" for size, number in summary["unlisted"].items()]
        yield (
            f"not listed, because they are weak or too many to compare: {' and '.join(counts)}, "
            f"with importance {summary['unlisted_importance'][name]:#.3g} together"
        )


def _columns(summary: Summary) -> str:
    """Return a sentence about the columns that the model reads and drops."""
    read, dropped = len(summary["columns"]), summary["dropped"]
    if not dropped:
        return ""
    more = len(dropped) - _MOST_DROPPED
    names = ", ".join(dropped[:_MOST_DROPPED])
    names += f" and {more:,} more (--json lists all)" if more > 0 else ""
    reads = f"The model reads {read:,} of {count(read + len(dropped), 'column')}"
    return f"{reads} and has {summary['num_crosses']:,} crosses. Dropped: {names}."


def _inside(row: Mapping[str, Any]) -> str:
    """Return the contributions by value in short.

    A product of features has a slope, a number a low and a high end, other terms their largest
    cells.
    """
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
    """Return the name of a value without the name of its column."""
    for column in columns:
        for start in (column, column.split(": ", 1)[-1]):
            if name.startswith((f"{start}=", f"{start}:", f"{start} ")):
                return name[len(start) + 1 :]
    return name
