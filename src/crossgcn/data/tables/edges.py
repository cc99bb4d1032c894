"""What the columns of a table of edges are: both ends, a weight, columns that describe an edge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from crossgcn.data.relations import NEIGHBOURS
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.encode import ColumnKind, ColumnPlan, infer_kind
from crossgcn.data.tables.table import INDEX_COLUMN, Distinct, Table
from crossgcn.errors import BadInput

MIN_SHARE_KNOWN = 0.5  # share of the ends of edges that must occur among the ids
MAX_TEXTS = 1_000  # so many different texts do not describe an edge

EDGE_NAMES = (
    *("source target", "source destination", "src dst", "src dest", "from to", "u v", "start end"),
    *("head tail", "sender receiver", "node1 node2", "node_1 node_2", "id1 id2", "id_1 id_2"),
    *("left right", "a b"),
)
WEIGHT_NAMES = ("weight", "edge_weight")

EdgeTables = Mapping[str, Table]
"""Tables of edges by the name of their relation."""


class RelationPlan(BaseModel):
    """What the columns of one table of edges are.

    Attributes:
        name: The name that the user gave to the relation.
        edge_weight: Column of weights; without it, all weights are 1.
        through: Whether the second column holds things; nodes that share one are neighbours.
        columns: The other columns, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source_column: str
    destination_column: str
    edge_weight: str | None = None
    directed: bool = False
    through: bool = False
    columns: tuple[ColumnPlan, ...] = ()

    @property
    def title(self) -> str:
        """What neighbours are called in the names of their columns."""
        return f"same {self.destination_column}" if self.through else self.name

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that describe edges."""
        return tuple(column for column in self.columns if column.kind != "ignored")


def join_relations(edges: Mapping[str, Any], more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return two sets of relations as one; refuse a name that is in both."""
    for name in more or {}:
        if name in edges:
            raise BadInput(f"two relations are called {name!r}; give each a name of its own")
    return {**edges, **(more or {})}


def choice_for(chosen: Mapping[str, str], name: str, table: Table) -> dict[str, str]:
    """Return the choices that are about one table of edges.

    ``ties: strength`` is the column of one relation; ``strength`` is that of every table that has
    it.
    """
    found = {}
    for choice, column in chosen.items():
        if column in table.columns:
            found[choice] = column
        elif column.startswith(f"{name}: "):
            found[choice] = table.require(column.removeprefix(f"{name}: "))
    return found


def plan_relation(
    name: str,
    edges: Table,
    ids: Distinct,
    chosen: Mapping[str, str],
    kinds: Mapping[str, ColumnKind],
    *,
    directed: bool = False,
    through: bool = False,
) -> tuple[RelationPlan, list[str]]:
    """Return what the columns of a table of edges are, and how that was found.

    Args:
        ids: The ids of the nodes.
        chosen: Columns that the user named, by choice.
        kinds: Kinds of further columns that the user chose.
    """
    others = [each for each in edges.columns if each not in {*chosen.values(), *kinds}]
    by_name = [each for each in others if simplify(each) in WEIGHT_NAMES and not through]
    weight = chosen.get("edge_weight", by_name[0] if by_name else None)
    others = [each for each in others if each not in (weight, INDEX_COLUMN)]
    source, destination, how = _find_ends(edges, others, ids, chosen, through)
    taken = {source, destination, weight}
    columns = [] if through else _describe(edges, name, taken, kinds)
    plan = RelationPlan(
        name=name,
        source_column=source,
        destination_column=destination,
        edge_weight=weight,
        directed=directed,
        through=through,
        columns=tuple(columns),
    )
    what = "edges" if name == NEIGHBOURS else plan.title
    reasons = [f"{what}: {edges.name}, columns {source} and {destination}: {how}"]
    reasons[0] += ", directed" if directed else ""
    if weight is not None:
        how = "as chosen" if "edge_weight" in chosen else "its name"
        reasons.append(f"weights of {what}: {edges.name}, column {weight}: {how}")
    if plan.features:
        used = ", ".join(f"{each.name} ({each.kind})" for each in plan.features)
        reasons.append(f"columns of {what}: {edges.name}: {used}")
        taken |= {each.name for each in plan.features}
    unused = [each for each in edges.columns if each not in taken]
    if unused:
        reasons.append(f"not used: {edges.name}, columns {', '.join(unused)}")
    return plan, reasons


