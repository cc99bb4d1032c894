"""Cross-GRAND: crosses of randomly propagated features, with consistent predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers import CrossGCNConv
from crossgcn.layers.aggregation.several_hops import RandomPropagation
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.models.node_classifier import NodeClassifier, layer_widths


class CrossGrand(NodeClassifier):
    r"""GRAND with crosses in its first layer.

    Features are averaged over several hops after whole nodes were dropped at random
    (:class:`~crossgcn.layers.aggregation.several_hops.RandomPropagation`), and a perceptron
    predicts from that. Each training step draws :math:`S` such propagations and penalises the
    distance of their predictions :math:`\mathbf{p}^{(s)}` of *all* nodes from their sharpened
    mean, so unlabelled nodes contribute to training:

    .. math:: \Gamma = \frac{1}{S}\sum_{s=1}^{S}\left(\frac{1}{M}\sum_{i=1}^{M}
        l(\hat{\mathbf{y}}^{(s)}_i, \mathbf{y}_i) + \frac{\gamma}{N}\sum_{i=1}^{N}
        \|\mathbf{p}^{(s)}_i - \bar{\mathbf{p}}'_i\|^2\right)
        + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2,
        \qquad \bar{p}'_{ic} \propto \bar{p}_{ic}^{\,1/T}

    The first layer projects before it propagates, because :math:`(\bar{\mathbf{A}}\mathbf{X})
    \mathbf{W}` is :math:`\bar{\mathbf{A}}(\mathbf{X}\mathbf{W})`: sparse features stay
    sparse. With ``order=1`` it is GRAND without crosses.

    Args:
        num_layers: Layers of the perceptron, of which the first propagates.
        input_dropout: Probability of dropping an entry of the features; ``dropout`` by default.
        order: Highest order of the crosses in the first layer. The others have none:
            ``order=[2, 1]`` is the same as ``order=2``.
        hops: Number of hops that features are averaged over.
        node_drop: Probability of dropping a node.
        draws: :math:`S`; with 1, predictions are only sharpened.
        consistency: :math:`\gamma`.
        temperature: :math:`T`, above 0 and at most 1; 1 does not sharpen.
        warm_up: Steps over which :math:`\gamma` grows from 0. Without it, untrained draws may
            agree on one class for all nodes.
        aggregate_first: Propagate, then cross; ``False`` crosses each node first.
        **kwargs: For the first layer, such as ``order_weights``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        *,
        input_dropout: float | None = None,
        order: int | Sequence[int] = 2,
        hops: int = 8,
        node_drop: float = 0.5,
        draws: int = 2,
        consistency: float = 1.0,
        temperature: float = 0.2,
        warm_up: int = 100,
        aggregate_first: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        if not 0 < temperature <= 1:
            raise BadInput(f"temperature must be above 0 and at most 1; got {temperature}")
        if warm_up < 0:
            raise BadInput(f"warm_up must be at least 0; got {warm_up}")
        if not consistency >= 0:
            raise BadInput(f"consistency must be at least 0; got {consistency}")
        first, *others = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        if isinstance(order, Sequence):
            if list(order[1:]) != [1] * len(others):
                raise BadInput(
                    f"order={list(order)}: of the {num_layers} layers only the first has crosses; "
                    f"give its order alone, or {[2, *[1] * len(others)]}"
                )
            order = order[0]
        propagating = CrossGCNConv(
            *first,
            order,
            aggregate_first=aggregate_first,
            bias=bias,
            aggr=partial(RandomPropagation, hops=hops, node_drop=node_drop),
            **kwargs,
        )
        perceptron = (make_linear(*width, bias=bias) for width in others)
        super().__init__([propagating, *perceptron], dropout, input_dropout=input_dropout)
        self.draws = check_count("draws", draws)
        self.consistency = consistency
        self.temperature = temperature
        self.warm_up = warm_up

    @property
    def penalty_reason(self) -> str | None:
        """Several draws of all nodes should agree."""
        return "makes several draws of all nodes agree"

    def penalty(
        self, draws: Sequence[Tensor], matrix: SparseMatrix | None, step: Tensor | None
    ) -> Tensor | None:
        """Return the weighted consistency of the draws, which grows during the warm-up."""
        if self.consistency == 0:
            return None
        distance = consistency_penalty(draws, self.temperature)
        if step is not None and self.warm_up > 0:
            distance = distance * (step / self.warm_up).clamp(max=1)
        return self.consistency * distance


def consistency_penalty(draws: Sequence[Tensor], temperature: float) -> Tensor:
    r"""Compute the distance of several predictions from their sharpened mean.

    .. math:: \frac{1}{SN}\sum_{s,i} \|\mathbf{p}^{(s)}_i - \bar{\mathbf{p}}'_i\|^2, \qquad
        \bar{p}'_{ic} = \bar{p}_{ic}^{1/T} \Big/ \sum_{c'} \bar{p}_{ic'}^{1/T}

    No gradient flows through the mean. Stacked models are summed. Each of the ``draws`` is class
    scores of all nodes, ``[..., nodes, classes]``.
    """
    predictions = torch.stack(list(draws)).softmax(dim=-1)
    with torch.no_grad():
        # In logarithms, because a small probability to a high power underflows.
        agreed = (predictions.mean(dim=0).log() / temperature).softmax(dim=-1)
    return (predictions - agreed).square().sum() / (len(draws) * predictions.size(-2))
