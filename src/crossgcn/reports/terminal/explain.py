"""The result of ``explain``: its JSON summary, and that summary at the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.inside import make_grid
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import CROSS, WHOSE, Explanation, Term, score_name
from crossgcn.reports.format import Summary, count
from crossgcn.reports.summaries import no_better_than_guessing
from crossgcn.reports.terminal.tables import text_columns

_BAR, _TRACK = 12, 20
_NOTHING = 1e-3
_UNLISTED = 4
_WHOSE_NAMES = {"own": "own", "neighbourhood": "neighbourhood", "both": "own × neighbourhood"}


def summarise_terms(
    run: RunFolder, whole: Explanation | Products, top: int, order: int | None, output: int | None
) -> Summary:
    """Return the terms of each class, the most important first."""
    listed = range(len(whole.outputs)) if output is None else [output]
    summary: Summary = {
        "num_nodes": len(run.ids),
        "num_models": len(run.runs),
        "warning": no_better_than_guessing(run),
        "terms": whole.to_json(top, order, output),
    }
    if isinstance(whole, Products):
        return summary | {"reason": whole.reason}
    rest = whole.rest
    return summary | {
        "num_nodes": len(whole.nodes),
        "average": {whole.outputs[each]: float(whole.average[each]) for each in listed},
        "by_number_of_columns": {whole.outputs[each]: whole.by_size(each) for each in listed},
        "unlisted": {str(size): number for size, number in whole.num_unlisted.items()},
        "unlisted_importance": {
            whole.outputs[each]: float(rest.importance[each]) for each in listed if rest is not None
        },
        "unlisted_by_column": {
            whole.outputs[each]: whole.unlisted_columns(each) for each in listed
        },
        "of_neighbours": whole.neighbours is not None,
    }


def summarise_term(whole: Explanation, term: Term, output: int) -> Summary:
    """Return one term with the mean contribution for every combination of values."""
    grid = make_grid(whole, term)
    cells = []
    if grid is not None:
        labels = product(*(axis.labels for axis in grid.axes))
        for at, names in enumerate(labels):
            if grid.counts[at]:
                error = None if grid.errors is None else float(grid.errors[at, output])
                mean, nodes = float(grid.means[at, output]), int(grid.counts[at])
                cell = {"names": list(names), "contribution": mean, "error": error}
                cells.append(cell | {"nodes": nodes})
    inside = {key: value for key, value in whole.inside(term, output).items() if key == "slope"}
    record = {
        "class": whole.outputs[output],
        "columns": list(term.columns),
        "whose": term.whose,
        "importance": float(term.importance[output]),
        "error": None if term.error is None else float(term.error[output]),
        **inside,
        "cells": cells,
    }
    return {"terms": [record]}


def screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    records, unit = summary["terms"], summary["unit"]
    if summary["warning"]:
        yield Text(f"{summary['warning']} Its terms say nothing about the data.", style="yellow")
    if "reason" in summary:
        words = f"Products of features are listed, because {summary['reason']}."
        yield Text(words, style="dim")
    largest = max((row["importance"] for row in records), default=0.0)
    sizes = map(abs, summary.get("average", {}).values())
    if largest < _NOTHING * max(1.0, *sizes, 0.0):
        yield Text(
            f"All terms are nearly zero (importance below {largest:.1g}): the model gives every "
            "node about the same score.",
            style="yellow",
        )
        return
    for name in dict.fromkeys(row["class"] for row in records):
        yield Text(f"\n{score_name(name, unit)}", style="bold")
        for title, crossed in (("column", False), ("cross", True)):
            of_class = [row for row in records if row["class"] == name]
            rows = [row for row in of_class if (len(row["columns"]) > 1) == crossed]
            if rows:
                yield _terms_table(title, rows, largest)
        if "average" not in summary:
            continue
        sums = [
            f"{'one column' if size == 1 else f'{size} columns'} {value:#.3g}"
            for size, value in summary["by_number_of_columns"][name].items()
        ]
        yield Text(f"importance of all terms together: of {', of '.join(sums)}")
        if name in summary["unlisted_importance"]:
            yield Text(_unlisted(summary, name))
    legend = (
        "importance: standard deviation of the term over nodes, in the unit of the score (±: "
        "standard error). inside: mean contribution of the nodes that have these values; of one "
        "number those of its lowest and highest eighth."
    )
    if summary.get("of_neighbours"):
        legend += (
            " Of neighbours, inside is the quarter of nodes with most neighbours of these values. "
            "position in the graph: what a node with average columns would get at this place."
        )
    if unit == "margin":
        legend += " margin: the score of the class minus the mean score of the others."
    yield Text(legend, style="dim")


def term_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield one term: what it adds for every combination of values."""
    (term,) = summary["terms"]
    error = "" if term["error"] is None else f" ± {term['error']:.2g}"
    yield Text(CROSS.join(term["columns"]), style="bold")
    words = f"{score_name(term['class'], summary['unit'])}: importance {term['importance']:#.3g}"
    yield Text(words + error)
    largest = max((abs(cell["contribution"]) for cell in term["cells"]), default=1.0) or 1.0
    table = text_columns(*term["columns"])
    for name in ("nodes", "contribution"):
        table.add_column(name, justify="right")
    table.add_column("")
    for cell in term["cells"]:
        spread = "" if cell["error"] is None else f" ± {cell['error']:.2g}"
        amount = f"{cell['contribution']:+.3g}{spread}"
        names = map(Text, cell["names"])
        table.add_row(*names, f"{cell['nodes']:,}", amount, _bar(cell["contribution"], largest))
    yield table


