"""What each column of the tables is taken for, decided by the user or by looking."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossgcn.data.tables.cells import MISSING_WORDS
from crossgcn.data.tables.columns import look_at
from crossgcn.data.tables.encode.hashing import MOST_BITS
from crossgcn.data.tables.find_columns import find_edge_columns, find_id_column, find_split_column
from crossgcn.data.tables.read import INDEX_COLUMN
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

ColumnKind = Literal["id", "target", "split", "categorical", "flag", "numeric", "list", "ignored"]

NO_HEADER = "no header, as an index has none"

FEATURE_KINDS: tuple[ColumnKind, ...] = ("categorical", "flag", "numeric", "list")

HASHED_KINDS: tuple[ColumnKind, ...] = ("categorical", "list")
"""What is hashed where the user wants it."""


@dataclass(frozen=True)
class TableChoices:
    """What the user said about the tables; the rest is inferred.

    Attributes:
        target: The column of the node table to predict; none for nodes to be scored.
        id_column: Of the node table.
        source_column: Of the edge table.
        destination_column: Of the edge table.
        weight_column: Of the edge table; edges weigh 1 without it.
        split_column: Of the node table: who trains, validates and tests.
        categorical: Columns to take as categories, whatever they look like.
        numeric: Columns to take as numbers.
        lists: Columns to take as lists of words.
        ignored: Columns to leave out.
        missing: Words that stand for a missing value, in any case, in every column; blank
            cells always do. Without a choice they are :data:`MISSING_WORDS`, but not in the
            target, of which every word is a class.
        hash_features: Hash categories and words into two to the power of so many features;
            each has a feature of its own when left out.
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


