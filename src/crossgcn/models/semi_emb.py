"""SemiEmb as the paper compares with it: a perceptron whose neighbours should agree."""

from __future__ import annotations

import math
from typing import Any

from crossgcn.errors import BadInput
from crossgcn.models.mlp import MLP

__all__ = ["SemiEmb"]


class SemiEmb(MLP):
    r"""An MLP trained with graph Laplacian regularisation on its predictions.

    The graph enters the objective only, so a trained model needs no edges:

    .. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
        + \frac{\gamma}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2
        + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2,
        \qquad \mathbf{p}_i = \mathrm{softmax}(\mathbf{z}_i)

    The second sum runs over every undirected edge of the graph, each once,
    whether or not its ends are labelled: in each step all nodes are predicted.
    :mod:`crossgcn.training.objective` computes it. That it compares predictions
    after the softmax, not scores before it, and the default weight were chosen by
    validation accuracy.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        laplacian_weight: :math:`\gamma`, finite and not negative; 0 is an MLP.
        **kwargs: For :class:`~crossgcn.models.mlp.MLP`, such as ``bias``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        *,
        laplacian_weight: float = 0.3,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, dropout, **kwargs)
        if not (math.isfinite(laplacian_weight) and laplacian_weight >= 0):
            raise BadInput(
                f"laplacian_weight must be a finite number of at least 0; got {laplacian_weight}"
            )
        self.laplacian_weight = laplacian_weight
