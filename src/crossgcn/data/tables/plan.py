"""Decide the kind of each column: chosen by the user, or inferred."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from itertools import product
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from crossgcn.data.tables.cells import CODE, MISSING_WORDS, SPLIT_WORDS, are_whole, quote
from crossgcn.data.tables.encode import ColumnKind, infer_kind
from crossgcn.data.tables.kinds.base import MIN_SHARE_OF_KIND
from crossgcn.data.tables.table import INDEX_COLUMN, Distinct, Table
from crossgcn.errors import BadInput

Task = Literal["classification", "regression"]
RareClasses = Literal["drop", "refuse"]
UnknownIds = Literal["refuse", "drop"]

MAX_CLASSES_OF_NUMBERS = 20  # more distinct whole numbers are predicted as numbers
MIN_SHARE_DIFFERENT = 0.9  # share of distinct values in a column of ids
MIN_SHARE_KNOWN = 0.5  # share of the ends of edges that must occur among the ids

ID_NAMES = ("id", "node_id", "nodeid", "node", "identifier", "uid", "key", "vertex", "index")
EDGE_NAMES = (
    *("source target", "source destination", "src dst", "src dest", "from to", "u v", "start end"),
    *("head tail", "sender receiver", "node1 node2", "node_1 node_2", "id1 id2", "id_1 id_2"),
    *("left right", "a b"),
)
WEIGHT_NAMES = ("weight", "edge_weight")


class TableChoices(BaseModel):
    """The user's choices about the tables; everything else is inferred.

    Attributes:
        target: Column of the node table to predict; None for nodes to be scored.
        task: Whether classes or a number are predicted.
        rare_classes: How to treat classes with too few nodes to train, validate and test:
            ``drop`` their labels, or ``refuse`` them.
        name_column: Column of the node table with names to show beside the ids; not a feature.
        weight_column: Column of the edge table with weights; without it, all weights are 1.
        split_column: Column of the node table that names training, validation and test nodes.
        categorical: Columns of categories, each of which gets a feature. In columns that are
            inferred as categories, those of a single node share a feature.
        lists: Columns of lists of words.
        missing: Further words for a missing value, such as ``unknown``, in any case; ``-none``
            removes a word from :data:`MISSING_WORDS`. Blank cells are always missing. In a target
            of classes, only blank cells and the words given here are missing.
        unknown_ids: How to treat edges to ids that no node has: ``refuse`` or ``drop``.
        relation: Word for neighbours in the names of their columns, such as ``friends``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str | None = None
    task: Task | None = None
    rare_classes: RareClasses = "drop"
    id_column: str | None = None
    name_column: str | None = None
    source_column: str | None = None
    destination_column: str | None = None
    weight_column: str | None = None
    split_column: str | None = None
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unknown_ids: UnknownIds = "refuse"
    relation: str = "neighbours"

    def node_columns(self) -> list[tuple[str, ColumnKind]]:
        """Return the chosen columns of the node table, and the kind of each."""
        named: list[tuple[str | None, ColumnKind]] = [
            (self.target, "target"),
            (self.id_column, "id"),
            (self.name_column, "ignored"),
            (self.split_column, "split"),
            *((name, "categorical") for name in self.categorical),
            *((name, "numeric") for name in self.numeric),
            *((name, "list") for name in self.lists),
            *((name, "ignored") for name in self.ignored),
        ]
        return [(name, kind) for name, kind in named if name is not None]

    def edge_columns(self) -> dict[str, str]:
        """Return the chosen columns of the edge table, by the name of the choice."""
        choices = {"source_column", "destination_column", "weight_column"}
        return self.model_dump(include=choices, exclude_none=True)

    def check(self, nodes: Table, edges: Table | None) -> dict[str, ColumnKind]:
        """Check that chosen columns exist and have one kind each; return kinds of node columns."""
        if not self.relation.strip() or ":" in self.relation:
            raise BadInput(
                f"relation is {self.relation!r}; give a word for neighbours without a colon, such "
                "as friends"
            )
        if self.task is not None and self.target is None:
            raise BadInput(
                f"task is {self.task}, but there is no target; name the column to predict"
            )
        for choice, name in self.edge_columns().items():
            if edges is None:
                raise BadInput(
                    f"{choice} is {name!r}, but there is no table of edges; give one, or leave the "
                    "choice out"
                )
        if edges is not None:
            _check_columns(edges, [(name, choice) for choice, name in self.edge_columns().items()])
        return _check_columns(nodes, self.node_columns())

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


