"""The result of ``check``: how the tables were read, and the problems in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from crossgcn.data.tables.labels import read_labels
from crossgcn.data.tables.problems import CheckedTables, Problem, show_file, show_name
from crossgcn.errors import few
from crossgcn.reports.format import Summary, count, make_table, number_text

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TablePlan
    from crossgcn.data.tables.table import Table

_MOST_COLUMNS = 60
"""Maximum number of columns that are listed."""

_BROKEN_IDS = ("missing-id", "duplicate-id")
"""Problems that leave open which nodes an edge joins."""

_STYLES = {"error": "bold red", "warning": "yellow"}


def summarise_check(
    tables: CheckedTables, plan: TablePlan, problems: Sequence[Problem], next_command: str
) -> Summary:
    """Return how the tables were read and their problems; without errors, ``next_command``."""
    severities = Counter(problem.severity for problem in problems)
    are_broken = any(problem.kind in _BROKEN_IDS for problem in problems)
    nodes = tables.nodes
    of_nodes = plan.model_dump(include={"id_column", "target", "split_column"})
    relations = [
        {
            "file": each.table.name,
            "rows": len(each.table),
            **each.plan.model_dump(),
            "homophily": None if are_broken else each.measure_homophily(tables.labels),
        }
        for each in tables.relations
    ]
    return {
        "nodes": {"file": nodes.name, "rows": len(nodes), **of_nodes},
        "edges": relations[0] if len(relations) == 1 else None,
        "relations": relations,
        "balance": _balance(nodes, plan),
        "columns": [column.model_dump() for column in plan.columns],
        "reasons": list(plan.reasons),
        "findings": [asdict(problem) for problem in problems],
        "errors": severities["error"],
        "warnings": severities["warning"],
        "next": None if severities["error"] else next_command,
    }


def _balance(nodes: Table, plan: TablePlan) -> Summary | None:
    """Return how many nodes each class has, or how the numbers to predict are distributed."""
    if plan.target is None:
        return None
    labels = read_labels(nodes, plan)
    summary: Summary = {"task": plan.task, "labelled": labels.num_known, "nodes": len(nodes)}
    if labels.numbers is None:
        return summary | {
            "classes": [
                {"name": name, "nodes": size, "share": size / max(labels.num_known, 1)}
                for name, size in zip(labels.names, labels.counts.tolist(), strict=True)
            ]
        }
    known = labels.numbers[labels.known].astype(float)
    if len(known) and np.isfinite(known).all():
        measures = {"mean": known.mean(), "sd": known.std(), "min": known.min(), "max": known.max()}
        summary |= {name: float(value) for name, value in measures.items()}
    return summary


def check_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the summary of :func:`summarise_check` for the terminal."""
    nodes, edges, columns = summary["nodes"], summary["relations"], summary["columns"]
    of_nodes = f"{count(nodes['rows'], 'node')}, {count(len(columns), 'column')}"
    of_edges = [f"{show_file(each['file'])}: {count(each['rows'], 'edge')}" for each in edges]
    yield Text(
        f"{show_file(nodes['file'])}: {of_nodes}; {'; '.join(of_edges) or 'no edges'}", style="bold"
    )
    yield from map(Text, summary["reasons"])
    rows = []
    for column in columns[:_MOST_COLUMNS]:
        style = "dim" if column["kind"] == "ignored" else ""
        cells = (show_name(column["name"]), column["kind"], column["reason"])
        rows.append([Text(cell, style=style) for cell in cells])
    yield make_table(rows, ["column", "read as", "why"])
    hidden = Counter(column["kind"] for column in columns[_MOST_COLUMNS:])
    if hidden:
        yield Text(f"and {_kinds(hidden)} more (--json has all)\n")
    if summary["balance"] is not None:
        yield from map(Text, _target_lines(summary["balance"], edges))
    counted = f"{count(summary['errors'], 'error')}, {count(summary['warnings'], 'warning')}"
    if summary["findings"]:
        counted = f"\n{counted}"
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column()
        grid.add_column(overflow="fold")
        for problem in (Problem(**content) for content in summary["findings"]):
            statement = Text.assemble((f"{problem.place}: ", "bold"), problem.statement)
            grid.add_row(Text(problem.severity, style=_STYLES[problem.severity]), statement)
            grid.add_row("", Text(f"→ {problem.remedy}", style="italic"))
        yield grid
    if summary["errors"]:
        yield Text(f"{counted}: correct the errors and check again", style=_STYLES["error"])
    else:
        yield Text(counted, style="green")
        yield f"\nNext: {summary['next']}"


def reading_lines(graph: TableGraph) -> Iterator[Text]:
    """Yield a few lines about how a user's tables were read, and a line for each warning."""
    yield from map(Text, graph.plan.reasons)
    columns = graph.plan.columns
    words = f"columns: {_kinds(Counter(column.kind for column in graph.plan.features))}"
    ignored = [show_name(column.name) for column in columns if column.kind == "ignored"]
    yield Text(f"{words}; ignored: {few(ignored)}" if ignored else words)
    for problem in graph.problems:
        label = (f"{problem.severity}: ", _STYLES[problem.severity])
        yield Text.assemble(label, problem.describe())


def _kinds(kinds: Counter[str]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


def _target_lines(balance: Summary, edges: Sequence[Summary]) -> Iterator[str]:
    """Yield a line about the classes or numbers, and lines about the homophily."""
    unlabelled = balance["nodes"] - balance["labelled"]
    rest = f"; {count(unlabelled, 'node')} without a label" if unlabelled else ""
    if "mean" in balance:
        least, most, mean, sd = (
            number_text(balance[each]) for each in ("min", "max", "mean", "sd")
        )
        yield f"numbers: {least} to {most}, mean {mean}, sd {sd}{rest}"
    elif balance.get("classes"):
        classes = [
            f"{show_name(each['name'])} {each['nodes']:,} ({100 * each['share']:.0f}\u00a0%)"
            for each in sorted(balance["classes"], key=lambda each: -each["nodes"])
        ]
        yield f"classes: {few(classes)}{rest}"
    for each in edges:
        homophily = each["homophily"]
        words = "homophily" + (f" of {each['name']}" if len(edges) > 1 else "")
        if homophily is not None and "correlation" in homophily:
            yield f"{words}: neighbours' numbers have correlation {homophily['correlation']:.2f}"
        elif homophily is not None:
            yield (
                f"{words}: {100 * homophily['same_class']:.0f}\u00a0% of edges join equal classes "
                f"(by chance {100 * homophily['chance']:.0f}\u00a0%)"
            )
