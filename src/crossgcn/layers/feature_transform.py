"""Base classes of everything that transforms the features of a node."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import SparseMatrix


class FeatureTransform(nn.Module):
    """A map of rows that consists of a linear part and a rest.

    A weighted sum over neighbours commutes with the linear part. A graph convolution that
    aggregates first therefore projects sparse features before it aggregates them.

    Subclasses set ``in_channels`` and ``out_channels``, implement :meth:`project`, :meth:`combine`
    and :meth:`reset_parameters`, and override :attr:`num_projections` if it is not
    ``out_channels``.

    Attributes:
        stackable: Whether the parameters of several models can be stacked along a new first
            dimension; see :mod:`crossgcn.training.model_batch`.
        propagations: No hop, so a transform can be a layer of a
            :class:`~crossgcn.models.node_classifier.NodeClassifier`.
    """

    in_channels: int
    out_channels: int
    bias: nn.Parameter | None
    stackable = False
    propagations = ()

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""
        return self.out_channels

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can record it: it never waits for a number from the GPU."""
        return True

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        return self.num_projections, 1

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        raise NotImplementedError

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        out = self.transform(x)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    def transform(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` without adding the bias."""
        return self.combine(self.project(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Apply the linear part."""
        raise NotImplementedError

    def combine(self, projections: Tensor) -> Tensor:
        """Apply the rest to projections, without adding the bias."""
        raise NotImplementedError


class FeatureCrossing(FeatureTransform):
    """A feature transform that multiplies features in another way than the paper's.

    Subclasses index the dimensions of weights from the last, so that weights of several models
    can be stacked. Biases are vectors and weights are matrices, which is how weight decay tells
    them apart (NOTE[D5]).

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

    def __init__(self, in_channels: int, out_channels: int, order: int, bias: bool) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels)
        self.out_channels = check_count("out_channels", out_channels)
        self.order = check_order(order)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

    def reset_parameters(self) -> None:
        """Set the bias to 0; subclasses draw their weights too."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        if x.shape[-1] != self.in_channels:
            raise BadInput(
                f"{type(self).__name__} was made for rows of {self.in_channels} features; "
                f"got {x.shape[-1]}"
            )
        return super().forward(x)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"{self.in_channels}, {self.out_channels}, order={self.order}"

    def _every_feature(self, x: Tensor | SparseMatrix) -> Tensor:
        """Return dense rows, the linear part of modules that multiply single features."""
        if isinstance(x, Tensor) and is_dense(x):
            return x
        raise BadInput(
            f"{type(self).__name__} multiplies single features, so sparse rows cannot be projected "
            "to a few numbers and aggregated before it: use --transform-first "
            "(aggregate_first=False), --transform cross, or x.to_dense()"
        )


def draw(weight: Tensor | None, variance: float) -> None:
    """Fill a weight, if there is one, with uniform numbers of a given variance."""
    if weight is not None:
        bound = math.sqrt(3 * variance)
        nn.init.uniform_(weight, -bound, bound)


def check_order(order: object) -> int:
    """Return an order as an ``int``, or raise :class:`BadInput`."""
    return check_count("order", order, "1 is a linear map, 2 adds products of two features")


def is_dense(x: Tensor | SparseMatrix) -> bool:
    """Return whether features are a dense tensor."""
    return isinstance(x, Tensor) and x.layout == torch.strided