@dataclass(frozen=True)
class ColumnPlan:
    """What one column of the node table is taken for, and why.

    Attributes:
        name: The column's header.
        kind: What it is taken for.
        reason: In a few words, for the user to agree or not: ``6 different values``.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    kind: ColumnKind
    reason: str


@dataclass(frozen=True)
class TablePlan:
    """What both tables are taken for.

    Attributes:
        columns: Of the node table, in its order.
        id_column: Of the node table.
        source_column: Of the edge table; none where there are no edges.
        destination_column: Likewise.
        weight_column: Likewise, where edges have weights.
        target: The column to predict.
        split_column: Who trains, validates and tests.
        reasons: How the columns named above were found, a line each, to be printed.
        missing: The words that the user chose for a missing value, in lower case; none
            without a choice.
        hash_features: As chosen: two to the power of it are the features of all columns of
            categories and words together; none where these are not hashed.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    columns: tuple[ColumnPlan, ...]
    id_column: str
    source_column: str | None
    destination_column: str | None
    weight_column: str | None
    target: str | None
    split_column: str | None
    reasons: tuple[str, ...]
    missing: tuple[str, ...] | None
    hash_features: int | None = None

    @property
    def features(self) -> tuple[ColumnPlan, ...]:
        """The columns that features are made of."""
        return tuple(column for column in self.columns if column.kind in FEATURE_KINDS)

    @property
    def hash_bits(self) -> int | None:
        """Two to the power of it are the features of one hashed column, all alike."""
        if self.hash_features is None:
            return None
        count = sum(column.kind in HASHED_KINDS for column in self.columns)
        return self.hash_features - max(0, count - 1).bit_length()

    @property
    def missing_words(self) -> tuple[str, ...]:
        """What a cell of a feature says if it has no value, unless it is blank."""
        return tuple(sorted(MISSING_WORDS)) if self.missing is None else self.missing

    def reading(self, nodes: Table) -> Table:
        """The node table with its missing values where the plan has them.

        Args:
            nodes: However it was read.
        """
        return _read_missing(nodes, self.missing, self.target)

    def to_json(self) -> dict[str, Any]:
        """For ``preprocess.json``."""
        content = asdict(self)
        content["columns"] = list(content["columns"])
        content["reasons"] = list(content["reasons"])
        content["missing"] = None if self.missing is None else list(self.missing)
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read back what :meth:`to_json` gave.

        Raises:
            BadInput: Naming the entry that is missing, unknown or damaged.
        """
        try:
            return TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise BadInput(
                f"the plan of the tables is damaged at {where} ({first['msg']}); train again"
            ) from None


def make_plan(nodes: Table, edges: Table | None, choices: TableChoices) -> TablePlan:
    """Decide what every column is: as the user chose, else by its name and content.

    Args:
        nodes: A row a node.
        edges: A row an edge; none for nodes without a graph.
        choices: What the user said.

    Raises:
        BadInput: A choice that names no column, or one column twice; or no column that
            could hold the ids or the ends of the edges.
    """
    _check_choices(nodes, edges, choices)
    missing = _plain_words(choices.missing)
    nodes = _read_missing(nodes, missing, choices.target)
    chosen = _chosen_kinds(choices)
    taken = chosen.keys() - {choices.id_column}
    if choices.id_column is None:
        id_column, reason = find_id_column(nodes, edges, taken)
        reasons = [f"ids of nodes: {nodes.name}, column {id_column}: {reason}"]
    else:
        id_column = choices.id_column
        reasons = [f"ids of nodes: {nodes.name}, column {id_column}: as chosen"]
    source = destination = weight = None
    if edges is not None:
        known = set(nodes.distinct(id_column).values)
        source, destination, weight, found = find_edge_columns(
            edges,
            known,
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
    roles: dict[str | None, ColumnKind] = {
        choices.target: "target",
        split_column: "split",
        id_column: "id",
    }
    plan = TablePlan(
        columns=tuple(_plan_column(nodes, name, roles, chosen) for name in nodes.columns),
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
    wanted, bits = plan.hash_features, plan.hash_bits
    if wanted is None or bits is None:
        return plan
    if bits < 1:
        raise BadInput(
            f"hash_features is {wanted}, too few for so many columns of categories and words; "
            f"give {wanted + 1 - bits} or more"
        )
    hashed = f"categories and words: hashed into {2**bits:,} features a column: as chosen"
    return replace(plan, reasons=(*plan.reasons, hashed))


def _plain_words(words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if words is None:
        return None
    return tuple(sorted({word.strip().lower() for word in words} - {""}))


def _read_missing(nodes: Table, missing: tuple[str, ...] | None, target: str | None) -> Table:
    if missing is not None:
        return nodes.with_missing_words(missing)
    return nodes.with_missing_words(MISSING_WORDS, () if target is None else (target,))


def _plan_column(
    nodes: Table,
    name: str,
    roles: dict[str | None, ColumnKind],
    chosen: dict[str, ColumnKind],
) -> ColumnPlan:
    if name in roles:
        reasons = {"id": "names the node", "target": "to be predicted", "split": "who trains"}
        return ColumnPlan(name, roles[name], reasons[roles[name]])
    if name in chosen:
        return ColumnPlan(name, chosen[name], "as chosen")
    if name == INDEX_COLUMN:
        return ColumnPlan(name, "ignored", NO_HEADER)
    return ColumnPlan(name, *look_at(nodes.distinct(name)))


def _chosen_kinds(choices: TableChoices) -> dict[str, ColumnKind]:
    """What each column of the node table that the user named is to be."""
    kinds: list[tuple[str | None, ColumnKind]] = [
        (choices.target, "target"),
        (choices.id_column, "id"),
        (choices.split_column, "split"),
        *((name, "categorical") for name in choices.categorical),
        *((name, "numeric") for name in choices.numeric),
        *((name, "list") for name in choices.lists),
        *((name, "ignored") for name in choices.ignored),
    ]
    chosen: dict[str, ColumnKind] = {}
    for name, kind in kinds:
        if name is None:
            continue
        if chosen.get(name, kind) != kind:
            raise BadInput(
                f"column {name!r} is chosen as {chosen[name]} and as {kind}; choose one of them"
            )
        chosen[name] = kind
    return chosen


def _check_choices(nodes: Table, edges: Table | None, choices: TableChoices) -> None:
    bits = choices.hash_features
    if bits is not None and not 1 <= bits <= MOST_BITS:
        raise BadInput(
            f"hash_features is {bits}; give 1 to {MOST_BITS}, for two to the power of that many "
            "features"
        )
    for name in _chosen_kinds(choices):
        nodes.require(name)
    of_edges: dict[str, str] = {}
    for field in fields(choices):
        if field.name not in ("source_column", "destination_column", "weight_column"):
            continue
        name = getattr(choices, field.name)
        if name is None:
            continue
        if edges is None:
            raise BadInput(
                f"{field.name} is {name!r}, but there is no table of edges; give one, or leave "
                "the choice out"
            )
        edges.require(name)
        if name in of_edges:
            raise BadInput(
                f"column {name!r} of {edges.name} is chosen as {of_edges[name]} and as "
                f"{field.name}; choose one of them"
            )
        of_edges[name] = field.name
