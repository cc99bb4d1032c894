"""Decide what each column of the tables is: chosen by the user, or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from crossgcn.data.tables.cells import MISSING_WORDS
from crossgcn.data.tables.columns import (
    find_edge_columns,
    find_id_column,
    find_split_column,
    infer_kind,
    infer_task,
)
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

ColumnKind = Literal[
    "id", "target", "split", "categorical", "flag", "numeric", "date", "list", "ignored"
]
Task = Literal["classification", "regression"]
RareClasses = Literal["drop", "merge", "refuse"]
UnknownIds = Literal["refuse", "drop"]

TO_PREDICT = "to be predicted"
AS_CHOSEN = "to be predicted, by the chosen task"
NO_HEADER = "no header, as an index has none"
SHOWN = "names, shown beside the ids"

FEATURE_KINDS: tuple[ColumnKind, ...] = ("categorical", "flag", "numeric", "date", "list")

NODE_CHOICES: dict[str, ColumnKind] = {
    "target": "target",
    "id_column": "id",
    "name_column": "ignored",
    "split_column": "split",
    "categorical": "categorical",
    "numeric": "numeric",
    "lists": "list",
    "ignored": "ignored",
}
"""Choices that name columns of the node table, and the kind that each gives them."""

EDGE_CHOICES = {name: name for name in ("source_column", "destination_column", "weight_column")}


@dataclass(frozen=True)
class TableChoices:
    """What the user says about the tables; everything else is inferred.

    Attributes:
        target: Column of the node table to predict; None for nodes to be scored.
        task: Whether classes or a number are predicted.
        rare_classes: What is done with classes of too few nodes to train, validate and test:
            ``drop`` their labels, ``merge`` them into one class, or ``refuse`` them.
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
        for choice in EDGE_CHOICES:
            for name in self.named(choice) if edges is None else ():
                raise BadInput(
                    f"{choice} is {name!r}, but there is no table of edges; give one, or leave the "
                    "choice out"
                )
        if edges is not None:
            self._collect(edges, EDGE_CHOICES)
        return self._collect(nodes, NODE_CHOICES)

    def named(self, choice: str) -> tuple[str, ...]:
        """Return the columns that a choice names."""
        names = getattr(self, choice)
        return names if isinstance(names, tuple) else () if names is None else (names,)

    def missing_words(self) -> tuple[set[str], set[str]]:
        """Return the words for a missing value, and those of a target of classes."""
        words = {word.strip().lower() for word in self.missing} - {""}
        removed = {word[1:] for word in words if word.startswith("-")}
        added = {word for word in words if not word.startswith("-")}
        return (set(MISSING_WORDS) | added) - removed, added

    def _collect(self, table: Table, choices: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a table that choices name, and what each is chosen as."""
        kinds: dict[str, Any] = {}
        for choice, kind in choices.items():
            for name in self.named(choice):
                if kinds.setdefault(table.require(name), kind) != kind:
                    raise BadInput(
                        f"column {name!r} of {table.name} is chosen as {kinds[name]} and as "
                        f"{kind}; choose one of them"
                    )
        return kinds


class SavedModel(BaseModel):
    """Something of the tables that is saved with a trained model, in ``preprocess.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    saved_as: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the content for ``preprocess.json``."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read what :meth:`to_json` returned; refuse it with the entry that is damaged."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise BadInput(
                f"{cls.saved_as} of the tables is damaged at {where} ({first['msg']}); train again"
            ) from None


class ColumnPlan(SavedModel):
    """What a column of the node table is taken for, and why in a few words.

    Attributes:
        chosen: Whether the user, or the dataset, said so. Rare categories of such a column are
            not pooled.
    """

    name: str
    kind: ColumnKind
    reason: str
    chosen: bool = False


class TablePlan(SavedModel):
    """What the columns of both tables are taken for.

    Attributes:
        columns: Of the node table, in its order.
        source_column: Of the edge table; None without edges.
        task: Whether classes or a number are predicted, if there is a target.
        reasons: How the special columns were found, a line each, to be printed.
        missing: Words for a missing value, in lower case.
        missing_target: Likewise, in a target of classes.
        rare_classes: As in :class:`TableChoices`, like ``unknown_ids``, ``relation`` and
            ``name_column``.
    """

    saved_as = "the plan"

    columns: tuple[ColumnPlan, ...]
    id_column: str
    source_column: str | None
    destination_column: str | None
    weight_column: str | None
    target: str | None
    split_column: str | None
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    missing_target: tuple[str, ...] = ()
    task: Task = "classification"
    rare_classes: RareClasses = "drop"
    unknown_ids: UnknownIds = "refuse"
    relation: str = "neighbours"
    name_column: str | None = None

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.kind in FEATURE_KINDS)

    def with_missing_words(self, nodes: Table) -> Table:
        """Return the node table with the plan's words for a missing value."""
        is_class = self.target is not None and self.task == "classification"
        own = {str(self.target): self.missing_target} if is_class else None
        return nodes.with_missing_words(self.missing, own)


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide what every column is: as the user chose, else by its name and content.

    Refuse choices that contradict each other or name no column, and tables in which no column,
    or more than one, can hold the ids or the ends of the edges.
    """
    chosen = choices.check(nodes, edges)
    missing, missing_target = choices.missing_words()
    nodes = nodes.with_missing_words(missing)
    task, what_to_predict = _choose_task(nodes, choices)
    taken = chosen.keys() - {choices.id_column}
    id_column, how = choices.id_column, "as chosen"
    if id_column is None:
        id_column, how = find_id_column(nodes, edges, taken - {choices.name_column})
    if id_column == choices.name_column:
        raise BadInput(
            f"column {id_column!r} of {nodes.name} holds the ids, and name_column is for names "
            "beside them; name another column, or leave it out"
        )
    reasons = [f"ids of nodes: {nodes.name}, column {id_column}: {how}"]
    source = destination = weight = None
    if edges is not None:
        source, destination, weight, found = find_edge_columns(
            edges,
            set(nodes.distinct(id_column).values),
            source=choices.source_column,
            destination=choices.destination_column,
            weight=choices.weight_column,
        )
        reasons += found
        unused = [name for name in edges.columns if name not in (source, destination, weight)]
        if unused:
            reasons.append(f"not used: {edges.name}, columns {', '.join(unused)}")
    split_column = choices.split_column or find_split_column(nodes, taken | {id_column})
    if split_column is not None:
        how = "as chosen" if choices.split_column else "its name and its words"
        reasons.append(f"split: {nodes.name}, column {split_column}: {how}")
    if choices.missing:
        words = ", ".join(sorted(missing)) or "nothing else"
        reasons.append(f"missing values: blank cells, {words}: as chosen")
    known: dict[str | None, tuple[ColumnKind, str]] = {
        INDEX_COLUMN: ("ignored", NO_HEADER),
        **{name: (kind, "as chosen") for name, kind in chosen.items()},
        choices.name_column: ("ignored", SHOWN),
        choices.target: ("target", what_to_predict),
        split_column: ("split", "who trains"),
        id_column: ("id", "names the node"),
    }
    columns = []
    for name in nodes.columns:
        kind, reason = known[name] if name in known else infer_kind(name, nodes.distinct(name))
        columns.append(ColumnPlan(name=name, kind=kind, reason=reason, chosen=name in chosen))
    return TablePlan(
        columns=tuple(columns),
        id_column=id_column,
        source_column=source,
        destination_column=destination,
        weight_column=weight,
        target=choices.target,
        split_column=split_column,
        reasons=tuple(reasons),
        missing=tuple(sorted(missing)),
        missing_target=tuple(sorted(missing_target)),
        task=task,
        rare_classes=choices.rare_classes,
        unknown_ids=choices.unknown_ids,
        relation=choices.relation.strip(),
        name_column=choices.name_column,
    )


def _choose_task(nodes: Table, choices: TableChoices) -> tuple[Task, str]:
    """Return whether classes or numbers are predicted, and why."""
    if choices.task is not None or choices.target is None:
        return choices.task or "classification", AS_CHOSEN
    if infer_task(nodes.distinct(choices.target)) == "regression":
        return "regression", f"{TO_PREDICT}, a number"
    return "classification", TO_PREDICT
