"""Dense features on a GPU, dropped as they are multiplied."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crossgcn.kernels import Draws

if TYPE_CHECKING:
    from crossgcn.kernels.gpu_products import Precision

__all__ = ["DenseFeatures"]


class DenseFeatures:
    """The constant features of one model, multiplied with weights by a GPU's tensor cores.

    What PyTorch multiplies in 32 bits is here the sum of three products of TF32, which is
    as exact (``tests/kernels/gpu_product_cases.py``) and faster. Which entries are dropped is drawn
    while they are read, so the dropped matrix need not be written. Needs Triton.

    Args:
        x: ``[1, rows, features]``; gets no gradient.
    """

    def __init__(self, x: Tensor) -> None:
        from crossgcn.kernels.gpu_products import pad_rows

        self.shape = x.shape
        self._x = pad_rows(x[0])
        self._draws: Draws | None = None
        self._p = 0.0

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self._x.device

    def size(self, dim: int) -> int:
        """Length of one dimension, as a tensor would answer."""
        return self.shape[dim]

    def drop(self, draws: Draws, p: float) -> DenseFeatures:
        """The same features, less those that are dropped."""
        other = copy(self)
        other._draws, other._p = draws, p
        return other

    def __matmul__(self, weight: Tensor) -> Tensor:
        product: Tensor = _FeatureProduct.apply(weight, self)  # type: ignore[no-untyped-call]
        return product


class _FeatureProduct(torch.autograd.Function):
    """``drop(X) @ W`` with the gradient of ``W``."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, features: DenseFeatures) -> Tensor:
        from crossgcn.kernels.gpu_products import DroppedProduct

        precision = _precision_of_products()
        product = DroppedProduct(features._x, features._draws, features._p, precision)
        ctx.product = product
        return product.project(weight[0]).unsqueeze(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        for_weight: Tensor = ctx.product.project_backward(gradient[0])
        return for_weight.float().unsqueeze(0), None


def _precision_of_products() -> Precision:
    """What PyTorch's own products would have now."""
    if torch.is_autocast_enabled("cuda"):
        return "bf16"
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"