def node_screen(summary: Summary, top: int) -> Iterator[RenderableType]:
    """Yield one score of one node: from the average over nodes to this node."""
    headline = f"node {summary['name']}"
    if summary["predicted"] is not None:
        headline += f": predicted {summary['predicted']}"
    yield Text(headline, style="bold")
    score = f"{score_name(summary['class'], summary['unit'])}: {summary['score']:+.4g}"
    if summary["unit"] == "log-odds" and " rather than " not in summary["class"]:
        score += f", probability {1 / (1 + np.exp(-summary['score'])):.0%}"
    yield Text(score)
    yield _waterfall(summary, top)
    near = summary["neighbours"]
    if near:
        table = text_columns("neighbour")
        table.add_column("contribution", justify="right")
        table.add_column("")
        largest = max(abs(each["contribution"]) for each in near[:top]) or 1.0
        for each in near[:top]:
            amount = each["contribution"]
            table.add_row(Text(each["node"]), f"{amount:+.4g}", _bar(amount, largest))
        yield table
        others = len(near) - top
        more = f"{count(others, 'more neighbour')} not shown. " if others > 0 else ""
        yield Text(more + summary["meaning"], style="dim")
    if summary["predicted"] is not None:
        yield from _changes(summary["changes"])


def _unlisted(summary: Summary, name: str) -> str:
    """Say how many crosses are not listed, how much they matter, and which columns are in them."""
    counts = [f"{number:,} of {size} columns" for size, number in summary["unlisted"].items()]
    text = (
        f"not listed one by one, the weakest or too many to compare: {' and '.join(counts)}, "
        f"importance together {summary['unlisted_importance'][name]:#.3g}"
    )
    largest = list(summary["unlisted_by_column"][name].items())[:_UNLISTED]
    if not largest:
        return text
    return f"{text}; those with {', '.join(f'{name} {size:#.3g}' for name, size in largest)}"


def _terms_table(title: str, rows: Sequence[Mapping[str, Any]], largest: float) -> Table:
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


def _inside(row: Mapping[str, Any]) -> str:
    """Return the largest cells; of one number its lowest and highest part."""
    cells = row.get("cells", [])
    if "slope" in row and len(row["columns"]) == 1 and cells:
        known = [cell for cell in cells if not cell["names"][0].endswith(" missing")] or cells
        ends = zip(("low", "high"), (known[0], known[-1]), strict=True)
        return ", ".join(f"{name} {cell['contribution']:+.3g}" for name, cell in ends)
    if "slope" in row and not cells:
        return f"slope {row['slope']:+.3g}"
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


def _waterfall(summary: Summary, top: int) -> Table:
    """Return the way from the average to the score: own terms, neighbourhood, and both."""
    rows: list[tuple[str, float, bool]] = []
    ranked = list(enumerate(summary["terms"]))
    for whose in WHOSE:
        terms = [(at, term) for at, term in ranked if term["whose"] == whose]
        if not terms:
            continue
        rows.append((_WHOSE_NAMES[whose], summary[whose], True))
        for _, term in (each for each in terms if each[0] < top):
            name, held = CROSS.join(term["columns"]) or "all other crosses", term["shown"]
            name = f"  {name}" + (f" ({', '.join(held)})" if held else "")
            rows.append((name, term["value"], False))
        others = [term["value"] for at, term in terms if at >= top]
        if others:
            rows.append((f"  {count(len(others), 'other term')}", sum(others), False))
    average, score = summary["average"], summary["score"]
    places = average + np.cumsum([0.0, *(amount for _, amount, is_sum in rows if not is_sum)])
    low, high = float(places.min()), float(places.max())
    table = _wide_table("term", "score")
    table.show_footer = True
    table.add_column("contribution", f"{score:+.4g}", justify="right")
    table.add_column("", _track(score, score, low, high), width=_TRACK)
    table.add_row("average", f"{average:+.4g}", _track(average, average, low, high))
    at = average
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


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    yield Text("\nWhat the model would need to see for another answer", style="bold")
    for change in changes:
        parts = zip(change["columns"], change["before"], change["after"], strict=True)
        words = " and ".join(f"{name} {after} instead of {before}" for name, before, after in parts)
        yield Text(f"{change['outcome']}: {words}")
    if not changes:
        yield Text("No change of one or two of its own columns gives another answer.")
        return
    yield Text(
        "This is the model's view, with the neighbourhood as it is. It does not say that the "
        "change would cause the outcome.",
        style="dim",
    )


def _wide_table(name: str, footer: str = "") -> Table:
    table = text_columns()
    table.add_column(name, footer, overflow="fold", ratio=1)
    return table


def _bar(value: float, largest: float) -> Text:
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style="green" if value > 0 else "red")
