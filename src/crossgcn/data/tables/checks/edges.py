"""Rules about the edge table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.checks.problems import (
    MISSING,
    UNKNOWN,
    CheckedTables,
    Rule,
    Severity,
    show_name,
)


def edge_ends(tables: CheckedTables) -> None:
    """An edge to an id that no node has would be lost, or join the wrong node."""
    edges, plan, ends = tables.edges, tables.plan, tables.ends
    if edges is None or plan.source_column is None:
        return
    columns = (plan.source_column, str(plan.destination_column))
    for column, found in zip(columns, ends, strict=True):
        message, remedy = "the edge has only one end", "name a node, or delete the row"
        rows = found == MISSING
        tables.add("error", "missing-edge-end", message, remedy, column, rows, table=edges)
    unknown, count = ends == UNKNOWN, int((ends == UNKNOWN).sum())
    where = f"in column {show_name(plan.id_column)} of {tables.nodes.name}"
    if 2 * count > unknown.size:
        an_id = quote(tables.nodes.distinct(plan.id_column).values[0])
        message = (
            f"{{value}}, like {count:,} of {unknown.size:,} ends of edges, is not {where}, where "
            f"ids are like {an_id}"
        )
        remedy = (
            "write the ids alike in both tables, or name the right columns with --id-column, "
            "--source-column and --destination-column"
        )
        end = 0 if unknown[0].any() else 1
        kind, column, rows = "no-edge-end-known", columns[end], unknown[end]
        tables.add("error", kind, message, remedy, column, rows, table=edges, count=count)
        return
    severity: Severity = "error"
    message = f"{{value}} is not a node: it is not {where}"
    remedy = "add the node, or correct the id"
    if plan.unknown_ids == "drop":
        severity, message = "warning", f"{message}; such edges are left out"
    else:
        remedy += ", delete the edge, or give --unknown-ids drop"
    for column, rows in zip(columns, unknown, strict=True):
        tables.add(severity, "unknown-edge-end", message, remedy, column, rows, table=edges)


def bad_edge_weight(tables: CheckedTables) -> None:
    """Neighbours are averaged by weight, so weights are numbers from 0 on."""
    edges, column = tables.edges, tables.plan.weight_column
    if edges is not None and column is not None:
        distinct = edges.distinct(column)
        message = f"{{value}} is not a weight from 0 to {MOST_WEIGHT:g}"
        remedy = "write a number, 1 for an ordinary edge, or delete the row"
        rows = ~((distinct.numbers >= 0) & (distinct.numbers <= MOST_WEIGHT))[distinct.codes]
        tables.add("error", "bad-edge-weight", message, remedy, column, rows, table=edges)


def self_loop(tables: CheckedTables) -> None:
    """An edge from a node to itself looks like information and is none."""
    column, (source, destination) = tables.plan.source_column, tables.ends
    rows = (source >= 0) & (source == destination)
    message = (
        "{value} is connected to itself; the edge is left out, since every node sees its own "
        "features anyway"
    )
    remedy = "delete the row, or correct one of the ends"
    tables.add("warning", "self-loop", message, remedy, column, rows, table=tables.edges)


def repeated_edge(tables: CheckedTables) -> None:
    """An edge that is listed twice counts once, and edges have no direction."""
    ends = tables.ends
    proper = (ends >= 0).all(axis=0) & (ends[0] != ends[1])
    forward = pd.DataFrame(ends.T).duplicated().to_numpy() & proper
    either = pd.DataFrame(np.sort(ends, axis=0).T).duplicated().to_numpy() & proper
    lists_both_ways = 2 * int((either & ~forward).sum()) == int((proper & ~forward).sum())
    message = "the edge from {value} is listed before, perhaps the other way round, and counts once"
    remedy = "delete the row; give a weight column if it should count more"
    column, rows = tables.plan.source_column, forward if lists_both_ways else either
    tables.add("warning", "repeated-edge", message, remedy, column, rows, table=tables.edges)


def isolated_node(tables: CheckedTables) -> None:
    """Nodes without edges are usually a sign of lost edges or of ids written otherwise."""
    if tables.edges is None:
        return
    ids = tables.nodes.distinct(tables.plan.id_column)
    degrees = np.bincount(tables.pairs.ravel(), minlength=len(ids.values))
    rows = ((degrees == 0) & ~ids.blank)[ids.codes]
    message = "{value} has no edges: only its own columns are used"
    remedy, column = "add its edges if it should have some", tables.plan.id_column
    tables.add("warning", "isolated-node", message, remedy, column, rows)


EDGES: tuple[Rule, ...] = (edge_ends, bad_edge_weight, self_loop, repeated_edge, isolated_node)
