"""Feature matrices, feature names, and the saved description of a model's inputs and outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

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

    Torch warns once per process that CSR is in beta and that invariants are not checked. This
    function checks them.
    """
    indices, values = torch.as_tensor(indices, dtype=torch.int64), torch.as_tensor(values)
    if not values.numel():  # torch 2.10 rejects empty tensors from NumPy, whose stride is 0
        indices, values = indices.new_empty(len(indices)), values.new_empty(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor|invariant checks)", UserWarning)
        # Leaving this context turns checks off explicitly, so torch does not warn about it later.
        with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
            indptr = torch.as_tensor(indptr, dtype=torch.int64)
            return torch.sparse_csr_tensor(indptr, indices, values, size=shape)


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
    """Unique names of the features, and the field of each.

    A field is a column of the user's table. Its features are categories such as
    ``gender=female``, ranges of numbers such as ``age=[20, 25)``, or the number ``age`` itself.
    Two features of one field are never crossed.
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.fields):
            raise BadInput(
                f"there are {len(self.names)} names but {len(self.fields)} fields: give one of "
                "each per feature"
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


def name_label(classes: Sequence[str], target: str | None = None) -> str:
    """Return what the label of a node is called, such as neighbours' in ``neighbours: banned``.

    Without the name of the target, this is the number's name, the second of two classes, or
    ``class``.
    """
    return target or (classes[-1] if 0 < len(classes) <= 2 else "class")


@dataclass(frozen=True)
class Preprocess:
    """Classes, features and table encoding of a model, saved as ``preprocess.json``.

    Classes are in the order of the scores.
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
        saved = read_saved(_Saved, content, "the description of the inputs")
        names, fields = saved.feature_names, saved.fields
        space = None if names is None else FeatureSpace(names, fields or names)
        return cls(saved.classes, space, saved.encoding, saved.extra)


Saved = TypeVar("Saved", bound=BaseModel)


def read_saved(model: type[Saved], content: Any, what: str) -> Saved:
    """Validate content that was saved with a model; raise an error if a type is wrong."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise BadInput(f"{what} is damaged at {where} ({first['msg']}); train again") from None


class _Saved(BaseModel):
    """The content of ``preprocess.json``."""

    classes: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    fields: tuple[str, ...] | None = None
    encoding: dict[str, Any] | None = None
    extra: dict[str, Any] = {}
