"""The result of ``explain`` at the terminal: all terms, one term, or one node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from shlex import quote

from rich.console import RenderableType
from rich.text import Text

from crossgcn.explanation.columns import SCOPES, score_name
from crossgcn.explanation.difference import PARTS
from crossgcn.explanation.terms import CROSS, OTHERS
from crossgcn.reports.format import (
    Summary,
    bar,
    count,
    make_table,
    number_text,
    short_name,
    with_error,
)
from crossgcn.reports.summaries import describe_shares

_SCOPE_NAMES = {"own": "own", "neighbourhood": "neighbourhood", "both": "own × neighbourhood"}
_LEGEND = (
    "importance: standard deviation of the term over nodes, in the unit of the score (±: standard "
    "error over the bags, the models whose mean this one is). adds: mean contribution of the nodes "
    "with these values; low, high: the lowest and highest eighth of a number."
)
_MOST_DROPPED = 30
"""Maximum number of dropped columns that the terminal names."""
_LEGEND_OF_MARGINS = "margin: the score of the class minus the mean score of the others."
_LEGEND_OF_KNOWN = "known labels: how many neighbours were trained on, so that their label is seen."
_LEGEND_OF_SHARES = "points: percentage points of {}."
_LEGEND_OF_CHANCES = (
    "points: percentage points that the probability of {} would lose without the term; they do not "
    "add up."
)
_LEGEND_OF_CHANGES = (
    "This is the model's view, with the neighbourhood as it is and with values that occur "
    "together. It does not say that the change would cause the outcome."
)
_ROUNDING = 1e-12
"""Smaller changes of a score are rounding."""
_MOST_NAMED = 10
_SIZES = {1: "single columns", 2: "pairs", 3: "triples"}
_FEW_CLASSES = 4
"""With more classes, the terms of one class are listed if it is named."""


def terms_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    records, unit, against = summary["terms"], summary["unit"], summary["against"]
    if summary["warning"]:
        yield Text(summary["warning"], style="yellow")
    if "reason" in summary:
        yield Text(f"Products of features are listed, because {summary['reason']}.", style="dim")
    if "overall" in summary:
        yield Text("\nmean of all classes", style="bold")
        yield from _importances(summary["overall"], "matters most to", lambda row: row["class"])
        if len(summary["classes"]) > _FEW_CLASSES:
            yield Text("\nThe terms of one class: --class NAME")
            records = []
    largest = max((row["importance"] for row in records), default=0.0)
    for name in dict.fromkeys(row["class"] for row in records):
        yield Text(f"\n{score_name(name, unit, against)}", style="bold")
        rows = [row for row in records if row["class"] == name]
        yield from _importances(rows, "adds", _inside, largest)
        if "average" in summary:
            yield from map(Text, _sums(summary, name))
    if "columns" in summary:
        yield Text("")
        yield from map(Text, filter(None, (describe_shares(summary), _columns(summary))))
    names = {name for row in records for name in row["columns"]}
    legend = [_LEGEND, summary.get("limits"), _LEGEND_OF_MARGINS if unit == "margin" else None]
    legend.append(_LEGEND_OF_KNOWN if any(n.endswith(": known labels") for n in names) else None)
    yield Text(" ".join(filter(None, legend)), style="dim")
    run = quote(summary["run"])
    node = "" if "reason" in summary else f"crossgcn explain {run} --node ID, or "
    yield f"\nNext: {node}crossgcn report {run}"


def _importances(
    records: Sequence[Summary], head: str, words: Callable[[Summary], str], largest: float = 0.0
) -> Iterator[RenderableType]:
    """Yield a table of single columns and one of crosses, with bars on one scale."""
    largest = largest or max((row["importance"] for row in records), default=0.0)
    for what, is_cross in (("column", False), ("cross", True)):
        rows = [
            (
                CROSS.join(row["columns"]),
                with_error(number_text(row["importance"], 3), row["error"]),
                bar(row["importance"], largest),
                words(row),
            )
            for row in records
            if (len(row["columns"]) > 1) == is_cross
        ]
        if rows:
            yield make_table(rows, [what], ["importance"], ["", head])


def term_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield one term: what it adds for every combination of values."""
    (term,) = summary["terms"]
    yield Text(CROSS.join(term["columns"]), style="bold")
    importance = with_error(number_text(term["importance"], 3), term["error"])
    named = score_name(term["class"], summary["unit"], summary["against"])
    yield Text(f"{named}\nimportance {importance}")
    largest = max((abs(cell["contribution"]) for cell in term["cells"]), default=0.0)
    rows = [
        [
            *(*cell["names"], f"{cell['nodes']:,}"),
            with_error(_signed(cell["contribution"], 3), cell["error"]),
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
    yield Text(score_name(summary["class"], summary["unit"], summary["against"]))
    score = f"score {_signed(summary['score'])}"
    if predicted is not None:
        is_pair = summary["unit"] == "log-odds" and len(summary["classes"]) > 2
        among = f" and not {summary['against']}" if is_pair else ""
        score += f", probability of {summary['class']}{among} {summary['probability']:.3g}"
    yield Text(score)
    steps, heads = list(_steps(summary, top)), ["contribution", "points"]
    if not any(points for *_, points, _ in steps):
        steps, heads = [[*rest, bars] for *rest, _, bars in steps], heads[:1]
    yield make_table(steps, ["term"], heads, [""])
    if "points" in heads:
        legend = _LEGEND_OF_SHARES if predicted is None else _LEGEND_OF_CHANCES
        yield Text(legend.format(summary["class"]), style="dim")
    neighbours = summary["neighbours"]
    if neighbours:
        largest = abs(neighbours[0]["contribution"])
        rows = [
            [each["node"], _signed(each["contribution"]), bar(each["contribution"], largest)]
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
        yield Text(
            "No change of one of its own columns, to a value that occurs with the others, gives "
            "another answer."
        )


def _steps(summary: Summary, top: int) -> Iterator[list[str | Text]]:
    """Yield rows from the average to the score: terms of own columns, neighbourhood, and both."""
    terms = summary["terms"]
    largest = max((abs(term["value"]) for term in terms), default=0.0)
    yield ["average", _signed(summary["average"]), "", ""]
    for scope in SCOPES:
        shown = [term for term in terms[:top] if term["scope"] == scope]
        more = [term for term in terms[top:] if term["scope"] == scope]
        if len(more) == 1:  # as long as a line that counts it
            shown, more = [*shown, *more], []
        others = [term["value"] for term in more]
        if shown or others:
            total = Text(_signed(summary[scope]), "bold")
            yield [Text(_SCOPE_NAMES[scope], "bold"), total, "", ""]
        for term in shown:
            name = CROSS.join(term["columns"]) or OTHERS
            held = f" ({'; '.join(term['shown'])})" if term["shown"] else ""
            points = "" if term["points"] is None else f"{term['points']:+.1f}"
            length = bar(term["value"], largest)
            yield [f"  {name}{held}", _signed(term["value"]), points, length]
        if others:
            yield [f"  {count(len(others), 'other term')}", _signed(sum(others)), "", ""]
    yield [Text("score", "bold"), Text(_signed(summary["score"]), "bold"), "", ""]


def change_screen(summary: Summary, top: int) -> Iterator[RenderableType]:
    """Yield why scores changed since an older run: by part, and by term."""
    is_one, numbers = "score" in summary, (*PARTS, "change")
    about = f"node {summary['name']}" if is_one else count(summary["nodes"], "node")
    yield Text(f"{about}, since {summary['since']}", style="bold")
    yield Text(score_name(summary["class"] or "a class", summary["unit"], summary["against"]))
    if is_one:
        yield Text(f"score {_signed(summary['score'])}, was {_signed(summary['old_score'])}")
    else:
        for what, gone in (("came", summary["only_new"]), ("went", summary["only_old"])):
            if gone:
                more = ", …" * (len(gone) > _MOST_NAMED)
                yield Text(
                    f"{count(len(gone), 'node')} {what}: {', '.join(gone[:_MOST_NAMED])}{more}"
                )
    rows = []
    for term in [{"columns": ["all terms"], **summary}, *summary["terms"][:top]]:
        held = [was if was == now else f"{was} → {now}" for was, now in term.get("shown", ())]
        name = CROSS.join(term["columns"]) or OTHERS
        sign = "+" if is_one else ""
        changes = (term[each] if abs(term[each]) > _ROUNDING else 0 for each in numbers)
        texts = (number_text(each, 3, sign if each else "") for each in changes)
        rows.append([name + (f" ({'; '.join(held)})" if held else ""), *texts])
    heads = ["own", "neighbours", "edges", "model", "change"]
    yield make_table(rows, ["term"], heads, line_after=0)
    if not is_one:
        moved = "; ".join(
            f"{row['node']} {', '.join(_signed(each, 3) for each in row['change'].values())}"
            for row in summary["moved_most"]
            if any(abs(each) > _ROUNDING for each in row["change"].values())
        )
        yield Text(f"Scores that changed most: {moved}." if moved else "No score changed.")
        yield Text("The table has roots of the mean square over the nodes.", style="dim")
    yield Text(summary["meaning"], style="dim")


def _sums(summary: Summary, name: str) -> Iterator[str]:
    """Yield the importance of all terms of a score together, and of the crosses not listed."""
    sums = ", ".join(
        f"{_SIZES.get(size, f'crosses of {size} columns')} {number_text(value, 3)}"
        for size, value in summary["by_number_of_columns"][name].items()
    )
    yield f"importance of all terms together: {sums}"
    if name in summary["unlisted_importance"]:
        counts = [f"{number:,} of {size} columns" for size, number in summary["unlisted"].items()]
        yield (
            f"not listed, because they are weak or too many to compare: {' and '.join(counts)}, "
            f"with importance {number_text(summary['unlisted_importance'][name], 3)} together"
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


def _inside(row: Summary) -> str:
    """Return the ends of a number, the two largest cells of another column, or one of a cross.

    A product of features has a slope.
    """
    cells = row.get("cells", [])
    if "slope" in row and not cells:
        return f"slope {_signed(row['slope'], 3)}"
    if "slope" in row and len(row["columns"]) == 1:
        known = [cell for cell in cells if not cell["names"][0].endswith(" missing")] or cells
        low, high = (_signed(cell["contribution"], 3) for cell in (known[0], known[-1]))
        return f"low {low}, high {high}"
    most = 2 if len(row["columns"]) == 1 else 1
    return "; ".join(
        f"{' & '.join(short_name(name, row['columns']) for name in cell['names'])} "
        f"{_signed(cell['contribution'], 3)}"
        for cell in cells[:most]
    )


def _signed(value: float, digits: int = 4) -> str:
    return number_text(value, digits, "+")
