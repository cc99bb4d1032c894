"""The result of ``check``: how the tables were read, and the problems in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as TerminalTable
from rich.text import Text

from crossgcn.data.tables.checks.problems import CheckedTables, Problem, show_file, show_name
from crossgcn.data.tables.labels import read_labels
from crossgcn.reports.format import Summary, count
from crossgcn.reports.terminal.tables import text_columns

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import ColumnPlan, TablePlan
    from crossgcn.data.tables.table import Table

MOST_COLUMNS = 60
"""How many columns are listed one by one."""

MOST_CLASSES = 10
"""How many classes are listed one by one."""

BROKEN_IDS = ("missing-id", "duplicate-id", "no-edge-end-known")
"""Problems with which edges cannot be told to join nodes."""

STYLES = {"error": "bold red", "warning": "yellow"}


def summarise_check(
    nodes: Table,
    edges: Table | None,
    plan: TablePlan,
    problems: Sequence[Problem],
    next_command: str,
) -> Summary:
    """Return how the tables were read and what was found; ``next_command`` if without errors."""
    severities = Counter(problem.severity for problem in problems)
    are_broken = any(problem.kind in BROKEN_IDS for problem in problems)
    checked = CheckedTables(plan.with_missing_words(nodes), edges, plan)
    homophily = None if are_broken else checked.homophily
    return {
        "nodes": {
            "file": nodes.name,
            "rows": len(nodes),
            "id_column": plan.id_column,
            "target": plan.target,
            "split_column": plan.split_column,
        },
        "edges": None
        if edges is None
        else {
            "file": edges.name,
            "rows": len(edges),
            "source_column": plan.source_column,
            "destination_column": plan.destination_column,
            "weight_column": plan.weight_column,
        },
        "balance": _balance(nodes, plan),
        "homophily": homophily,
        "columns": [column.model_dump() for column in plan.columns],
        "reasons": list(plan.reasons),
        "findings": [problem.to_json() for problem in problems],
        "errors": severities["error"],
        "warnings": severities["warning"],
        "next": None if severities["error"] else next_command,
    }


def check_page(summary: Summary) -> Group:
    """Return the summary of :func:`summarise_check` for the terminal."""
    problems = [Problem(**content) for content in summary["findings"]]
    parts: list[RenderableType] = [_sizes(summary), *map(Text, summary["reasons"])]
    parts.append(_columns_table(summary["columns"]))
    parts += map(Text, _target_lines(summary))
    if problems:
        parts += [_problems_table(problems), Text()]
    parts.append(_conclusion(summary))
    return Group(*parts)


def _balance(nodes: Table, plan: TablePlan) -> Summary | None:
    """Return how many nodes each class has, or how the numbers to predict are distributed."""
    if plan.target is None:
        return None
    nodes = plan.with_missing_words(nodes)
    labels = read_labels(nodes, plan)
    summary: Summary = {"task": plan.task, "labelled": labels.num_known, "nodes": len(nodes)}
    if labels.numbers is None:
        sizes = zip(labels.names, labels.counts.tolist(), strict=True)
        classes = [
            {"name": name, "nodes": size, "share": size / max(labels.num_known, 1)}
            for name, size in sizes
        ]
        return {**summary, "classes": classes}
    known = labels.numbers[labels.known].astype(float)
    if len(known) == 0 or not np.isfinite(known).all():
        return summary
    measures = {"mean": known.mean(), "sd": known.std(), "min": known.min(), "max": known.max()}
    return {**summary, **{name: float(value) for name, value in measures.items()}}


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
            for each in classes[:MOST_CLASSES]
        ]
        more = len(classes) - MOST_CLASSES
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


def reading_lines(graph: TableGraph) -> list[Text]:
    """Return how a user's tables were read in a few lines, and each warning in one line."""
    lines = [Text(reason) for reason in graph.plan.reasons]
    lines.append(Text(_kinds_line(graph.plan.columns)))
    for problem in graph.problems:
        label = (f"{problem.severity}: ", STYLES[problem.severity])
        lines.append(Text.assemble(label, problem.describe()))
    return lines


def _kinds_line(columns: Sequence[ColumnPlan]) -> str:
    """Return ``columns: 4 categorical, 2 numeric; ignored: name``."""
    kinds: Counter[str] = Counter(column.kind for column in columns)
    wanted = ("categorical", "flag", "numeric", "date", "list")
    used = [f"{kinds[kind]:,} {kind}" for kind in wanted if kinds[kind]]
    ignored = [show_name(column.name) for column in columns if column.kind == "ignored"]
    shown = ", ".join(ignored[:10]) + (f" and {len(ignored) - 10:,} more" * (len(ignored) > 10))
    return f"columns: {', '.join(used)}" + (f"; ignored: {shown}" if ignored else "")


def _sizes(summary: Summary) -> Text:
    nodes, edges = summary["nodes"], summary["edges"]
    width = count(len(summary["columns"]), "column")
    words = f"{show_file(nodes['file'])}: {count(nodes['rows'], 'node')}, {width}"
    if edges is None:
        return Text(f"{words}; no edges", style="bold")
    return Text(
        f"{words}; {show_file(edges['file'])}: {count(edges['rows'], 'edge')}", style="bold"
    )


def _columns_table(columns: Sequence[Summary]) -> RenderableType:
    table = text_columns("column", "read as", "why")
    for column in columns[:MOST_COLUMNS]:
        style = "dim" if column["kind"] == "ignored" else None
        name = Text(show_name(column["name"]))
        table.add_row(name, column["kind"], Text(column["reason"]), style=style)
    hidden = Counter(column["kind"] for column in columns[MOST_COLUMNS:])
    if not hidden:
        return table
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in hidden.items())
    return Group(table, Text(f"and {hidden.total():,} more columns: {kinds} (--json has all)\n"))


def _problems_table(problems: Sequence[Problem]) -> TerminalTable:
    """Return severity, place and problem in one row each, with the remedy below."""
    table = TerminalTable.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    for problem in problems:
        told = Text.assemble((f"{problem.place}: ", "bold"), problem.statement)
        table.add_row(Text(problem.severity, style=STYLES[problem.severity]), told)
        table.add_row("", Text(f"→ {problem.remedy}", style="italic"))
    return table


def _conclusion(summary: Summary) -> Text:
    """Return the number of errors and warnings, and what to do next."""
    errors, warnings = summary["errors"], summary["warnings"]
    counted = f"{count(errors, 'error')}, {count(warnings, 'warning')}"
    if errors:
        return Text(f"{counted}: correct the errors and check again", style=STYLES["error"])
    return Text(f"{counted}: {summary['next']} is next", style="green")
