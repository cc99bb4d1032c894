"""Feature matrices, the names of their columns, and what a model's inputs and outputs mean."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from torch import Tensor

from crossgcn.errors import BadInput


def csr_tensor(
    indptr: Tensor | NDArray[np.integer],
    indices: Tensor | NDArray[np.integer],
    values: Tensor | NDArray[np.floating],
    shape: tuple[int, int],
) -> Tensor:
    """Build a torch sparse CSR matrix, check it, and suppress torch's two warnings.

    Torch warns with the first matrix of a process that CSR is in beta, and that invariants are
    not checked. Here they are checked.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor|invariant checks)", UserWarning)
        # Leaving this context turns checks off explicitly, so torch does not warn about it later.
        with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
            return torch.sparse_csr_tensor(
                torch.as_tensor(indptr, dtype=torch.int64),
                _with_stride(torch.as_tensor(indices, dtype=torch.int64)),
                _with_stride(torch.as_tensor(values)),
                size=shape,
            )


def _with_stride(entries: Tensor) -> Tensor:
    """Replace an empty tensor of NumPy's, whose stride of 0 is refused by torch 2.10."""
    return entries if entries.numel() else entries.new_empty(0)


def row_normalise(x: Tensor) -> Tensor:
    """Divide every row by its sum, in dense and CSR layout; rows that sum to 0 become 0."""
    if x.layout != torch.sparse_csr:
        sums = x.sum(dim=1, keepdim=True)
        return x * torch.where(sums == 0, 0, 1 / sums)
    indptr, indices, values = x.crow_indices(), x.col_indices(), x.values()
    rows = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), indptr.diff())
    sums = values.new_zeros(x.shape[0]).index_add_(0, rows, values)
    scaled = values * torch.where(sums == 0, 0, 1 / sums)[rows]
    return csr_tensor(indptr, indices, scaled, (x.shape[0], x.shape[1]))


@dataclass(frozen=True)
class FeatureSpace:
    """Names of the features, all different, and the field of each.

    A field is a column of the user's table. Its features are categories such as
    ``gender=female``, ranges of numbers such as ``age=[20, 25)``, or the number ``age`` itself.
    Two features of one field are never crossed.
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.fields):
            raise BadInput(
                f"{len(self.names)} features have names, but {len(self.fields)} have a field: "
                "give one of each per feature"
            )

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def unnamed(cls, num_features: int) -> FeatureSpace:
        """Name features ``x0``, ``x1``, ..., each a field of its own."""
        return cls.named([f"x{position}" for position in range(num_features)])

    @classmethod
    def named(cls, names: Sequence[str]) -> FeatureSpace:
        """Make each name a field of its own."""
        return cls(tuple(names), tuple(names))


@dataclass(frozen=True)
class Preprocess:
    """What the inputs and outputs of a model mean; saved beside its weights as ``preprocess.json``.

    Names of classes, in the order of the scores, and of features; how a table is encoded.
    """

    classes: tuple[str, ...]
    space: FeatureSpace | None = None
    encoding: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def numbered(cls, num_classes: int) -> Self:
        """Name classes by their numbers."""
        return cls(tuple(map(str, range(num_classes))))

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``preprocess.json``."""
        return {
            "classes": list(self.classes),
            "feature_names": None if self.space is None else list(self.space.names),
            "fields": None if self.space is None else list(self.space.fields),
            "encoding": self.encoding,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned."""
        try:
            saved = _Saved.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "all of it"
            raise BadInput(f"the description of the inputs is damaged at {where}") from None
        space = None
        if saved.feature_names is not None:
            space = FeatureSpace(saved.feature_names, saved.fields or saved.feature_names)
        return cls(saved.classes, space, saved.encoding, saved.extra)


class _Saved(BaseModel):
    """The content of ``preprocess.json``."""

    classes: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    fields: tuple[str, ...] | None = None
    encoding: dict[str, Any] | None = None
    extra: dict[str, Any] = {}
