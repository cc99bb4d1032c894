"""The result of ``check``: how the tables were read, and the problems in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from crossgcn.data.tables.labels import read_labels
from crossgcn.data.tables.problems import CheckedTables, Problem, show_file, show_name
from crossgcn.reports.format import Summary, count
from crossgcn.reports.terminal.tables import make_table

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TablePlan
    from crossgcn.data.tables.table import Table

_MOST_COLUMNS, _MOST_CLASSES, _MOST_NAMES = 60, 10, 10
"""How many of each are listed one by one."""

_BROKEN_IDS = ("missing-id", "duplicate-id")
"""Problems with which edges cannot be told to join nodes."""

_STYLES = {"error": "bold red", "warning": "yellow"}


def summarise_check(
    tables: CheckedTables, plan: TablePlan, problems: Sequence[Problem], next_command: str
) -> Summary:
    """Return how the tables were read and what was found; ``next_command`` if without errors."""
    severities = Counter(problem.severity for problem in problems)
    are_broken = any(problem.kind in _BROKEN_IDS for problem in problems)
    nodes, edges = tables.nodes, tables.edges
    of_nodes = plan.model_dump(include={"id_column", "target", "split_column"})
    of_edges = plan.model_dump(include={"source_column", "destination_column", "weight_column"})
    return {
        "nodes": {"file": nodes.name, "rows": len(nodes), **of_nodes},
        "edges": edges if edges is None else {"file": edges.name, "rows": len(edges), **of_edges},
        "balance": _balance(nodes, plan),
        "homophily": None if are_broken else tables.measure_homophily(),
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
        sizes = zip(labels.names, labels.counts.tolist(), strict=True)
        summary["classes"] = [
            {"name": name, "nodes": size, "share": size / max(labels.num_known, 1)}
            for name, size in sizes
        ]
        return summary
    known = labels.numbers[labels.known].astype(float)
    if len(known) and np.isfinite(known).all():
        measures = {"mean": known.mean(), "sd": known.std(), "min": known.min(), "max": known.max()}
        summary |= {name: float(value) for name, value in measures.items()}
    return summary


def check_page(summary: Summary) -> Group:
    """Return the summary of :func:`summarise_check` for the terminal."""
    problems = [Problem(**content) for content in summary["findings"]]
    parts: list[RenderableType] = [_sizes(summary), *map(Text, summary["reasons"])]
    parts += _columns(summary["columns"])
    parts += map(Text, _target_lines(summary))
    if problems:
        parts += [_problems(problems), Text()]
    return Group(*parts, _conclusion(summary))


def reading_lines(graph: TableGraph) -> list[Text]:
    """Return how a user's tables were read in a few lines, and each warning in one line."""
    columns = graph.plan.columns
    kinds: Counter[str] = Counter(column.kind for column in columns)
    wanted = ("categorical", "flag", "numeric", "date", "list")
    words = f"columns: {', '.join(f'{kinds[k]:,} {k}' for k in wanted if kinds[k])}"
    ignored = [show_name(column.name) for column in columns if column.kind == "ignored"]
    if ignored:
        words += f"; ignored: {', '.join(ignored[:_MOST_NAMES])}"
    if len(ignored) > _MOST_NAMES:
        words += f" and {len(ignored) - _MOST_NAMES:,} more"
    lines = [*map(Text, graph.plan.reasons), Text(words)]
    for problem in graph.problems:
        label = (f"{problem.severity}: ", _STYLES[problem.severity])
        lines.append(Text.assemble(label, problem.describe()))
    return lines


def _sizes(summary: Summary) -> Text:
    nodes, edges = summary["nodes"], summary["edges"]
    columns = count(len(summary["columns"]), "column")
    words = f"{show_file(nodes['file'])}: {count(nodes['rows'], 'node')}, {columns}; "
    if edges is None:
        words += "no edges"
    else:
        words += f"{show_file(edges['file'])}: {count(edges['rows'], 'edge')}"
    return Text(words, style="bold")


def _columns(columns: Sequence[Summary]) -> Iterator[RenderableType]:
    rows = []
    for column in columns[:_MOST_COLUMNS]:
        style = "dim" if column["kind"] == "ignored" else ""
        cells = (show_name(column["name"]), column["kind"], column["reason"])
        rows.append([Text(cell, style=style) for cell in cells])
    yield make_table(rows, ["column", "read as", "why"])
    hidden = Counter(column["kind"] for column in columns[_MOST_COLUMNS:])
    if hidden:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in hidden.items())
        yield Text(f"and {hidden.total():,} more columns: {kinds} (--json has all)\n")


def _target_lines(summary: Summary) -> Iterator[str]:
    """Yield the balance of classes, or the range of numbers, and the homophily, a line each."""
    balance, homophily = summary["balance"], summary["homophily"]
    if balance is None:
        return
    unlabelled = balance["nodes"] - balance["labelled"]
    rest = f"; {count(unlabelled, 'node')} without a label" if unlabelled else ""
    if "mean" in balance:
        yield "numbers: {min:g} to {max:g}, mean {mean:.4g}, sd {sd:.4g}".format(**balance) + rest
    elif balance.get("classes"):
        classes = sorted(balance["classes"], key=lambda each: -each["nodes"])
        shown = [
            f"{show_name(each['name'])} {each['nodes']:,} ({each['share']:.0%})"
            for each in classes[:_MOST_CLASSES]
        ]
        more = len(classes) - _MOST_CLASSES
        yield f"classes: {', '.join(shown)}" + f" and {more:,} more" * (more > 0) + rest
    if homophily is None:
        return
    if "correlation" in homophily:
        yield f"homophily: the numbers of neighbours correlate by {homophily['correlation']:.2f}"
    else:
        yield (
            f"homophily: {homophily['same_class']:.0%} of edges join equal classes "
            f"(by chance {homophily['chance']:.0%})"
        )


def _problems(problems: Sequence[Problem]) -> RenderableType:
    """Return severity, place and problem in one row each, with the remedy below."""
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    for problem in problems:
        told = Text.assemble((f"{problem.place}: ", "bold"), problem.statement)
        grid.add_row(Text(problem.severity, style=_STYLES[problem.severity]), told)
        grid.add_row("", Text(f"→ {problem.remedy}", style="italic"))
    return grid


def _conclusion(summary: Summary) -> Text:
    """Return the number of errors and warnings, and what to do next."""
    counted = f"{count(summary['errors'], 'error')}, {count(summary['warnings'], 'warning')}"
    if summary["errors"]:
        return Text(f"{counted}: correct the errors and check again", style=_STYLES["error"])
    return Text(f"{counted}: {summary['next']} is next", style="green")
