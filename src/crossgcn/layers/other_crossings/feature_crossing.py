"""What the feature-crossing modules of other papers share."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers.orders.order_aggregation import check_order


class FeatureCrossing(nn.Module, ABC):
    """A map of rows that multiplies features, for the slot of the cross-feature transform.

    Weights are seen through dimensions counted from the last, so that the weights of
    several models may lie along a first one more. What is a bias has one dimension and what
    is not has several, by which weight decay tells them apart (NOTE[D5]).

    Args:
        in_channels: Features per row.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        bias: Add a bias to the output.

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]`` as
          ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`.
        - **output**: ``[..., rows, out_channels]``.
    """

    bias: nn.Parameter | None

    def __init__(self, in_channels: int, out_channels: int, order: int, bias: bool) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels)
        self.out_channels = check_count("out_channels", out_channels)
        self.order = check_order(order)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @property
    @abstractmethod
    def num_projections(self) -> int:
        """Width of the linear part."""

    @property
    def capturable(self) -> bool:
        """Whether its steps can be recorded as a CUDA graph, sparse rows or not."""
        return True

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """What it keeps of each row for its gradient, and of each feature of a row, roughly."""
        return self.num_projections, 1

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` on its own."""
        if x.shape[-1] != self.in_channels:
            raise BadInput(
                f"{type(self).__name__} was made for rows of {self.in_channels} features; "
                f"got {x.shape[-1]}"
            )
        out = self.cross(x)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    def cross(self, x: Tensor | SparseMatrix) -> Tensor:
        """All but the bias of the output."""
        return self.combine(self.project(x))

    @abstractmethod
    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """The linear part, which may be exchanged with neighbour aggregation."""

    @abstractmethod
    def combine(self, projections: Tensor) -> Tensor:
        """The rest; no bias is added to the output."""

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of this layer."""
        return f"{self.in_channels}, {self.out_channels}, order={self.order}"

    def _every_feature(self, x: Tensor | SparseMatrix) -> Tensor:
        """The rows themselves, which are the linear part where single features are multiplied."""
        if isinstance(x, Tensor) and x.layout == torch.strided:
            return x
        raise BadInput(
            f"{type(self).__name__} multiplies single features, so sparse rows cannot be projected "
            "to a few numbers and aggregated before it: use --transform-first "
            "(aggregate_first=False), --transform cross, or x.to_dense()"
        )


def check_count(name: str, count: object) -> int:
    """A count of at least 1, or an error that names it."""
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise BadInput(f"{name} must be a whole number of at least 1; got {count!r}")
    return number


def draw(weight: Tensor | None, variance: float) -> None:
    """Fill a weight, where there is one, with uniform numbers of a given variance."""
    if weight is not None:
        bound = math.sqrt(3 * variance)
        nn.init.uniform_(weight, -bound, bound)
