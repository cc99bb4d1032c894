"""Encode a table of nodes as a matrix of named features, each kind of column in its way.

A new kind is a file in ``kinds`` with a function that detects it and a subclass of
:class:`~crossgcn.data.tables.kinds.base.ColumnEncoder`; this file names the kind, its encoder and
both functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import sparse

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.kinds.date import DateEncoder, infer_date
from crossgcn.data.tables.kinds.numeric import NumberEncoder, infer_numeric
from crossgcn.data.tables.kinds.words import (
    FlagEncoder,
    WordEncoder,
    infer_categorical,
    infer_flag,
    infer_list,
)
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.plan import TablePlan

FeatureKind = Literal["categorical", "flag", "numeric", "date", "list"]

AnyEncoder = Annotated[
    WordEncoder | FlagEncoder | NumberEncoder | DateEncoder, Field(discriminator="kind")
]

FIT: dict[str, Callable[[str, Distinct], AnyEncoder]] = {
    "categorical": WordEncoder.fit_categories,
    "flag": FlagEncoder.fit,
    "numeric": NumberEncoder.fit,
    "date": DateEncoder.fit,
    "list": WordEncoder.fit_lists,
}
"""How an encoder is fitted to a column of each kind."""


def infer_kind(name: str, distinct: Distinct) -> tuple[str, str]:
    """Return the kind that fits a column best, or ``ignored``, and a short reason."""
    values = distinct.texts_present
    if not values:
        return "ignored", "no cell has a value"
    only = quote(next(iter(values)))
    if len(values) == 1 and not distinct.missing.any():
        return "ignored", f"always {only}"
    if flag := infer_flag(distinct):
        return flag
    if len(values) == 1:
        return "categorical", f"{only} or nothing"
    return (
        infer_numeric(name, distinct)
        or infer_date(distinct)
        or infer_list(distinct)
        or infer_categorical(distinct)
    )


class TableEncoder(BaseModel):
    """Encodes the columns of a table; fitted once, it encodes every table in the same way.

    Attributes:
        version: Of the saved form.
        columns: In the order of the features.
        missing: Words for a missing value, in lower case.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[6] = 6
    columns: tuple[AnyEncoder, ...]
    missing: tuple[str, ...]

    @classmethod
    def fit(cls, nodes: Table, plan: TablePlan) -> TableEncoder:
        """Fit an encoder to each column, whatever the order of rows; labels are not used."""
        nodes = plan.with_missing_words(nodes)
        columns: list[AnyEncoder] = []
        for column in plan.features:
            distinct = nodes.distinct(column.name)
            if column.kind == "categorical" and column.chosen:  # every category counts
                columns.append(WordEncoder.fit_categories(column.name, distinct, 1))
            else:
                columns.append(FIT[column.kind](column.name, distinct))
        return cls(columns=tuple(columns), missing=tuple(sorted(nodes.missing_words)))

    @cached_property
    def space(self) -> FeatureSpace:
        """Names and fields of the features; a field is a column."""
        names = [name for column in self.columns for name in column.feature_names]
        fields = [column.column for column in self.columns for _ in column.feature_names]
        return FeatureSpace(_make_unique(names), tuple(fields))

    def transform(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each row, float32 ``[rows, features]``, sorted within rows.

        Columns are found by their headers; other columns are ignored. Cells that are not the
        numbers, dates or flags they should be count as missing. Refuse a missing column.
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
        for column in self.columns:
            distinct = nodes.distinct(column.column)
            blocks.append(column.encode_values(distinct)[distinct.codes].tocoo())
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
    unique: dict[str, None] = {}
    for name in names:
        unused, number = name, 1
        while unused in unique or (number > 1 and unused in given):
            number += 1
            unused = f"{name} ({number})"
        unique[unused] = None
    return tuple(unique)
