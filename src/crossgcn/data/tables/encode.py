"""Encode a table of nodes as a matrix of named features.

To add a kind of column, write a file in ``kinds`` with a function that detects the kind and a
subclass of :class:`~crossgcn.data.tables.kinds.base.ColumnEncoder`, and name both in this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy import sparse

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.kinds.date import DateEncoder, infer_date
from crossgcn.data.tables.kinds.numeric import NumberEncoder, infer_numeric
from crossgcn.data.tables.kinds.words import (
    MIN_COUNT,
    FlagEncoder,
    WordEncoder,
    infer_categorical,
    infer_flag,
    infer_list,
)
from crossgcn.data.tables.table import Distinct, Table

ColumnKind = Literal[
    "id", "target", "split", "ignored", "categorical", "flag", "numeric", "date", "list"
]

Features = NDArray[np.float32]
AnyEncoder = Annotated[
    WordEncoder | FlagEncoder | NumberEncoder | DateEncoder, Field(discriminator="kind")
]

_ENCODERS: dict[str, type[FlagEncoder | NumberEncoder | DateEncoder]] = {
    "flag": FlagEncoder,
    "numeric": NumberEncoder,
    "date": DateEncoder,
}
"""Encoders of the kinds that do not hold words."""


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


class ColumnPlan(BaseModel):
    """The kind of a column, and a short reason.

    Attributes:
        chosen: Whether the user or the dataset chose the kind. Rare categories of a chosen column
            are not pooled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: ColumnKind
    reason: str
    chosen: bool = False


class TableEncoder(BaseModel):
    """Encodes the columns of a table; fitted once, it encodes every table in the same way.

    Attributes:
        version: Version of the saved format.
        columns: Encoders of the columns, in the order of the features.
        missing: Words for a missing value, in lower case.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[6] = 6
    columns: tuple[AnyEncoder, ...]
    missing: tuple[str, ...]

    @classmethod
    def fit(cls, table: Table, columns: Iterable[ColumnPlan]) -> TableEncoder:
        """Fit an encoder to each column; labels and the order of rows have no effect."""
        fitted = [_fit_column(column, table.distinct(column.name)) for column in columns]
        return cls(columns=tuple(fitted), missing=tuple(sorted(table.missing_words)))

    @cached_property
    def space(self) -> FeatureSpace:
        """Names and fields of the features; a field is a column."""
        names = [name for column in self.columns for name in column.feature_names]
        fields = [column.column for column in self.columns for _ in column.feature_names]
        return FeatureSpace(_make_unique(names), tuple(fields))

    @cached_property
    def space_of_edges(self) -> FeatureSpace:
        """Names and fields as of means over edges: ``strength (mean)``, ``kind=kin (share)``."""
        names, fields = list[str](), list[str]()
        for column in self.columns:
            known = column.number_columns
            means = {*known, *(f"{number} rank" for number in known)}
            what = "mean" if column.column in known else "share"
            for name in column.feature_names:
                names.append(f"{name} ({'mean' if name in means else 'share'})")
                fields.append(f"{column.column} ({what})")
        return FeatureSpace(_make_unique(names), tuple(fields))

    def transform(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each row, float32 ``[rows, features]``, sorted within rows.

        Columns are found by their headers; other columns are ignored. Invalid numbers, dates and
        flags count as missing. A missing column raises an error.
        """
        nodes = nodes.with_missing_words(self.missing)
        blocks: list[Any] = [sparse.coo_array((len(nodes), 0), dtype=np.float32)]
        # COO, because the row offsets of thousands of CSR blocks would fill a dense matrix.
        for column in self.columns:
            distinct = nodes.distinct(nodes.require(column.column))
            blocks.append(column.encode_values(distinct)[distinct.codes].tocoo())
        features = sparse.csr_array(sparse.hstack(blocks))
        features.eliminate_zeros()
        return features

    def find_unseen(self, nodes: Table) -> tuple[Unseen, ...]:
        """Return the values that are not in the training table, one entry per column."""
        nodes = nodes.with_missing_words(self.missing)
        words = [column for column in self.columns if isinstance(column, WordEncoder)]
        found = [column.find_unseen(nodes.distinct(column.column)) for column in words]
        return tuple(filter(None, found))


def recode(x: Features, given: TableEncoder, wanted: TableEncoder) -> Features:
    """Return the features that one encoder has for rows that another one encoded.

    Both must have the same columns. Numbers and dates are read back from their features. A word
    that has no feature in both encodings counts as ``(other)``.
    """
    ends = np.cumsum([len(each.feature_names) for each in given.columns])
    blocks = zip(given.columns, np.split(x, ends[:-1], axis=1), strict=True)
    of_column = {encoder.column: (encoder, block) for encoder, block in blocks}
    return np.hstack([_recode(*of_column[each.column], each) for each in wanted.columns])


def _recode(given: AnyEncoder, x: Features, wanted: AnyEncoder) -> Features:
    """Recode the features of one column."""
    if given == wanted:
        return x
    if isinstance(given, NumberEncoder) and isinstance(wanted, NumberEncoder):
        return wanted.encode_numbers(given.read_back(x))
    if isinstance(given, DateEncoder) and isinstance(wanted, DateEncoder):
        cells = given.read_back(x)
        return np.asarray(wanted.encode_values(cells).toarray()[cells.codes])
    place_of = {name: place for place, name in enumerate(wanted.feature_names)}
    others = [place for name, place in place_of.items() if name.endswith("(other)")]
    shared = np.zeros((x.shape[1], len(place_of)), np.float32)
    for row, name in enumerate(given.feature_names):
        shared[row, [place_of[name]] if name in place_of else others[-1:]] = 1
    return np.asarray(np.minimum(x @ shared, 1))


def _fit_column(column: ColumnPlan, distinct: Distinct) -> AnyEncoder:
    """Fit the encoder of a column's kind; chosen categories keep even rare values."""
    if column.kind in _ENCODERS:
        return _ENCODERS[column.kind].fit(column.name, distinct)
    is_list = column.kind == "list"
    min_count = 1 if column.chosen and not is_list else MIN_COUNT
    return WordEncoder.fit(column.name, distinct, is_list=is_list, min_count=min_count)


def _make_unique(names: list[str]) -> tuple[str, ...]:
    """Number repeated names: ``a=b``, then ``a=b (2)``."""
    taken, unique = set(names), []
    for name, is_repeated in zip(names, pd.Index(names).duplicated(), strict=True):
        numbered = (f"{name} ({number})" for number in count(2))
        unique.append(next(each for each in numbered if each not in taken) if is_repeated else name)
        taken.add(unique[-1])
    return tuple(unique)