class ColumnPlan(BaseModel):
    """The kind of a column of the node table, and a short reason.

    Attributes:
        chosen: Whether the user or the dataset chose the kind. Rare categories of a chosen column
            are not pooled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: ColumnKind
    reason: str
    chosen: bool = False


class TablePlan(TableChoices):
    """The choices of the user, completed by inference.

    Attributes:
        columns: The columns of the node table, in order.
        source_column: Column of the edge table; None without edges.
        reasons: One line for each special column, which says how it was found.
    """

    id_column: str
    task: Task
    columns: tuple[ColumnPlan, ...]
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


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide the kind of every column: as the user chose, else by its name and content.

    Raise an error if choices contradict each other or name a missing column, and if the columns
    of the ids and of the ends of edges are missing or ambiguous.
    """
    chosen = choices.check(nodes, edges)
    words, _ = choices.missing_words()
    nodes = nodes.with_missing_words(words)
    id_column, how = choices.id_column, "as chosen"
    if id_column is None:
        id_column, how = _find_id_column(nodes, edges, chosen.keys())
    reasons = [f"ids of nodes: {nodes.name}, column {id_column}: {how}"]
    ends: dict[str, str] = {}
    if edges is not None:
        ids = nodes.distinct(id_column)
        ends, reasons_of_ends = _find_edge_columns(edges, ids, choices.edge_columns())
        reasons += reasons_of_ends
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
        choices.target: ("target", "to be predicted"),
        split_column: ("split", "training, validation or test"),
        id_column: ("id", "names the node"),
    }
    columns = []
    for name in nodes.columns:
        kind, reason = known[name] if name in known else infer_kind(name, nodes.distinct(name))
        columns.append({"name": name, "kind": kind, "reason": reason, "chosen": name in chosen})
    found = {"split_column": split_column, "task": task, "columns": columns, "reasons": reasons}
    found |= {"id_column": id_column, "relation": choices.relation.strip(), **ends}
    return TablePlan.model_validate(choices.model_dump() | found)


def _infer_task(target: Distinct) -> tuple[Literal["classification", "regression"], str]:
    """Return the task, and a short description of the target.

    Fractions, and many distinct whole numbers, mean ``regression``.
    """
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


def _find_id_column(nodes: Table, edges: Table | None, taken: Set[str]) -> tuple[str, str]:
    """Return the column of node ids and how it was found.

    With edges, it is the column of distinct values that holds their ends; if several columns do,
    the edges are ambiguous and an error is raised. Without edges, or if no column holds the ends,
    it is a column called ``id`` or similar, else the first whose values are distinct. Numbers with
    fractions are not ids, and a column without a header is tried last.

    Args:
        taken: Columns that the user chose for another role.
    """
    free = [name for name in nodes.columns if name not in taken]
    by_name = [name for each in ID_NAMES for name in free if _simplify(name) == each]
    share = {name: _share_different(nodes.distinct(name)) for name in free}
    # A column that repeats a few values is found here; the check then reports the rows.
    different = [name for name in free if share[name] >= MIN_SHARE_DIFFERENT]
    different.sort(
        key=lambda name: (share[name] < 1, name == INDEX_COLUMN, not name.lower().endswith("id"))
    )
    candidates = [*by_name, *different]
    if edges is not None:
        shares = {name: _shares_known(edges, nodes.distinct(name)) for name in candidates}
        second_best = {name: sorted([0.0, *shares[name].values()])[-2] for name in candidates}
        least = 1.0 if max(second_best.values(), default=0.0) == 1 else MIN_SHARE_KNOWN
        fitting = [name for name in second_best if second_best[name] >= least]  # both ends must fit
        if len(fitting) > 1:
            raise BadInput(
                f"{nodes.name}: columns {' and '.join(fitting)} could both be the ids, since the "
                "ends of edges are in each; name one with --id-column"
            )
        if fitting:
            how = "its name, and" if fitting[0] in by_name else "since"
            return fitting[0], f"{how} the ends of edges are in it"
    if not candidates:
        raise BadInput(
            f"{nodes.name}: no column tells the nodes apart (none is called id, and every one "
            "repeats its values); name it with --id-column, or add a column id"
        )
    how = "its name" if by_name else "the first column whose values differ"
    return candidates[0], how


