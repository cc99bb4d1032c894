"""Decide what each column of the tables is: chosen by the user, or inferred."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from crossgcn.data.tables.cells import MISSING_WORDS
from crossgcn.data.tables.columns import (
    find_edge_columns,
    find_id_column,
    find_split_column,
    infer_task,
)
from crossgcn.data.tables.encode import FIT, FeatureKind, infer_kind
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

ColumnKind = Literal["id", "target", "split", "ignored"] | FeatureKind
Task = Literal["classification", "regression"]
RareClasses = Literal["drop", "refuse"]
UnknownIds = Literal["refuse", "drop"]


class TableChoices(BaseModel):
    """What the user says about the tables; everything else is inferred.

    Attributes:
        target: Column of the node table to predict; None for nodes to be scored.
        task: Whether classes or a number are predicted.
        rare_classes: What is done with classes of too few nodes to train, validate and test:
            ``drop`` their labels, or ``refuse`` them.
        name_column: Column of the node table with names to show beside the ids; no feature.
        weight_column: Column of the edge table; edges weigh 1 without it.
        split_column: Column of the node table that names training, validation and test nodes.
        categorical: Columns to take as categories, each of them with a feature of its own;
            without a choice, categories of a single node share one.
        lists: Columns to take as lists of words.
        missing: More words for a missing value, in any case, such as ``unknown``. Blank cells and
            :data:`MISSING_WORDS` are always missing, but ``-none`` takes a word away. In a target
            of classes, only blank cells and the words given here are.
        unknown_ids: What is done with edges to ids that no node has: ``refuse`` or ``drop``.
        relation: What neighbours are called in names of their columns, such as ``friends``.
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
        """Return the columns of the node table that are named, and what each is chosen as."""
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

    def edge_columns(self) -> list[tuple[str, str]]:
        """Return the columns of the edge table that are named, and the choice that names each."""
        choices = ("source_column", "destination_column", "weight_column")
        return [(getattr(self, each), each) for each in choices if getattr(self, each) is not None]

    def check(self, nodes: Table, edges: Table | None) -> dict[str, ColumnKind]:
        """Check that choices name columns, each once; return the chosen kinds of node columns."""
        if not self.relation.strip() or ":" in self.relation:
            raise BadInput(
                f"relation is {self.relation!r}; give a word for neighbours without a colon, such "
                "as friends"
            )
        if self.task is not None and self.target is None:
            raise BadInput(
                f"task is {self.task}, but nothing is to be predicted; name a column as the target"
            )
        if edges is not None:
            _check_columns(edges, self.edge_columns())
        for name, choice in self.edge_columns() if edges is None else ():
            raise BadInput(
                f"{choice} is {name!r}, but there is no table of edges; give one, or leave the "
                "choice out"
            )
        return _check_columns(nodes, self.node_columns())

    def missing_words(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the words for a missing value, and those of a target of classes."""
        words = {word.strip().lower() for word in self.missing} - {""}
        added = frozenset(word for word in words if not word.startswith("-"))
        return (MISSING_WORDS | added) - {word[1:] for word in words - added}, added

    def as_options(self) -> dict[str, Any]:
        """Return what differs from the defaults, by the names of the command line's options."""
        options = {}
        for name, value in self.model_dump(exclude_defaults=True).items():
            if isinstance(value, tuple):
                value = ",".join(each.replace(",", "\\,") for each in value)
            options["ignore" if name == "ignored" else name] = value
        return options


def _check_columns(table: Table, named: list[Any]) -> dict[str, Any]:
    """Refuse a column that is not there, or chosen as two things."""
    kinds: dict[str, Any] = {}
    for name, kind in named:
        if kinds.setdefault(table.require(name), kind) != kind:
            raise BadInput(
                f"column {name!r} of {table.name} is chosen as {kinds[name]} and as {kind}; "
                "choose one of them"
            )
    return kinds


class ColumnPlan(BaseModel):
    """What a column of the node table is taken for, and why in a few words.

    Attributes:
        chosen: Whether the user, or the dataset, said so. Rare categories of such a column are
            not pooled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: ColumnKind
    reason: str
    chosen: bool = False


class TablePlan(TableChoices):
    """The choices of the user, completed by what was inferred.

    Attributes:
        columns: Of the node table, in its order.
        source_column: Of the edge table; None without edges.
        reasons: How the special columns were found, a line each, to be printed.
    """

    id_column: str
    task: Task
    columns: tuple[ColumnPlan, ...]
    reasons: tuple[str, ...]

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.kind in FIT)

    def with_missing_words(self, nodes: Table) -> Table:
        """Return the node table with the plan's words for a missing value."""
        words, of_target = self.missing_words()
        is_class = self.target is not None and self.task == "classification"
        return nodes.with_missing_words(words, {str(self.target): of_target} if is_class else {})


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide what every column is: as the user chose, else by its name and content.

    Refuse choices that contradict each other or name no column, and tables in which no column,
    or more than one, can hold the ids or the ends of the edges.
    """
    chosen = choices.check(nodes, edges)
    words, _ = choices.missing_words()
    nodes = nodes.with_missing_words(words)
    id_column, how = choices.id_column, "as chosen"
    taken = chosen.keys() - {id_column}
    if id_column is None:
        id_column, how = find_id_column(nodes, edges, taken)
    found: dict[str, Any] = {"id_column": id_column}
    reasons = [f"ids of nodes: {nodes.name}, column {id_column}: {how}"]
    if edges is not None:
        given = {choice: name for name, choice in choices.edge_columns()}
        ends, reasons_of_ends = find_edge_columns(edges, nodes.distinct(id_column), **given)
        found |= ends
        reasons += reasons_of_ends
    split_column = choices.split_column or find_split_column(nodes, taken | {id_column})
    if split_column is not None:
        how = "as chosen" if choices.split_column else "its name and its words"
        reasons.append(f"split: {nodes.name}, column {split_column}: {how}")
    if choices.missing:
        listed = ", ".join(sorted(words)) or "nothing else"
        reasons.append(f"missing values: blank cells, {listed}: as chosen")
    task = choices.task or "classification"
    if choices.target is not None and choices.task is None:
        task, how = infer_task(nodes.distinct(choices.target))
        reasons.append(f"target: {nodes.name}, column {choices.target}: {how}")
    known: dict[str | None, tuple[str, str]] = {
        INDEX_COLUMN: ("ignored", "no header, as an index has none"),
        **{name: (kind, "as chosen") for name, kind in chosen.items()},
        choices.name_column: ("ignored", "names, shown beside the ids"),
        choices.target: ("target", "to be predicted"),
        split_column: ("split", "who trains"),
        id_column: ("id", "names the node"),
    }
    columns = []
    for name in nodes.columns:
        kind, reason = known[name] if name in known else infer_kind(name, nodes.distinct(name))
        columns.append({"name": name, "kind": kind, "reason": reason, "chosen": name in chosen})
    found |= {"split_column": split_column, "task": task, "relation": choices.relation.strip()}
    found |= {"columns": columns, "reasons": reasons}
    return TablePlan.model_validate(choices.model_dump() | found)
