"""The kinds of columns: how each is detected, encoded, saved, and checked in new tables.

A new kind is a file here with a function that detects it and a subclass of
:class:`~crossgcn.data.tables.kinds.base.ColumnEncoder`; this file names the kind, its encoder and
the function.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.kinds.categorical import (
    CategoryEncoder,
    FlagEncoder,
    infer_categorical,
    infer_flag,
)
from crossgcn.data.tables.kinds.date import DateEncoder, infer_date
from crossgcn.data.tables.kinds.lists import ListEncoder, infer_list
from crossgcn.data.tables.kinds.numeric import NumberEncoder, infer_numeric
from crossgcn.data.tables.table import Distinct

FeatureKind = Literal["categorical", "flag", "numeric", "date", "list"]

AnyEncoder = Annotated[
    CategoryEncoder | FlagEncoder | NumberEncoder | DateEncoder | ListEncoder,
    Field(discriminator="kind"),
]

ENCODERS: dict[str, Any] = {
    "categorical": CategoryEncoder,
    "flag": FlagEncoder,
    "numeric": NumberEncoder,
    "date": DateEncoder,
    "list": ListEncoder,
}
"""The encoder of each kind."""


def infer_kind(name: str, distinct: Distinct) -> tuple[str, str]:
    """Return the kind that fits a column best, or ``ignored``, and a short reason."""
    values = {text for text, _ in distinct.present}
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