def _share_different(distinct: Distinct) -> float:
    """Return the share of distinct values; 0 for numbers with fractions."""
    if not are_whole(distinct.numbers[np.isfinite(distinct.numbers)]):
        return 0.0
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _shares_known(edges: Table, ids: Distinct) -> dict[str, float]:
    """Return the share of cells that hold an id, for each column of edges."""
    known = set(ids.ids)
    shares = {}
    for name in edges.columns:
        distinct = edges.distinct(name)
        is_known = np.array([each in known for each in distinct.ids], bool)
        shares[name] = distinct.num_cells(is_known) / len(edges)
    return shares


def _find_edge_columns(
    edges: Table, ids: Distinct, chosen: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the columns of both ends and of the weight, and how each was found.

    Args:
        chosen: Columns that the user named, by choice.
    """
    others = [name for name in edges.columns if name not in chosen.values()]
    by_name = [name for name in others if _simplify(name) in WEIGHT_NAMES]
    weight = chosen.get("weight_column", by_name[0] if by_name else None)
    others = [name for name in others if name not in (weight, INDEX_COLUMN)]
    source, destination, how = _find_ends(edges, others, ids, chosen)
    found = {"source_column": source, "destination_column": destination}
    reasons = [f"edges: {edges.name}, columns {source} and {destination}: {how}"]
    if weight is not None:
        found["weight_column"] = weight
        how = "as chosen" if "weight_column" in chosen else "its name"
        reasons.append(f"weights of edges: {edges.name}, column {weight}: {how}")
    unused = [name for name in edges.columns if name not in found.values()]
    if unused:
        reasons.append(f"not used: {edges.name}, columns {', '.join(unused)}")
    return found, reasons


def _find_ends(
    edges: Table, others: list[str], ids: Distinct, chosen: Mapping[str, str]
) -> tuple[str, str, str]:
    """Return the columns of both ends of edges, and how they were found.

    They are chosen, recognised by their names, or the only columns that hold ids.
    """
    source, destination = chosen.get("source_column"), chosen.get("destination_column")
    if source and destination:
        return source, destination, "as chosen"
    num_open = 1 if source or destination else 2
    shares = _shares_known(edges, ids)
    holding = [name for name in others if shares[name] >= MIN_SHARE_KNOWN]
    likely = holding if len(holding) >= num_open else others
    pairs = product([source] if source else likely, [destination] if destination else likely)
    named = [ends for ends in pairs if " ".join(map(_simplify_end, ends)) in EDGE_NAMES]
    if len(named) == 1:
        return *named[0], "their names"
    if len(holding) != num_open:
        raise BadInput(
            f"{edges.name}: cannot tell the two ends of edges: ids such as {quote(ids.values[0])} "
            f"are in {' and '.join(holding) or 'none'} of the columns {', '.join(edges.columns)}; "
            "choose with --source-column and --destination-column"
        )
    return source or holding[0], destination or holding[-1], "they hold ids of nodes"


def _find_split_column(nodes: Table, taken: Set[str]) -> str | None:
    """Return a column called ``split`` if most of its cells name a role, else None.

    The check reports other words as errors; a column with a typo does not become a feature.
    """
    for name in nodes.columns:
        if name not in taken and _simplify(name) == "split":
            distinct = nodes.distinct(name)
            known = distinct.num_cells(distinct.is_one_of(SPLIT_WORDS.keys()))
            if 2 * known > distinct.num_present:
                return name
    return None


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _simplify_end(name: str) -> str:
    return re.sub(r"_?(id|node|node_id)$", "", _simplify(name)) or _simplify(name)
