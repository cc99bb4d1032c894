"""Rules about the edge table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crossgcn.data.tables.cells import (
    MOST_WEIGHT,
    quote,
)
from crossgcn.data.tables.checks.problems import (
    MISSING,
    UNKNOWN,
    CheckedTables,
    share_of,
    show_name,
)


def edge_ends(tables: CheckedTables) -> None:
    """An edge to an id that no node has would be lost, or join the wrong node."""
    edges, plan = tables.edges, tables.plan
    if edges is None or plan.source_column is None:
        return
    columns, ends = (plan.source_column, str(plan.destination_column)), tables.ends
    ids = tables.nodes.distinct(plan.id_column).values
    where = f"in column {show_name(plan.id_column)} of {tables.nodes.name}"
    for column, found in zip(columns, ends, strict=True):
        message = "the edge has only one end"
        remedy = "name a node, or delete the row"
        tables.add(
            "error", "missing-edge-end", message, remedy, column, found == MISSING, table=edges
        )
    unknown = ends == UNKNOWN
    if 2 * unknown.sum() > unknown.size:
        share = share_of(int(unknown.sum()), unknown.size)
        message = (
            f"{{value}}, like {share} of the ends of edges, is not {where}, where ids are like "
            f"{quote(ids[0])}"
        )
        remedy = (
            "write the ids alike in both tables, or name the right columns with --id-column, "
            "--source-column and --destination-column"
        )
        rows = unknown[int(unknown[1].any() and not unknown[0].any())]
        tables.add(
            "error",
            "no-edge-end-known",
            message,
            remedy,
            columns[int(unknown[1].any() and not unknown[0].any())],
            rows,
            table=edges,
            count=int(unknown.sum()),
        )
        return
    dropped = plan.unknown_ids == "drop"
    for column, rows in zip(columns, unknown, strict=True):
        message = (
            f"{{value}} is not a node: it is not {where}" + "; such edges are left out" * dropped
        )
        remedy = (
            "add the node, or correct the id"
            + ", delete the edge, or give --unknown-ids drop" * (not dropped)
        )
        tables.add(
            "warning" if dropped else "error",
            "unknown-edge-end",
            message,
            remedy,
            column,
            rows,
            table=edges,
        )


def bad_edge_weight(tables: CheckedTables) -> None:
    """Neighbours are averaged by weight, so weights are numbers from 0 on."""
    edges, column = tables.edges, tables.plan.weight_column
    if edges is None or column is None:
        return
    distinct = edges.distinct(column)
    message = f"{{value}} is not a weight from 0 to {MOST_WEIGHT:g}"
    remedy = "write a number, 1 for an ordinary edge, or delete the row"
    rows = ~((distinct.numbers >= 0) & (distinct.numbers <= MOST_WEIGHT))[distinct.codes]
    tables.add("error", "bad-edge-weight", message, remedy, column, rows, table=edges)


def self_loop(tables: CheckedTables) -> None:
    """An edge from a node to itself looks like information and is none."""
    edges, (source, destination) = tables.edges, tables.ends
    if edges is not None:
        message = (
            "{value} is connected to itself; the edge is left out, since every node sees its own "
            "features anyway"
        )
        remedy = "delete the row, or correct one of the ends"
        tables.add(
            "warning",
            "self-loop",
            message,
            remedy,
            tables.plan.source_column,
            (source >= 0) & (source == destination),
            table=edges,
        )


def repeated_edge(tables: CheckedTables) -> None:
    """An edge that is listed twice counts once, and edges have no direction."""
    edges, ends = tables.edges, tables.ends
    if edges is None:
        return
    proper = (ends >= 0).all(axis=0) & (ends[0] != ends[1])
    forward = pd.DataFrame(ends.T).duplicated().to_numpy() & proper
    either = pd.DataFrame(np.sort(ends, axis=0).T).duplicated().to_numpy() & proper
    lists_both_ways = 2 * int((either & ~forward).sum()) == int((proper & ~forward).sum())
    message = "the edge from {value} is listed before, perhaps the other way round, and counts once"
    remedy = "delete the row; give a weight column if it should count more"
    tables.add(
        "warning",
        "repeated-edge",
        message,
        remedy,
        tables.plan.source_column,
        forward if lists_both_ways else either,
        table=edges,
    )


def isolated_node(tables: CheckedTables) -> None:
    """Nodes without edges are usually a sign of lost edges or of ids written otherwise."""
    if tables.edges is None:
        return
    ids = tables.nodes.distinct(tables.plan.id_column)
    degrees = np.bincount(tables.pairs.ravel(), minlength=len(ids.values))
    isolated = (degrees == 0) & ~ids.blank
    share = share_of(int(isolated.sum()), len(isolated))
    message = (
        f"{share} of the nodes have no edges, the first is {{value}}; only their own columns are "
        "used"
    )
    remedy = "add their edges if they should have some"
    tables.add(
        "warning", "isolated-node", message, remedy, tables.plan.id_column, isolated[ids.codes]
    )


def unlike_neighbours(tables: CheckedTables) -> None:
    """Averaging over neighbours of other classes hides what a node is."""
    found = tables.homophily
    if found is None or "same_class" not in found or tables.edges is None:
        return
    share, chance, num_edges = found["same_class"], found["chance"], found["edges"]
    deviation = np.sqrt(chance * (1 - chance) / num_edges)
    if num_edges >= 20 and share < chance - 4 * deviation:
        message = (
            f"only {100 * share:.0f} % of edges join nodes of the same class by column "
            f"{tables.plan.target}, where chance would give {100 * chance:.0f} %: averaging "
            "neighbours may hide what a node is"
        )
        remedy = "compare with a model that sees no graph (mlp), and keep the better"
        tables.add("warning", "unlike-neighbours", message, remedy, table=tables.edges)
