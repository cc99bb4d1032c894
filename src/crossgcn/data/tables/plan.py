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

TO_PREDICT = "to be predicted"
AS_CHOSEN = "to be predicted, by the chosen task"

NO_HEADER = "no header, as an index has none"
SHOWN = "names, shown beside the ids"

FEATURE_KINDS: tuple[ColumnKind, ...] = ("categorical", "flag", "numeric", "date", "list")

HASHED_KINDS: tuple[ColumnKind, ...] = ("categorical", "list")
"""Kinds that ``hash_features`` applies to."""

MAX_HASH_BITS = 22
"""Four million features, each with a name and weights."""

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
        lists: Columns to take as lists of words.
        missing: Words for a missing value, in any case, in every column; blank cells are always
            missing. By default :data:`MISSING_WORDS`, except in the target, where every word is
            a class.
        hash_features: Hash categories and words into two to the power of this many features.
            By default each category and word has a feature of its own.
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
    missing: tuple[str, ...] | None = None
    hash_features: int | None = None
    relation: str = "neighbours"

    def check(self, nodes: Table, edges: Table | None) -> dict[str, ColumnKind]:
        """Check that choices name columns, each once; return the chosen kinds of node columns."""
        bits = self.hash_features
        if bits is not None and not 1 <= bits <= MAX_HASH_BITS:
            raise BadInput(
                f"hash_features is {bits}; give 1 to {MAX_HASH_BITS}, for two to the power of that "
                "many features"
            )
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
    """What a column of the node table is taken for, and why in a few words."""

    name: str
    kind: ColumnKind
    reason: str


class TablePlan(SavedModel):
    """What the columns of both tables are taken for.

    Attributes:
        columns: Of the node table, in its order.
        source_column: Of the edge table; None without edges.
        task: Whether classes or a number are predicted, if there is a target.
        rare_classes: As in :class:`TableChoices`.
        reasons: How the special columns were found, a line each, to be printed.
        missing: The user's words for a missing value, in lower case; None without a choice.
        hash_features: As in :class:`TableChoices`; likewise ``relation`` and ``name_column``.
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
    missing: tuple[str, ...] | None
    hash_features: int | None
    task: Task = "classification"
    rare_classes: RareClasses = "drop"
    relation: str = "neighbours"
    name_column: str | None = None

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.kind in FEATURE_KINDS)

    @property
    def hash_bits(self) -> int | None:
        """Base-2 logarithm of the number of features of each hashed column."""
        if self.hash_features is None:
            return None
        count = sum(column.kind in HASHED_KINDS for column in self.columns)
        return self.hash_features - max(0, count - 1).bit_length()

    @property
    def missing_words(self) -> tuple[str, ...]:
        """Words for a missing value in columns of features."""
        return tuple(sorted(MISSING_WORDS)) if self.missing is None else self.missing

    def with_missing_words(self, nodes: Table) -> Table:
        """Return the node table with the plan's words for a missing value."""
        target = self.target if self.task == "classification" else None
        return nodes.with_missing_words(self.missing, target)


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide what every column is: as the user chose, else by its name and content.

    Refuse choices that contradict each other or name no column, and tables in which no column
    can hold the ids or the ends of the edges.
    """
    chosen = choices.check(nodes, edges)
    missing = choices.missing
    if missing is not None:
        missing = tuple(sorted({word.strip().lower() for word in missing} - {""}))
    nodes = nodes.with_missing_words(missing)
    task, what_to_predict = _choose_task(nodes, choices)
    if task == "classification":
        nodes = nodes.with_missing_words(missing, choices.target)
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
    split_column = choices.split_column or find_split_column(nodes, taken | {id_column})
    if split_column is not None:
        how = "as chosen" if choices.split_column else "its name and its words"
        reasons.append(f"split: {nodes.name}, column {split_column}: {how}")
    if missing is not None:
        words = f"and cells that say {', '.join(missing)}" if missing else "alone"
        reasons.append(f"missing values: blank cells {words}: as chosen")
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
        kind, reason = known[name] if name in known else infer_kind(nodes.distinct(name))
        columns.append(ColumnPlan(name=name, kind=kind, reason=reason))
    plan = TablePlan(
        columns=tuple(columns),
        id_column=id_column,
        source_column=source,
        destination_column=destination,
        weight_column=weight,
        target=choices.target,
        split_column=split_column,
        reasons=tuple(reasons),
        missing=missing,
        hash_features=choices.hash_features,
        task=task,
        rare_classes=choices.rare_classes,
        relation=choices.relation.strip(),
        name_column=choices.name_column,
    )
    bits = plan.hash_bits
    if plan.hash_features is None or bits is None:
        return plan
    if bits < 1:
        raise BadInput(
            f"hash_features is {plan.hash_features}, too few for so many columns of categories "
            f"and words; give {plan.hash_features + 1 - bits} or more"
        )
    hashed = f"categories and words: hashed into {2**bits:,} features a column: as chosen"
    return plan.model_copy(update={"reasons": (*plan.reasons, hashed)})


def _choose_task(nodes: Table, choices: TableChoices) -> tuple[Task, str]:
    """Return whether classes or numbers are predicted, and why."""
    if choices.task is not None or choices.target is None:
        return choices.task or "classification", AS_CHOSEN
    if infer_task(nodes.distinct(choices.target)) == "regression":
        return "regression", f"{TO_PREDICT}, a number"
    return "classification", TO_PREDICT
