"""A table of nodes as a matrix of named features."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy import sparse

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.encode.categories import EncodedCategory, EncodedFlag, EncodedList, Unseen
from crossgcn.data.tables.encode.hashing import EncodedHash
from crossgcn.data.tables.encode.numbers import EncodedNumber
from crossgcn.data.tables.plan import HASHED_KINDS, ColumnPlan, TablePlan
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

MIN_COUNT = 3
"""Categories and words of fewer nodes share a feature."""

NUM_BUCKETS = 5
"""How many ranges a number is cut into, if nothing speaks against it."""

AnyColumn = Annotated[
    EncodedCategory | EncodedFlag | EncodedNumber | EncodedList | EncodedHash,
    Field(discriminator="kind"),
]


class TableEncoder(BaseModel):
    """How the columns of a table become features; fitted once, the same ever after.

    Attributes:
        version: Of the saved form.
        columns: Each with its features, in the order of the matrix.
        missing: What a cell without a value says, in lower case, unless it is blank.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[2] = 2
    columns: tuple[AnyColumn, ...]
    missing: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        nodes: Table,
        plan: TablePlan,
        *,
        min_count: int = MIN_COUNT,
        num_buckets: int = NUM_BUCKETS,
    ) -> TableEncoder:
        """Settle the features of each column.

        The order of the rows makes no difference, and labels are not looked at.

        Args:
            nodes: The table the plan was made for.
            plan: What each column is taken for.
            min_count: Categories and words of fewer nodes share ``(other)``.
            num_buckets: How many ranges to aim for when cutting up numbers.
        """
        if min_count < 1:
            raise BadInput(f"min_count is {min_count}; give 1 or more")
        if num_buckets < 1:
            raise BadInput(f"num_buckets is {num_buckets}; give 1 or more")
        nodes = plan.reading(nodes)
        return cls(
            columns=tuple(
                _fit_column(nodes, column, min_count, num_buckets, plan.hash_bits)
                for column in plan.features
            ),
            missing=plan.missing_words,
        )

    @cached_property
    def space(self) -> FeatureSpace:
        """Names and fields of the features; a field is a column."""
        names: list[str] = []
        fields: list[str] = []
        for column in self.columns:
            names += column.feature_names
            fields += [column.column] * len(column.feature_names)
        return FeatureSpace(_make_different(names), tuple(fields))

    def transform(self, nodes: Table) -> sparse.csr_array:
        """The features of each row, float32 [rows, features], in rows sorted by feature.

        Columns are found by their headers; those the encoder does not know are passed over.

        Args:
            nodes: The table fitted to, or another with the same columns.

        Raises:
            BadInput: A column is missing, or a cell that should be a number or a flag is none.
        """
        nodes = nodes.with_missing_words(self.missing)
        headers = set(nodes.columns)
        absent = [column.column for column in self.columns if column.column not in headers]
        if absent:
            raise BadInput(
                f"{nodes.name}: column {absent[0]!r} is missing ({len(absent)} of the "
                f"{len(self.columns)} that features are made of); add it, with empty cells where "
                "it is not known"
            )
        no_index, no_value = np.empty(0, np.int32), np.empty(0, np.float32)
        rows, features, values, width = [no_index], [no_index], [no_value], 0
        for column in self.columns:
            # Entries only: the row starts of two thousand flags would be a dense matrix.
            block = column.encode(nodes).tocoo()
            is_set = block.data != 0
            rows.append(block.row[is_set])
            features.append(block.col[is_set] + width)
            values.append(block.data[is_set])
            width += block.shape[1]
        places = (np.concatenate(rows), np.concatenate(features))
        entries = sparse.coo_array((np.concatenate(values), places), shape=(len(nodes), width))
        return sparse.csr_array(entries)

    def find_unseen(self, nodes: Table) -> tuple[Unseen, ...]:
        """What the columns hold that the table fitted to did not, at most once per column.

        Args:
            nodes: A table that :meth:`transform` takes.
        """
        nodes = nodes.with_missing_words(self.missing)
        found = (column.find_unseen(nodes.distinct(column.column)) for column in self.columns)
        return tuple(unseen for unseen in found if unseen is not None)

    def to_json(self) -> dict[str, Any]:
        """For ``preprocess.json``."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TableEncoder:
        """Read back what :meth:`to_json` gave.

        Raises:
            BadInput: Naming the entry that is missing, unknown or damaged.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise BadInput(
                f"the encoding of the tables is damaged at {where} ({first['msg']}); train again"
            ) from None


def _fit_column(
    nodes: Table, column: ColumnPlan, min_count: int, num_buckets: int, hash_bits: int | None
) -> AnyColumn:
    distinct = nodes.distinct(column.name)
    if hash_bits is not None and column.kind in HASHED_KINDS:
        is_list = column.kind == "list"
        return EncodedHash.fit(column.name, distinct, bits=hash_bits, is_list=is_list)
    if column.kind == "flag":
        return EncodedFlag.fit(column.name, distinct)
    if column.kind == "numeric":
        return EncodedNumber.fit(column.name, distinct, num_buckets=num_buckets)
    if column.kind == "list":
        return EncodedList.fit(column.name, distinct, min_count=min_count)
    return EncodedCategory.fit(column.name, distinct, min_count=min_count)


def _make_different(names: Iterable[str]) -> tuple[str, ...]:
    """Number the names that were there before: ``a=b``, then ``a=b (2)``."""
    names = list(names)
    given = set(names)
    used: set[str] = set()
    different = []
    for name in names:
        unused, number = name, 1
        while unused in used or (number > 1 and unused in given):
            number += 1
            unused = f"{name} ({number})"
        used.add(unused)
        different.append(unused)
    return tuple(different)
