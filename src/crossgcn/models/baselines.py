"""Models to compare with: GCN, GIN, a perceptron, and one with Laplacian regularisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix, mean_laplacian
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.models.cross_gcn import CrossGCN
from crossgcn.models.node_classifier import NodeClassifier, layer_widths


class GCN(CrossGCN):
    """A :class:`~crossgcn.CrossGCN` of order 1, whose layers compute PyG's ``GCNConv``.

    Arguments are those of :class:`~crossgcn.CrossGCN`; ``**kwargs`` go to every layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, order=1, order_weights="fixed", **kwargs)


class GIN(CrossGCN):
    """A :class:`~crossgcn.CrossGCN` whose layers aggregate, then apply a perceptron.

    This is the paper's GIN: GCN's normalised aggregation, without batch normalisation (the
    paper's footnote). ``hidden_channels`` is also the width of the perceptrons within layers,
    and ``bias`` also adds one there.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        *args: Any,
        aggregate_first: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        inside = {"hidden_channels": hidden_channels, "hidden_bias": bias}
        super().__init__(
            in_channels,
            hidden_channels,
            *args,
            transform="mlp",
            transform_kwargs=inside,
            aggregate_first=aggregate_first,
            bias=bias,
            **kwargs,
        )


class MLP(NodeClassifier):
    """Linear layers on each node's own features; it ignores edges."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        out = hidden_channels if out_channels is None else out_channels
        widths = layer_widths(in_channels, hidden_channels, out, num_layers)
        super().__init__((make_linear(*width, bias=bias) for width in widths), dropout)


class SemiEmb(MLP):
    r"""An MLP trained with graph Laplacian regularisation on its predictions.

    The graph enters the objective only, so a trained model needs no edges:

    .. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
        + \frac{\gamma}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2
        + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2,
        \qquad \mathbf{p}_i = \mathrm{softmax}(\mathbf{z}_i)

    The second sum runs over every undirected edge once, labelled or not, so each step predicts
    all nodes. The default weight, and comparing predictions after the softmax instead of
    scores, were chosen by validation accuracy.

    Args:
        laplacian_weight: :math:`\gamma`, finite and not negative; 0 is an MLP.
    """

    def __init__(self, *args: Any, laplacian_weight: float = 0.3, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not (math.isfinite(laplacian_weight) and laplacian_weight >= 0):
            raise BadInput(
                f"laplacian_weight must be a finite number of at least 0; got {laplacian_weight}"
            )
        self.laplacian_weight = laplacian_weight

    @property
    def penalty_reason(self) -> str | None:
        """Predictions should agree along edges."""
        return "makes predictions agree along all edges" if self.laplacian_weight > 0 else None

    def penalty_matrix(self, graph: PreparedGraph) -> SparseMatrix | None:
        """Return the mean Laplacian of the graph."""
        return mean_laplacian(graph.adjacency)

    def penalty(
        self, draws: Sequence[Tensor], matrix: SparseMatrix | None, step: Tensor | None
    ) -> Tensor | None:
        """Return the weighted Laplacian penalty."""
        assert matrix is not None
        return self.laplacian_weight * laplacian_penalty(draws[0], matrix)


def laplacian_penalty(scores: Tensor, laplacian: SparseMatrix) -> Tensor:
    r"""Compute the mean squared distance of the predictions of neighbours.

    .. math:: \mathrm{tr}(\mathbf{P}^{\top}\mathbf{L}\mathbf{P})
        = \frac{1}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2

    :math:`\mathbf{P}` is the softmax of the class scores of all nodes, :math:`\mathbf{L}` is
    :func:`~crossgcn.graph.mean_laplacian`.
    """
    predictions = scores.softmax(dim=-1)
    return (predictions * (laplacian @ predictions)).sum()
