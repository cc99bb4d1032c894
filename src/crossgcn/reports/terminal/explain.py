"""The result of ``explain`` at the terminal: crosses of each class, or the sum of one score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.explanation.column_details import NodeSum, cell_text
from crossgcn.explanation.columns import CROSS, WHOSE, ColumnTerms
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.one_node import NodeAnswer
from crossgcn.explanation.run import ExplainedRun
from crossgcn.reports.format import count, points
from crossgcn.reports.terminal.tables import text_columns

_BAR = 12
_TRACK = 20
_NOTHING = 1e-3
_UNLISTED = 4
_WHOSE_NAMES = {"own": "own", "neighbourhood": "neighbourhood", "both": "own × neighbourhood"}


def class_tables(
    explained: ExplainedRun, top: int, num_nodes: int, reason: str = ""
) -> Iterator[RenderableType]:
    """Yield the strongest crosses of each class, then its ``top`` strongest single features."""
    if reason:
        yield Text(f"Crosses are listed as trained, because {reason}.", style="dim")
    tables = (explained.crosses, explained.terms)
    largest = max((float(f["strength"].abs().max()) for f in tables if len(f)), default=1.0) or 1.0
    for name in explained.terms["class"].unique():
        crosses = explained.crosses[explained.crosses["class"] == name]
        terms = explained.terms[explained.terms["class"] == name].head(top)
        yield Text(f"\nclass {name}", style="bold")
        if len(crosses):
            yield _table(crosses, num_nodes, "cross", explained.num_models, largest)
        yield _table(terms, num_nodes, "single feature", 0, largest)
    legend = ["strength: weight × occurrence, + for the class, - against it"]
    if len(explained.crosses) and explained.num_models > 1:
        legend.append(
            "stable: number of runs in which it has the same sign and at least half the weight"
        )
    if len(explained.crosses):
        legend.append("drop: accuracy lost on test nodes without it, in points")
    yield Text("; ".join(legend), style="dim")
    if explained.completeness < 1:
        yield _left_out(f"{explained.completeness:.1%} of a score on average")
    if not explained.complete:
        yield Text(
            "The search for crosses of three or more features was stopped early: a stronger one "
            "may exist.",
            style="yellow",
        )


def _table(
    frame: pd.DataFrame, num_nodes: int, title: str, num_models: int, largest: float
) -> Table:
    """Return one table; ``num_models`` is 0 for single features, which have no stability."""
    stable, drop = num_models > 1, num_models > 0
    table = _wide_table(title)
    for name in ("strength", "", "weight", "nodes", *["stable"] * stable, *["drop"] * drop):
        table.add_column(name, justify="right" if name else "left")
    for row in frame.to_dict("records"):
        cells: list[RenderableType] = [
            f"{row['strength']:+#.3g}",
            _bar(row["strength"], largest),
            f"{row['weight']:+#.3g}",
            f"{row['support']:,} ({row['support'] / num_nodes:.0%})",
        ]
        if stable:
            cells.append(f"{round(row['stability'] * num_models)}/{num_models}")
        if drop:
            cells.append(points(row["accuracy_drop"], 1))
        table.add_row(Text(str(row["cross"])), *cells)
    return table


def node_tables(
    explanation: NodeExplanation, ids: Sequence[str], classes: Sequence[str], top: int
) -> Iterator[RenderableType]:
    """Yield one class score of one node as trained, as :func:`column_node_tables` shows it."""
    target, scores = explanation.target, explanation.logits.tolist()
    terms = explanation.by_cross
    rows = list(zip(terms["cross"], terms["whose"], terms["contribution"], strict=True))
    if explanation.left_out:
        rows.append(("crosses of hidden units", "both", explanation.left_out))
    named = [(name, (), *rest) for name, *rest in sorted(rows, key=lambda row: -abs(row[2]))]
    frame = pd.DataFrame(named, columns=["term", "columns", "whose", "contribution"])
    total = NodeSum(classes[target], "score", explanation.bias, scores[target], frame, {}, "bias")
    near = explanation.by_node[explanation.by_node["source"] != explanation.node]
    neighbours = list(zip(near["source"], near["contribution"], strict=True))
    meaning = "A neighbour's contribution is the sum of its terms."
    answer = NodeAnswer(total, None, neighbours, meaning, [])
    yield from column_node_tables(answer, ids[explanation.node], ids, top)
    ranking = sorted(zip(classes, scores, strict=True), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {value:+.3f}" for name, value in ranking[:6])
    yield Text(f"scores: {shown}" + (" ..." if len(ranking) > 6 else ""))
    if explanation.completeness < 1:
        yield _left_out(f"{explanation.completeness:.1%} of the score")


def column_tables(
    terms: ColumnTerms, records: Sequence[dict[str, Any]], warning: str = ""
) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    if warning:
        yield Text(f"{warning} Its terms say nothing about the data.", style="yellow")
    largest = max((row["importance"] for row in records), default=0.0)
    if largest < _NOTHING * max(1.0, float(np.abs(terms.average).max())):
        yield Text(
            f"All terms are nearly zero (importance below {largest:.1g}): the model gives every "
            "node about the same score.",
            style="yellow",
        )
        return
    for name in dict.fromkeys(row["class"] for row in records):
        output = terms.outputs.index(name)
        yield Text(f"\n{_score_name(name, terms.unit)}", style="bold")
        for title, crossed in (("column", False), ("cross", True)):
            rows = [
                row for row in records
                if row["class"] == name and (len(row["columns"]) > 1) == crossed
            ]  # fmt: skip
            if rows:
                yield _terms_table(title, rows, largest)
        sums = [
            f"{'one column' if size == 1 else f'{size} columns'} {value:#.3g}"
            for size, value in terms.by_size(output).items()
        ]
        yield Text(f"importance of all terms together: of {', of '.join(sums)}")
        if terms.rest is not None:
            yield Text(_unlisted(terms, output))
    legend = (
        "importance: standard deviation of the term over nodes, in the unit of the score (±: "
        "standard error). inside: mean contribution of the nodes that have these values; low and "
        "high: the lowest and highest quarter of nodes (eighth, for a term of one number)."
    )
    if terms.neighbours is not None:
        legend += (
            " Of neighbours, inside is the quarter of nodes with most neighbours of these values. "
            "position in the graph: what a node with average columns would get at this place."
        )
    if terms.unit == "margin":
        legend += " margin: the score of the class minus the mean score of the others."
    yield Text(legend, style="dim")


def _unlisted(terms: ColumnTerms, output: int) -> str:
    """Say how many crosses are not listed, how much they matter, and which columns are in them."""
    assert terms.rest is not None
    counts = [f"{number:,} of {size} columns" for size, number in terms.num_unlisted.items()]
    text = (
        f"not listed one by one, the weakest or too many to compare: {' and '.join(counts)}, "
        f"importance together {float(terms.rest.importance[output]):#.3g}"
    )
    largest = list(terms.unlisted_columns(output).items())[:_UNLISTED]
    if not largest:
        return text
    return f"{text}; those with {', '.join(f'{name} {size:#.3g}' for name, size in largest)}"


def _terms_table(title: str, rows: Sequence[dict[str, Any]], largest: float) -> Table:
    table = _wide_table(title)
    table.add_column("importance", justify="right", no_wrap=True)
    table.add_column("", width=_BAR)
    table.add_column("inside", overflow="fold", ratio=1)
    for row in rows:
        error = "" if row["error"] is None else f" ± {row['error']:.2g}"
        table.add_row(
            Text(CROSS.join(row["columns"])),
            f"{row['importance']:#.3g}{error}",
            _bar(row["importance"], largest),
            Text(_inside(row)),
        )
    return table


def _inside(row: dict[str, Any]) -> str:
    """Return the largest cells; of numbers the ends of the shape, or the corners."""
    if "shape" in row:
        ends = zip(("low", "high"), (row["shape"][0], row["shape"][-1]), strict=True)
        return ", ".join(f"{name} {part['contribution']:+.3g}" for name, part in ends)
    if "surface" in row:
        return _corners(row["surface"])
    if "slope" in row:
        return f"slope {row['slope']:+.3g}"
    return "; ".join(
        cell_text(cell | {"names": [_short(name, row["columns"]) for name in cell["names"]]})
        for cell in row["cells"][:2]
    )


def _short(name: str, columns: Sequence[str]) -> str:
    """Return the name of a value without that of its column, which stands beside it."""
    for column in columns:
        for start in (column, column.split(": ", 1)[-1]):
            if name.startswith((f"{start}=", f"{start}:")):
                return name[len(start) + 1 :]
    return name


def _corners(surface: Sequence[dict[str, Any]]) -> str:
    """Return the corner of a surface with the largest contribution, and the one opposite."""
    ends = [(min(values), max(values)) for values in zip(*(p["at"] for p in surface), strict=True)]
    middles = [(low + high) / 2 for low, high in ends]
    corners: dict[tuple[bool, ...], dict[str, Any]] = {}
    for part in surface:
        side = tuple(at > middle for at, middle in zip(part["at"], middles, strict=True))
        if abs(part["contribution"]) > abs(
            corners.get(side, {"contribution": 0.0})["contribution"]
        ):
            corners[side] = part
    largest = sorted(corners.items(), key=lambda item: -abs(item[1]["contribution"]))[:2]
    return "; ".join(
        f"{' & '.join('high' if high else 'low' for high in side)} {part['contribution']:+.3g}"
        for side, part in largest
    )


def column_node_tables(
    answer: NodeAnswer, node: str, ids: Sequence[str], top: int
) -> Iterator[RenderableType]:
    """Yield one score of one node: from the average over nodes to this node."""
    total = answer.total
    headline = f"node {node}"
    if answer.predicted is not None:
        headline += f": predicted {answer.predicted}"
    yield Text(headline, style="bold")
    score = f"{_score_name(total.output, total.unit)}: {total.score:+.4g}"
    if total.unit == "log-odds" and " rather than " not in total.output:
        score += f", probability {1 / (1 + np.exp(-total.score)):.0%}"
    yield Text(score)
    yield _waterfall(total, top)
    if answer.neighbours:
        table = text_columns("neighbour")
        table.add_column("contribution", justify="right")
        table.add_column("")
        listed = answer.neighbours[:top]
        largest = max(abs(amount) for _, amount in listed) or 1.0
        for neighbour, amount in listed:
            table.add_row(Text(ids[neighbour]), f"{amount:+.4g}", _bar(amount, largest))
        yield table
        others = len(answer.neighbours) - top
        more = f"{count(others, 'more neighbour')} not shown. " if others > 0 else ""
        yield Text(more + answer.meaning, style="dim")
    if answer.predicted is not None:
        yield from _changes(answer)


def _waterfall(total: NodeSum, top: int) -> Table:
    """Return the way from the average to the score: own terms, neighbourhood, and both."""
    listed = set(total.frame.index[:top])
    rows: list[tuple[str, float, bool]] = []
    for whose in WHOSE:
        terms = total.frame[total.frame["whose"] == whose]
        if terms.empty:
            continue
        rows.append((_WHOSE_NAMES[whose], float(terms["contribution"].sum()), True))
        shown = terms[terms.index.isin(listed)]
        for name, columns, amount in zip(
            shown["term"], shown["columns"], shown["contribution"], strict=True
        ):
            held = [total.held[column] for column in columns if column in total.held]
            name = CROSS.join(columns) if columns else name
            rows.append((f"  {name}" + (f" ({', '.join(held)})" if held else ""), amount, False))
        others = terms[~terms.index.isin(listed)]
        if len(others):
            rest = float(others["contribution"].sum())
            rows.append((f"  {count(len(others), 'other term')}", rest, False))
    places = total.average + np.cumsum([0.0, *(amount for _, amount, is_sum in rows if not is_sum)])
    low, high = float(places.min()), float(places.max())
    table = _wide_table("term", "score")
    table.show_footer = True
    table.add_column("contribution", f"{total.score:+.4g}", justify="right")
    table.add_column("", _track(total.score, total.score, low, high), width=_TRACK)
    bar = _track(total.average, total.average, low, high)
    table.add_row(total.start, f"{total.average:+.4g}", bar)
    at = total.average
    for name, amount, is_sum in rows:
        style = "bold" if is_sum else ""
        bar = Text("") if is_sum else _track(at, at + amount, low, high)
        table.add_row(Text(name, style=style), Text(f"{amount:+.4g}", style=style), bar)
        at += 0.0 if is_sum else amount
    return table


def _track(start: float, end: float, low: float, high: float) -> Text:
    """Return one step of a waterfall; a step of no length is a mark."""
    unit = (high - low) / (_TRACK - 1) or 1.0
    first, last = sorted((round((start - low) / unit), round((end - low) / unit)))
    if start == end:
        return Text(" " * first + "│")
    return Text(" " * first + "█" * max(1, last - first), style="green" if end > start else "red")


def _changes(answer: NodeAnswer) -> Iterator[RenderableType]:
    yield Text("\nWhat the model would need to see for another answer", style="bold")
    for change in answer.changes:
        parts = zip(change.columns, change.before, change.after, strict=True)
        words = " and ".join(f"{name} {after} instead of {before}" for name, before, after in parts)
        yield Text(f"{change.outcome}: {words}")
    if not answer.changes:
        yield Text("No change of one or two of its own columns gives another answer.")
    else:
        yield Text(
            "This is the model's view, with the neighbourhood as it is. It does not say that the "
            "change would cause the outcome.",
            style="dim",
        )


def _score_name(name: str, unit: str) -> str:
    if unit == name:
        return name
    kind = name if " rather than " in name else f"class {name}"
    return f"{kind} ({unit})"


def _wide_table(name: str, footer: str = "") -> Table:
    table = text_columns()
    table.add_column(name, footer, overflow="fold", ratio=1)
    return table


def _left_out(share: str) -> Text:
    return Text(
        f"Named terms account for {share}; the rest is crosses of hidden units in later layers, "
        "which have no names.",
        style="dim",
    )


def _bar(value: float, largest: float) -> Text:
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style="green" if value > 0 else "red")