def _describe(
    edges: Table, name: str, taken: set[str | None], kinds: Mapping[str, ColumnKind]
) -> list[ColumnPlan]:
    """Return the kinds of the columns that are neither ends nor weights."""
    columns = []
    for column in edges.columns:
        if column in taken or column == INDEX_COLUMN:
            continue
        distinct, reason = edges.distinct(column), "as chosen"
        kind = kinds.get(column)
        if kind is None:
            inferred, reason = infer_kind(column, distinct)
            kind = cast("ColumnKind", inferred)
            is_text = np.isnan(distinct.numbers[~distinct.missing]).any()
            num_texts = len(distinct.texts_present)
            if is_text and kind in ("categorical", "ignored") and num_texts >= MAX_TEXTS:
                shown = quote(f"{name}: {column}")
                text = quote(next(iter(distinct.texts_present)))
                raise BadInput(
                    f"{edges.name}, column {column}: {num_texts:,} different texts, such as "
                    f"{text}, do not describe edges; leave it out with --ignore {shown}, or "
                    f"choose --lists, --numeric or --categorical {shown}"
                )
        chosen = column in kinds
        columns.append(ColumnPlan(name=column, kind=kind, reason=reason, chosen=chosen))
    return columns


def shares_known(edges: Table, ids: Distinct) -> dict[str, float]:
    """Return the share of cells that hold an id, for each column of edges."""
    known = set(ids.ids)
    shares = {}
    for name in edges.columns:
        distinct = edges.distinct(name)
        is_known = np.array([each in known for each in distinct.ids], bool)
        shares[name] = distinct.num_cells(is_known) / len(edges)
    return shares


def _find_ends(
    edges: Table, others: Sequence[str], ids: Distinct, chosen: Mapping[str, str], through: bool
) -> tuple[str, str, str]:
    """Return the columns of both ends of edges, or of nodes and things, and how they were found.

    Ends are chosen, recognised by their names, or the only columns that hold ids. The column of
    things is chosen, or the only one that does not hold ids.
    """
    source, destination = chosen.get("source_column"), chosen.get("destination_column")
    if source and destination:
        return source, destination, "as chosen"
    shares = shares_known(edges, ids)
    holding = [name for name in others if shares[name] >= MIN_SHARE_KNOWN]
    if through:
        sources = [source] if source else holding
        things = [destination] if destination else [name for name in others if name not in sources]
        found, how = [*product(sources, things)], "the first holds ids of nodes"
        what, remedy = "the nodes from what they share", "the nodes with --source-column, and what "
        remedy += "they share with --destination-column"
    else:
        num_open = 1 if source or destination else 2
        likely = holding if len(holding) >= num_open else others
        pairs = product([source] if source else likely, [destination] if destination else likely)
        found = [ends for ends in pairs if " ".join(map(_simplify_end, ends)) in EDGE_NAMES]
        how = "their names"
        if len(found) != 1 and len(holding) == num_open:
            found = [(source or holding[0], destination or holding[-1])]
            how = "they hold ids of nodes"
        what, remedy = "the two ends of edges", "with --source-column and --destination-column"
    if len(found) != 1:
        raise BadInput(
            f"{edges.name}: cannot tell {what}: ids such as {quote(ids.values[0])} are in "
            f"{' and '.join(holding) or 'none'} of the columns {', '.join(edges.columns)}; choose "
            f"{remedy}"
        )
    return *found[0], how


def simplify(name: str) -> str:
    """Return a header in lower case, with one mark between words."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _simplify_end(name: str) -> str:
    return re.sub(r"_?(id|node|node_id)$", "", simplify(name)) or simplify(name)
