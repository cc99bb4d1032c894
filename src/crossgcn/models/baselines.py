"""Models to compare with: GCN, GIN, a perceptron, and one with Laplacian regularisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix, mean_laplacian
from crossgcn.layers import CrossFeatureTransform, MLPConv
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.models.cross_gcn import CrossGCN
from crossgcn.models.node_classifier import NodeClassifier, layer_widths, make_stack


class GCN(CrossGCN):
    """A :class:`~crossgcn.CrossGCN` of order 1, whose layers compute PyG's ``GCNConv``.

    Arguments are those of :class:`~crossgcn.CrossGCN`; ``**kwargs`` go to every layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, order=1, order_weights="fixed", **kwargs)


class UniformClassifier(NodeClassifier):
    """Layers of one kind; subclasses implement :meth:`make_layer`.

    Arguments are those of :class:`~crossgcn.CrossGCN`; ``**kwargs`` go to every layer.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        act_first: bool = False,
        act_kwargs: Mapping[str, Any] | None = None,
        norm: str | nn.Module | None = None,
        norm_kwargs: Mapping[str, Any] | None = None,
        jk: str | None = None,
        *,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        out, stack = make_stack(
            hidden_channels,
            num_layers,
            out_channels,
            act=act,
            act_first=act_first,
            act_kwargs=act_kwargs,
            norm=norm,
            norm_kwargs=norm_kwargs,
            jk=jk,
        )
        widths = layer_widths(in_channels, hidden_channels, out, num_layers)
        layers = (self.make_layer(*width, hidden_channels, bias=bias, **kwargs) for width in widths)
        super().__init__(layers, dropout, stack=stack)

    @staticmethod
    def make_layer(width_in: int, width_out: int, hidden_channels: int, **kwargs: Any) -> nn.Module:
        """Make a layer between these widths."""
        raise NotImplementedError


class GIN(UniformClassifier):
    """Layers of :class:`~crossgcn.layers.MLPConv`, without batch normalisation.

    ``hidden_channels`` is also the width of the perceptrons within layers.
    """

    @staticmethod
    def make_layer(width_in: int, width_out: int, hidden_channels: int, **kwargs: Any) -> MLPConv:
        """Make a graph convolution with a perceptron."""
        return MLPConv(width_in, hidden_channels, width_out, **kwargs)


class MLP(UniformClassifier):
    """Linear layers on each node's own features; it ignores edges. The only option is ``bias``."""

    @staticmethod
    def make_layer(  # type: ignore[override]
        width_in: int, width_out: int, hidden_channels: int, *, bias: bool = True
    ) -> CrossFeatureTransform:
        """Make a linear map."""
        return make_linear(width_in, width_out, bias=bias)


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
