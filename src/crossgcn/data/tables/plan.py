"""Decide the kind of each column: chosen by the user, or inferred."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from crossgcn.data.relations import NEIGHBOURS
from crossgcn.data.tables.cells import CODE, MISSING_WORDS, SPLIT_WORDS, are_whole
from crossgcn.data.tables.edges import (
    MIN_SHARE_KNOWN,
    EdgeTables,
    RelationPlan,
    choice_for,
    plan_relation,
    shares_known,
    simplify,
)
from crossgcn.data.tables.encode import ColumnKind, ColumnPlan, infer_kind
from crossgcn.data.tables.kinds.base import MIN_SHARE_OF_KIND
from crossgcn.data.tables.table import INDEX_COLUMN, Distinct, Table
from crossgcn.errors import BadInput, unknown_name

Task = Literal["classification", "regression"]
RareClasses = Literal["drop", "refuse"]
UnknownIds = Literal["refuse", "drop"]

MAX_CLASSES_OF_NUMBERS = 20  # more distinct whole numbers are predicted as numbers
MIN_SHARE_DIFFERENT = 0.9  # share of distinct values in a column of ids

ID_NAMES = ("id", "node_id", "nodeid", "node", "identifier", "uid", "key", "vertex", "index")

_KINDS: tuple[tuple[str, ColumnKind], ...] = (
    *(("categorical", "categorical"), ("numeric", "numeric")),
    *(("lists", "list"), ("ignored", "ignored")),
)
"""The choices that list columns of one kind."""


class TableChoices(BaseModel):
    """The user's choices about the tables; everything else is inferred.

    Attributes:
        target: Column of the node table to predict; None for nodes to be scored.
        task: Whether classes or a number are predicted.
        rare_classes: How to treat classes with too few nodes to train, validate and test:
            ``drop`` their labels, or ``refuse`` them.
        name_column: Column of the node table with names to show beside the ids; not a feature.
        edge_weight: Column of weights of edges; without it, all weights are 1. Of several tables
            of edges, it is that of each table that has it; ``ties: strength`` is of one only, as in
            all choices of columns of edges.
        split_column: Column of the node table that names training, validation and test nodes.
        time_column: Column of the node table with the time of each node, a number or a date; not a
            feature. Neighbours show their labels to later nodes only.
        categorical: Columns of categories, each of which gets a feature. In columns that are
            inferred as categories, those of a single node share a feature.
        lists: Columns of lists of words.
        missing: Further words for a missing value, such as ``unknown``, in any case; ``-none``
            removes a word from :data:`MISSING_WORDS`. Blank cells are always missing. In a target
            of classes, only blank cells and the words given here are missing.
        unknown_ids: How to treat edges to ids that no node has: ``refuse`` or ``drop``.
        relation: Word for neighbours in the names of their columns, such as ``friends``, if there
            is one table of edges without a name.
        directed: Names of the relations whose edges lead from the first to the second end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str | None = None
    task: Task | None = None
    rare_classes: RareClasses = "drop"
    id_column: str | None = None
    name_column: str | None = None
    source_column: str | None = None
    destination_column: str | None = None
    edge_weight: str | None = None
    split_column: str | None = None
    time_column: str | None = None
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unknown_ids: UnknownIds = "refuse"
    relation: str = NEIGHBOURS
    directed: tuple[str, ...] = ()

    def node_columns(self) -> list[tuple[str, ColumnKind]]:
        """Return the chosen columns of the tables, and the kind of each."""
        named: list[tuple[str | None, ColumnKind]] = [
            (self.target, "target"),
            (self.id_column, "id"),
            (self.name_column, "ignored"),
            (self.split_column, "split"),
            (self.time_column, "ignored"),
            *((name, kind) for choice, kind in _KINDS for name in getattr(self, choice)),
        ]
        return [(name, kind) for name, kind in named if name is not None]

    def edge_columns(self) -> dict[str, str]:
        """Return the chosen columns of the edge table, by the name of the choice."""
        choices = {"source_column", "destination_column", "edge_weight"}
        return self.model_dump(include=choices, exclude_none=True)

    def check(
        self, nodes: Table, edges: EdgeTables
    ) -> tuple[dict[str, ColumnKind], dict[str, dict[str, ColumnKind]]]:
        """Check that chosen columns exist and have one kind each.

        Returns:
            The kinds of columns of nodes, and those of columns of edges by relation.
        """
        if self.task is not None and self.target is None:
            raise BadInput(
                f"task is {self.task}, but there is no target; name the column to predict"
            )
        for name in (self.relation, *edges):
            if not name.strip() or ":" in name:
                raise BadInput(
                    f"relation is {name!r}; give a word for neighbours without a colon, such as "
                    "friends"
                )
        for name in self.directed:
            if name not in edges:
                raise unknown_name("relation", name, edges)
        for choice, column in self.edge_columns().items():
            if not edges:
                raise BadInput(
                    f"{choice} is {column!r}, but there is no table of edges; give one, or leave "
                    "the choice out"
                )
            if not any(choice_for({choice: column}, name, edges[name]) for name in edges):
                next(iter(edges.values())).require(column)
        of_nodes, of_edges = self.node_columns(), {}
        for name, table in edges.items():
            chosen = choice_for(self.edge_columns(), name, table)
            _check_columns(table, [(column, choice) for choice, column in chosen.items()])
            start = f"{name}: "
            own = {(column, kind) for column, kind in of_nodes if column.startswith(start)}
            own = {each for each in own if each[0] not in nodes.columns}
            of_nodes = [each for each in of_nodes if each not in own]
            of_edges[name] = _check_columns(table, [(c.removeprefix(start), k) for c, k in own])
        return _check_columns(nodes, of_nodes), of_edges

    def missing_words(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the words for a missing value in features, and those in a target of classes."""
        words = {word.strip().lower() for word in self.missing} - {""}
        added = frozenset(word for word in words if not word.startswith("-"))
        return (MISSING_WORDS | added) - {word[1:] for word in words - added}, added

    def as_options(self) -> dict[str, Any]:
        """Return the choices that differ from the defaults, by command-line option."""
        options = {}
        for name, value in self.model_dump(exclude_defaults=True).items():
            if isinstance(value, tuple):
                value = ",".join(each.replace(",", "\\,") for each in value)
            options["ignore" if name == "ignored" else name] = value
        return options


def _check_columns(table: Table, named: list[Any]) -> dict[str, Any]:
    """Return the kind of each named column; refuse missing columns and two kinds of one."""
    kinds: dict[str, Any] = {}
    for name, kind in named:
        if kinds.setdefault(table.require(name), kind) != kind:
            raise BadInput(
                f"column {name!r} of {table.name} is chosen as {kinds[name]} and as {kind}; "
                "choose one of them"
            )
    return kinds


class TablePlan(TableChoices):
    """The choices of the user, completed by inference.

    Attributes:
        columns: The columns of the node table, in order.
        relations: The columns of each table of edges.
        reasons: One line for each special column, which says how it was found.
    """

    id_column: str
    task: Task
    columns: tuple[ColumnPlan, ...]
    relations: tuple[RelationPlan, ...] = ()
    reasons: tuple[str, ...]

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that become features."""
        others = ("id", "target", "split", "ignored")
        return tuple(column for column in self.columns if column.kind not in others)

    def with_missing_words(self, nodes: Table) -> Table:
        """Return the node table with the plan's words for a missing value."""
        words, of_target = self.missing_words()
        is_class = self.target is not None and self.task == "classification"
        return nodes.with_missing_words(words, {str(self.target): of_target} if is_class else {})


def make_plan(
    nodes: Table,
    edges: Table | EdgeTables | None,
    choices: TableChoices,
    through: Collection[str] = (),
) -> TablePlan:
    """Decide the kind of every column: as the user chose, else by its name and content.

    Raise an error if choices contradict each other or name a missing column, and if the columns
    of the ids and of the ends of edges are missing or ambiguous.

    Args:
        through: Names of the tables of edges to things that nodes share.
    """
    relation = choices.relation.strip()
    edges = {relation: edges} if isinstance(edges, Table) else edges or {}
    chosen, chosen_of_edges = choices.check(nodes, edges)
    words, _ = choices.missing_words()
    edges = {name: table.with_missing_words(words) for name, table in edges.items()}
    nodes = nodes.with_missing_words(words)
    id_column, how = choices.id_column, "as chosen"
    if id_column is None:
        id_column, how = _find_id_column(nodes, edges, chosen.keys(), through)
    reasons = [f"ids of nodes: {nodes.name}, column {id_column}: {how}"]
    relations = []
    for name, table in edges.items():
        planned, how_found = plan_relation(
            name,
            table,
            nodes.distinct(id_column),
            choice_for(choices.edge_columns(), name, table),
            chosen_of_edges[name],
            directed=name in choices.directed,
            through=name in through,
        )
        relations.append(planned)
        reasons += how_found
    titles = [each.title for each in relations]
    for title in titles:
        if titles.count(title) > 1:
            raise BadInput(f"two relations are called {title!r}; rename one, or its column")
    split_column, how = choices.split_column, "as chosen"
    if split_column is None:
        split_column = _find_split_column(nodes, {*chosen, id_column})
        how = "its name and its words"
    if split_column is not None:
        reasons.append(f"split: {nodes.name}, column {split_column}: {how}")
    if choices.missing:
        listed = ", ".join(sorted(words)) or "nothing else"
        reasons.append(f"missing values: blank cells, {listed}: as chosen")
    task = choices.task or "classification"
    if choices.target is not None and choices.task is None:
        task, how = _infer_task(nodes.distinct(choices.target))
        reasons.append(f"target: {nodes.name}, column {choices.target}: {how}")
    known: dict[str | None, tuple[str, str]] = {
        INDEX_COLUMN: ("ignored", "no header, as an index has none"),
        **{name: (kind, "as chosen") for name, kind in chosen.items()},
        choices.name_column: ("ignored", "names, shown beside the ids"),
        choices.time_column: ("ignored", "time: later nodes test, and see labels of earlier ones"),
        choices.target: ("target", "to be predicted"),
        split_column: ("split", "training, validation or test"),
        id_column: ("id", "names the node"),
    }
    columns = []
    for name in nodes.columns:
        kind, reason = known[name] if name in known else infer_kind(name, nodes.distinct(name))
        columns.append({"name": name, "kind": kind, "reason": reason, "chosen": name in chosen})
    found = {
        "id_column": id_column,
        "split_column": split_column,
        "task": task,
        "relation": relation,
        "columns": columns,
        "relations": tuple(relations),
        "reasons": reasons,
    }
    return TablePlan.model_validate(choices.model_dump() | found)


def _infer_task(target: Distinct) -> tuple[Literal["classification", "regression"], str]:
    """Return the task and why: fractions, and many whole numbers, mean ``regression``."""
    numbers = target.numbers
    num_numbers = target.num_cells(~np.isnan(numbers))
    are_codes = any(map(CODE.fullmatch, target.texts_present))
    if num_numbers == 0 or num_numbers < MIN_SHARE_OF_KIND * target.num_present or are_codes:
        return "classification", "classes"
    finite = np.unique(numbers[np.isfinite(numbers)])
    if not are_whole(finite) or len(finite) > MAX_CLASSES_OF_NUMBERS:
        return "regression", "a number"
    if len(finite) <= 2:
        return "classification", "classes"
    words = f"{len(finite)} different whole numbers, read as classes; --task regression predicts"
    return "classification", f"{words} the number"


def _find_id_column(
    nodes: Table, edges: EdgeTables, taken: Set[str], through: Collection[str]
) -> tuple[str, str]:
    """Return the column of node ids and how it was found; ``taken`` columns have another role.

    With edges, it is the column of distinct values that holds their ends, those of most tables; if
    several columns do, the edges are ambiguous and an error is raised. Without edges, or if no
    column holds the ends, it is a column called ``id`` or similar, else the first whose values are
    distinct. Numbers with fractions are not ids, and a column without a header is tried last.
    """
    free = [name for name in nodes.columns if name not in taken]
    by_name = [name for each in ID_NAMES for name in free if simplify(name) == each]
    share = {name: _share_different(nodes.distinct(name)) for name in free}
    # A column that repeats a few values is found here; the check then reports the rows.
    different = [name for name in free if share[name] >= MIN_SHARE_DIFFERENT]
    different.sort(
        key=lambda name: (share[name] < 1, name == INDEX_COLUMN, not name.lower().endswith("id"))
    )
    candidates = [*by_name, *different]
    if edges:
        fits = dict.fromkeys(candidates, 0)
        for relation, table in edges.items():
            ends = 1 if relation in through else 2  # both ends of an edge must fit
            shares = {name: shares_known(table, nodes.distinct(name)).values() for name in fits}
            held = {name: sorted([0.0, *shares[name]])[-ends] for name in fits}
            least = 1.0 if 1.0 in held.values() else MIN_SHARE_KNOWN
            fits = {name: fits[name] + (held[name] >= least) for name in fits}
        most = max(fits.values(), default=0)
        fitting = [name for name in fits if fits[name] == most > 0]
        if len(fitting) > 1:
            raise BadInput(
                f"{nodes.name}: columns {' and '.join(fitting)} could both be the ids, since the "
                "ends of edges are in each; name one with --id-column"
            )
        if fitting:
            how = "its name, and " if fitting[0] in by_name else ""
            return fitting[0], f"{how}it holds the ends of edges"
    if not candidates:
        raise BadInput(
            f"{nodes.name}: no column tells the nodes apart (none is called id, and every one "
            "repeats its values); name it with --id-column, or add a column id"
        )
    return candidates[0], "its name" if by_name else "the first column whose values differ"


def _share_different(distinct: Distinct) -> float:
    """Return the share of distinct values; 0 for numbers with fractions."""
    if not are_whole(distinct.numbers[np.isfinite(distinct.numbers)]):
        return 0.0
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _find_split_column(nodes: Table, taken: Set[str]) -> str | None:
    """Return a column called ``split`` if most of its cells name a role, else None.

    The check reports other words as errors; a column with a typo does not become a feature.
    """
    for name in nodes.columns:
        if name not in taken and simplify(name) == "split":
            distinct = nodes.distinct(name)
            known = distinct.num_cells(distinct.is_one_of(SPLIT_WORDS.keys()))
            if 2 * known > distinct.num_present:
                return name
    return None
