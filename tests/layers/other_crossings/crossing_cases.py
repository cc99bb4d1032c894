"""One of each crossing, in every form it comes in, for tests that all of them must pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix
from crossgcn.layers import TRANSFORMS
from crossgcn.layers.feature_transform import FeatureCrossing

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "dcn": ("dcn", {}),
    "dcn, no biases": ("dcn", {"cross_bias": False, "bias": False}),
    "dcn-v2, full": ("dcn-v2", {"rank": None}),
    "dcn-v2, rank 2": ("dcn-v2", {"rank": 2}),
    "dcn-v2, no biases": ("dcn-v2", {"rank": 3, "cross_bias": False, "bias": False}),
    "cin, rank 2": ("cin", {"rank": 2, "feature_maps": 5, "embedding_channels": 2}),
    "cin, full": ("cin", {"rank": None, "feature_maps": 2, "embedding_channels": 3}),
    "hofm": ("hofm", {}),
    "hofm, rank 3": ("hofm", {"rank": 3, "bias": False}),
}
ON_SPARSE_ROWS = [case for case in CASES if case != "cin, full"]
THROUGH_PROJECTIONS = ["dcn", "dcn, no biases", "cin, rank 2"]


def make(name: str, *arguments: int, **settings: Any) -> FeatureCrossing:
    """A crossing module by its name, with a bias unless told otherwise."""
    module: FeatureCrossing = TRANSFORMS[name].load()(*arguments, **settings)
    return module


def make_crossing(case: str, in_channels: int, out_channels: int, order: int) -> FeatureCrossing:
    """A module in float64 whose biases, too, are not zero."""
    name, settings = CASES[case]
    crossing: FeatureCrossing = make(name, in_channels, out_channels, order, **settings).double()
    for bias in biases(crossing):
        nn.init.normal_(bias)
    return crossing


def biases(crossing: FeatureCrossing) -> Iterator[Tensor]:
    """Those of the output, and those within."""
    return (value for name, value in crossing.named_parameters() if name.endswith("bias"))


def random_rows(rows: int, columns: int, share: float = 1.0) -> Tensor:
    """Dense Gaussian rows of which a share is not zero; the last row is empty."""
    x = torch.randn(rows, columns, dtype=torch.float64) * (torch.rand(rows, columns) < share)
    x[-1] = 0.0
    return x


def to_csr(dense: Tensor) -> Tensor:
    """The same as ``torch.sparse_csr``."""
    matrix = SparseMatrix.from_scipy(dense.numpy())
    return csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, matrix.shape)


def add_bias(crossing: FeatureCrossing, expected: Tensor) -> Tensor:
    """What a twin without the bias of the output computes, with it."""
    return expected if crossing.bias is None else expected + crossing.bias.detach()
