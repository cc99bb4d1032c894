"""The result of ``explain`` at the terminal: crosses of each class, or the sum of one score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.explanation.column_details import NodeSum, cell_text
from crossgcn.explanation.columns import CROSS, WHOSE, ColumnTerms
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.run import ExplainedRun
from crossgcn.reports.format import points
from crossgcn.reports.terminal.tables import text_columns

_BAR = 12


def class_tables(explained: ExplainedRun, top: int, num_nodes: int) -> Iterator[RenderableType]:
    """Yield the strongest crosses of each class, then its ``top`` strongest single features."""
    for name in explained.terms["class"].unique():
        crosses = explained.crosses[explained.crosses["class"] == name]
        terms = explained.terms[explained.terms["class"] == name].head(top)
        yield Text(f"\nclass {name}", style="bold")
        if len(crosses):
            yield _table(crosses, num_nodes, "cross", explained.num_models)
        yield _table(terms, num_nodes, "single feature", 0)
    legend = ["strength: weight × occurrence, + for the class, - against it"]
    if len(explained.crosses) and explained.num_models > 1:
        legend.append("stable: number of runs that have it among their strongest")
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


def _table(frame: pd.DataFrame, num_nodes: int, title: str, num_models: int) -> Table:
    """Return one table; ``num_models`` is 0 for single features, which have no stability."""
    stable, drop = num_models > 1, num_models > 0
    table = _wide_table(title)
    for name in ("strength", "", "weight", "nodes", *["stable"] * stable, *["drop"] * drop):
        table.add_column(name, justify="right" if name else "left")
    largest = float(frame["strength"].abs().max()) or 1.0
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
    """Yield one class score of one node as a sum, and the ``top`` nodes that contribute to it."""
    yield Text(f"node {ids[explanation.node]}, class {classes[explanation.target]}", style="bold")
    ranking = sorted(zip(classes, explanation.logits.tolist(), strict=True), key=lambda p: -p[1])
    shown = ", ".join(f"{name} {value:+.3f}" for name, value in ranking[:6])
    yield Text(f"scores: {shown}" + (" ..." if len(ranking) > 6 else ""))
    yield _sum_table(explanation, top)
    yield _source_table(explanation, ids, top)
    if explanation.completeness < 1:
        yield _left_out(f"{explanation.completeness:.1%} of the score")


def _sum_table(explanation: NodeExplanation, top: int) -> Table:
    score = float(explanation.logits[explanation.target])
    terms = explanation.by_cross
    listed = terms.head(top)
    rest = score - explanation.bias - explanation.left_out - float(listed["contribution"].sum())
    rows = [("bias", explanation.bias)]
    rows += list(zip(listed["cross"], listed["contribution"], strict=True))
    if len(terms) > len(listed):
        rows.append((f"{len(terms) - len(listed):,} other terms together", rest))
    if explanation.left_out:
        rows.append(("crosses of hidden units", explanation.left_out))
    table = _wide_table("feature or cross", "score")
    table.show_footer = True
    table.add_column("contribution", f"{score:+.4f}", justify="right")
    table.add_column("")
    largest = max(abs(value) for _, value in rows) or 1.0
    for name, value in rows:
        table.add_row(Text(name), f"{value:+.4f}", _bar(value, largest))
    return table


def _source_table(explanation: NodeExplanation, ids: Sequence[str], top: int) -> Table:
    table = text_columns("from node")
    table.add_column("hops", justify="right")
    table.add_column("contribution", justify="right")
    table.add_column("strongest cross or feature", overflow="fold", ratio=1)
    nodes = explanation.by_node.head(top)
    terms = explanation.frame_of(nodes["source"].tolist())
    strongest = terms.drop_duplicates("source").set_index("source")["cross"]
    for row in nodes.to_dict("records"):
        itself = row["source"] == explanation.node
        name = ids[row["source"]] + (" (itself)" if itself else "")
        cross = Text(str(strongest.get(row["source"], "")))
        table.add_row(Text(name), str(row["hops"]), f"{row['contribution']:+.4f}", cross)
    return table


def column_tables(
    terms: ColumnTerms, records: Sequence[dict[str, Any]]
) -> Iterator[RenderableType]:
    """Yield the most important terms of each score, with bars on one scale."""
    largest = max((row["importance"] for row in records), default=0.0) or 1.0
    for name in dict.fromkeys(row["class"] for row in records):
        kind = name if terms.unit == name else f"class {name} ({terms.unit})"
        yield Text(f"\n{kind}", style="bold")
        table = _wide_table("term")
        table.add_column("importance", justify="right")
        table.add_column("")
        table.add_column("inside", overflow="fold", ratio=1)
        for row in records:
            if row["class"] == name:
                error = "" if row["error"] is None else f" ± {row['error']:.2g}"
                cells = "; ".join(map(cell_text, row.get("cells", ())[:2]))
                table.add_row(
                    Text(CROSS.join(row["columns"])),
                    f"{row['importance']:#.3g}{error}",
                    _bar(row["importance"], largest),
                    Text(f"slope {row['slope']:+.3g}" if "slope" in row else cells),
                )
        yield table
    yield Text(
        "importance: standard deviation of the term over nodes, in the unit of the score; "
        "inside: its largest cells, or the slope per standard deviation",
        style="dim",
    )


def column_node_tables(explained: NodeSum, node: str, top: int) -> Iterator[RenderableType]:
    """Yield one score of one node: from the average over nodes to this node."""
    kind = explained.output
    if explained.unit != kind:
        kind = f"class {kind} ({explained.unit})"
    yield Text(f"node {node}, {kind}", style="bold")
    listed, others = explained.frame.head(top), explained.frame.iloc[top:]
    rows = [("average", "", explained.average)]
    rows += list(zip(listed["term"], listed["whose"], listed["contribution"], strict=True))
    if len(others):
        rows.append((f"{len(others):,} other terms together", "", others["contribution"].sum()))
    table = _wide_table("term", "score")
    table.show_footer = True
    table.add_column("whose")
    table.add_column("contribution", f"{explained.score:+.4g}", justify="right")
    table.add_column("")
    largest = max(abs(value) for _, _, value in rows) or 1.0
    for name, whose, value in rows:
        table.add_row(Text(name), whose, f"{value:+.4g}", _bar(value, largest))
    yield table
    sums = ", ".join(f"{whose} {explained.sum_of(whose):+.4g}" for whose in WHOSE)
    yield Text(f"all terms: {sums} (both: crosses of the two)", style="dim")


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
