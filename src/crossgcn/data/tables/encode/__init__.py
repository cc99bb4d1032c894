"""Encode a table of nodes as a matrix of named features.

Each kind of column has an encoder: :class:`CategoryEncoder` (also for flags),
:class:`NumberEncoder`, :class:`DateEncoder` and :class:`ListEncoder`. A new kind is a subclass of
:class:`ColumnEncoder`, added to :data:`ENCODERS` and to ``AnyEncoder``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.encode.numbers import DateEncoder, NumberEncoder
from crossgcn.data.tables.encode.words import CategoryEncoder, ListEncoder, Unseen
from crossgcn.data.tables.plan import SavedModel, TablePlan
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput

AnyEncoder = Annotated[
    CategoryEncoder | NumberEncoder | DateEncoder | ListEncoder, Field(discriminator="kind")
]

ENCODERS: dict[str, Callable[[str, Distinct], Any]] = {
    "categorical": CategoryEncoder.fit,
    "flag": CategoryEncoder.fit_flag,
    "numeric": NumberEncoder.fit,
    "date": DateEncoder.fit,
    "list": ListEncoder.fit,
}
"""How the encoder of a column is fitted, by its kind."""


class TableEncoder(SavedModel):
    """Encodes the columns of a table; fitted once, it encodes every table in the same way.

    Attributes:
        version: Of the saved form.
        columns: In the order of the features.
        missing: Words for a missing value, in lower case.
    """

    saved_as = "the encoding"

    version: Literal[4] = 4
    columns: tuple[AnyEncoder, ...]
    missing: tuple[str, ...]

    @classmethod
    def fit(cls, nodes: Table, plan: TablePlan) -> TableEncoder:
        """Fit an encoder to each column, whatever the order of rows; labels are not used."""
        nodes = plan.with_missing_words(nodes)
        columns = []
        for column in plan.features:
            distinct = nodes.distinct(column.name)
            if column.kind == "categorical" and column.chosen:  # every category counts
                columns.append(CategoryEncoder.fit(column.name, distinct, min_count=1))
            else:
                columns.append(ENCODERS[column.kind](column.name, distinct))
        return cls(columns=tuple(columns), missing=plan.missing)

    @cached_property
    def space(self) -> FeatureSpace:
        """Names and fields of the features; a field is a column."""
        names: list[str] = []
        fields: list[str] = []
        for column in self.columns:
            new = column.feature_names
            names += new
            fields += [column.column] * len(new)
        return FeatureSpace(_make_unique(names), tuple(fields))

    def transform(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each row, float32 ``[rows, features]``, sorted within rows.

        Columns are found by their headers; other columns are ignored. Refuse a missing column,
        and cells that are not the numbers, dates or flags they should be.
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
        blocks: list[Any] = [sparse.coo_array((len(nodes), 0), dtype=np.float32)]
        # Entries only: the row starts of two thousand flags would be a dense matrix.
        blocks += [column.encode(nodes).tocoo() for column in self.columns]
        features = sparse.csr_array(sparse.hstack(blocks))
        features.eliminate_zeros()
        return features

    def find_unseen(self, nodes: Table) -> tuple[Unseen, ...]:
        """Return the values that the training table did not have, one entry per column."""
        nodes = nodes.with_missing_words(self.missing)
        found = (column.find_unseen(nodes.distinct(column.column)) for column in self.columns)
        return tuple(unseen for unseen in found if unseen is not None)


def _make_unique(names: list[str]) -> tuple[str, ...]:
    """Number repeated names: ``a=b``, then ``a=b (2)``."""
    given = set(names)
    used: set[str] = set()
    unique = []
    for name in names:
        unused, number = name, 1
        while unused in used or (number > 1 and unused in given):
            number += 1
            unused = f"{name} ({number})"
        used.add(unused)
        unique.append(unused)
    return tuple(unique)
