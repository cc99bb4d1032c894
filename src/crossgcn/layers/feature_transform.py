"""The base class of everything that transforms the features of a node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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


def is_dense(x: Tensor | SparseMatrix) -> bool:
    """Return whether features are a dense tensor."""
    return isinstance(x, Tensor) and x.layout == torch.strided
