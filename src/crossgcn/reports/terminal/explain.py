"""What ``explain`` shows at the terminal: crosses of each class, or what makes up one score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.run import ExplainedRun

_BAR = 12
_UP, _DOWN = "green", "red"


def class_tables(explained: ExplainedRun, top: int, num_nodes: int) -> Iterator[RenderableType]:
    """For each class its strongest crosses, then its strongest single features.

    Args:
        explained: The crosses.
        top: How many single features.
        num_nodes: Of the graph, to say how often a cross occurs.
    """
    for name in explained.terms["class"].unique():
        crosses = explained.crosses[explained.crosses["class"] == name]
        terms = explained.terms[explained.terms["class"] == name].head(top)
        yield Text(f"\nclass {name}", style="bold")
        if len(crosses):
            yield _table(crosses, num_nodes, "cross", explained.num_models)
        yield _table(terms, num_nodes, "feature by itself", None)
    legend = ["strength: weight × how often it occurs, + speaks for the class, - against it"]
    if len(explained.crosses) and explained.num_models > 1:
        legend.append("stable: in how many of the runs it is as strong")
    if len(explained.crosses):
        legend.append("drop: accuracy lost on test nodes without it, in points")
    yield Text("; ".join(legend), style="dim")
    if explained.completeness < 1:
        yield Text(
            f"Named terms account for {explained.completeness:.1%} of a score on average; the rest "
            "is crosses of hidden units, which later layers make.",
            style="dim",
        )
    if not explained.complete:
        yield Text(
            "The search for crosses of three features and more was stopped before its end: a "
            "stronger one may exist.",
            style="yellow",
        )


def _table(frame: pd.DataFrame, num_nodes: int, title: str, num_models: int | None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, overflow="fold", ratio=1)
    table.add_column("strength", justify="right")
    table.add_column("")
    table.add_column("weight", justify="right")
    table.add_column("nodes", justify="right")
    if num_models is not None and num_models > 1:
        table.add_column("stable", justify="right")
    if num_models is not None:
        table.add_column("drop", justify="right")
    largest = float(frame["strength"].abs().max()) or 1.0
    for row in frame.to_dict("records"):
        cells = [
            Text(str(row["cross"])),
            Text(f"{row['strength']:+#.3g}"),
            _bar(row["strength"], largest),
            Text(f"{row['weight']:+#.3g}"),
            Text(f"{row['support']:,} ({row['support'] / num_nodes:.0%})"),
        ]
        if num_models is not None and num_models > 1:
            cells.append(Text(f"{round(row['stability'] * num_models)}/{num_models}"))
        if num_models is not None:
            cells.append(Text(f"{100 * row['accuracy_drop']:+z.1f}"))
        table.add_row(*cells)
    return table


def node_tables(
    explanation: NodeExplanation, ids: Sequence[str], classes: Sequence[str], top: int
) -> Iterator[RenderableType]:
    """One class score of one node, as a sum that adds up, and where it came from.

    Args:
        explanation: The score taken apart.
        ids: Names of the nodes.
        classes: Names of the classes.
        top: How many terms and nodes to list.
    """
    score = float(explanation.logits[explanation.target])
    yield Text(f"node {ids[explanation.node]}, class {classes[explanation.target]}", style="bold")
    ranking = sorted(zip(classes, explanation.logits.tolist(), strict=True), key=lambda p: -p[1])
    shown = ", ".join(f"{name} {value:+.3f}" for name, value in ranking[:6])
    yield Text(f"scores: {shown}" + (" ..." if len(ranking) > 6 else ""))
    yield _sum_table(explanation, score, top)
    yield _origin_table(explanation, ids, top)
    if explanation.completeness < 1:
        yield Text(
            f"Named terms account for {explanation.completeness:.1%} of the score; the rest is "
            "crosses of hidden units, which later layers make.",
            style="dim",
        )


def _sum_table(explanation: NodeExplanation, score: float, top: int) -> Table:
    terms = explanation.by_cross
    listed = terms.head(top)
    rest = score - explanation.bias - explanation.left_out - float(listed["contribution"].sum())
    rows = [("bias", explanation.bias)]
    rows += list(zip(listed["cross"], listed["contribution"], strict=True))
    if len(terms) > len(listed):
        rows.append((f"{len(terms) - len(listed):,} other terms together", rest))
    if explanation.left_out:
        rows.append(("crosses of hidden units", explanation.left_out))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("feature or cross", "score", overflow="fold", ratio=1)
    table.add_column("contribution", f"{score:+.4f}", justify="right")
    table.add_column("")
    largest = max(abs(value) for _, value in rows) or 1.0
    for name, value in rows:
        table.add_row(Text(name), f"{value:+.4f}", _bar(value, largest))
    return table


def _origin_table(explanation: NodeExplanation, ids: Sequence[str], top: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("from node", overflow="fold")
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


def _bar(value: float, largest: float) -> Text:
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style=_UP if value > 0 else _DOWN)
