"""Decide what each column of the tables is: chosen by the user, or inferred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from crossgcn.data.tables.columns import (
    find_edge_columns,
    find_id_column,
    find_split_column,
    infer_kind,
)
from crossgcn.data.tables.read import INDEX_COLUMN
from crossgcn.data.tables.table import MISSING_WORDS, Table
from crossgcn.errors import BadInput

ColumnKind = Literal["id", "target", "split", "categorical", "flag", "numeric", "list", "ignored"]

NO_HEADER = "no header, as an index has none"

FEATURE_KINDS: tuple[ColumnKind, ...] = ("categorical", "flag", "numeric", "list")

HASHED_KINDS: tuple[ColumnKind, ...] = ("categorical", "list")
"""Kinds that ``hash_features`` applies to."""

MAX_HASH_BITS = 22
"""Four million features, each with a name and weights."""


@dataclass(frozen=True)
class TableChoices:
    """What the user says about the tables; everything else is inferred.

    Attributes:
        target: Column of the node table to predict; None for nodes to be scored.
        id_column: Column of the node table.
        source_column: Column of the edge table.
        destination_column: Column of the edge table.
        weight_column: Column of the edge table; edges weigh 1 without it.
        split_column: Column of the node table that names training, validation and test nodes.
        categorical: Columns to take as categories.
        numeric: Columns to take as numbers.
        lists: Columns to take as lists of words.
        ignored: Columns to leave out.
        missing: Words for a missing value, in any case, in every column; blank cells are always
            missing. By default :data:`MISSING_WORDS`, except in the target, where every word is
            a class.
        hash_features: Hash categories and words into two to the power of this many features.
            By default each category and word has a feature of its own.
    """

    target: str | None = None
    id_column: str | None = None
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


class SavedModel(BaseModel):
    """Something of the tables that is saved with a trained model, in ``preprocess.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    saved_as: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the content for ``preprocess.json``."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read what :meth:`to_json` returned.

        Raises:
            BadInput: Naming the entry that is missing, unknown or damaged.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise BadInput(
                f"{cls.saved_as} of the tables is damaged at {where} ({first['msg']}); train again"
            ) from None


class ColumnPlan(BaseModel):
    """What a column of the node table is taken for, and why in a few words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: ColumnKind
    reason: str


class TablePlan(SavedModel):
    """What the columns of both tables are taken for.

    Attributes:
        columns: Of the node table, in its order.
        source_column: Of the edge table; None without edges.
        reasons: How the special columns were found, a line each, to be printed.
        missing: The user's words for a missing value, in lower case; None without a choice.
        hash_features: As in :class:`TableChoices`.
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
        return _with_missing_words(nodes, self.missing, self.target)


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide what every column is: as the user chose, else by its name and content.

    Raises:
        BadInput: If a choice names no column or a column twice, or if no column can hold the
            ids or the ends of the edges.
    """
    chosen = _check_choices(nodes, edges, choices)
    missing = choices.missing
    if missing is not None:
        missing = tuple(sorted({word.strip().lower() for word in missing} - {""}))
    nodes = _with_missing_words(nodes, missing, choices.target)
    taken = chosen.keys() - {choices.id_column}
    id_column, how = choices.id_column, "as chosen"
    if id_column is None:
        id_column, how = find_id_column(nodes, edges, taken)
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
    kinds: dict[str | None, tuple[ColumnKind, str]] = {
        **{name: (kind, "as chosen") for name, kind in chosen.items()},
        choices.target: ("target", "to be predicted"),
        split_column: ("split", "who trains"),
        id_column: ("id", "names the node"),
    }
    columns = []
    for name in nodes.columns:
        kind: ColumnKind
        if name in kinds:
            kind, reason = kinds[name]
        elif name == INDEX_COLUMN:
            kind, reason = "ignored", NO_HEADER
        else:
            kind, reason = infer_kind(nodes.distinct(name))
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


def _with_missing_words(nodes: Table, missing: tuple[str, ...] | None, target: str | None) -> Table:
    if missing is not None:
        return nodes.with_missing_words(missing)
    return nodes.with_missing_words(MISSING_WORDS, () if target is None else (target,))


def _check_choices(
    nodes: Table, edges: Table | None, choices: TableChoices
) -> dict[str, ColumnKind]:
    """Check that choices name columns, each once; return the chosen kinds of node columns."""
    bits = choices.hash_features
    if bits is not None and not 1 <= bits <= MAX_HASH_BITS:
        raise BadInput(
            f"hash_features is {bits}; give 1 to {MAX_HASH_BITS}, for two to the power of that "
            "many features"
        )
    of_nodes: list[tuple[str | None, ColumnKind]] = [
        (choices.target, "target"),
        (choices.id_column, "id"),
        (choices.split_column, "split"),
        *((name, "categorical") for name in choices.categorical),
        *((name, "numeric") for name in choices.numeric),
        *((name, "list") for name in choices.lists),
        *((name, "ignored") for name in choices.ignored),
    ]
    kinds: dict[str, ColumnKind] = {}
    for name, kind in of_nodes:
        if name is not None and kinds.setdefault(name, kind) != kind:
            raise BadInput(
                f"column {name!r} is chosen as {kinds[name]} and as {kind}; choose one of them"
            )
    for name in kinds:
        nodes.require(name)
    of_edges: dict[str, str] = {}
    for choice in ("source_column", "destination_column", "weight_column"):
        name = getattr(choices, choice)
        if name is None:
            continue
        if edges is None:
            raise BadInput(
                f"{choice} is {name!r}, but there is no table of edges; give one, or leave the "
                "choice out"
            )
        edges.require(name)
        if name in of_edges:
            raise BadInput(
                f"column {name!r} of {edges.name} is chosen as {of_edges[name]} and as {choice}; "
                "choose one of them"
            )
        of_edges[name] = choice
    return kinds
