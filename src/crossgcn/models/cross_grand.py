"""Cross-GRAND: crosses of randomly propagated features, whose predictions should agree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv, FeatureDropout
from crossgcn.layers.aggregation import RandomPropagation
from crossgcn.models.node_classifier import NodeClassifier, layer_widths


class CrossGrand(NodeClassifier):
    r"""A perceptron over random propagations of the features, with crosses in its first layer.

    The recipe is GRAND's: features are averaged over several hops after whole nodes were
    left out at random (:class:`~crossgcn.layers.aggregation.RandomPropagation`), and a
    perceptron predicts from that. Each training step draws :math:`S` such propagations and
    makes their predictions :math:`\mathbf{p}^{(s)}` of *all* nodes agree with their own
    sharpened mean, which is where nodes without a label teach:

    .. math:: \Gamma = \frac{1}{S}\sum_{s=1}^{S}\left(\frac{1}{M}\sum_{i=1}^{M}
        l(\hat{\mathbf{y}}^{(s)}_i, \mathbf{y}_i) + \frac{\gamma}{N}\sum_{i=1}^{N}
        \|\mathbf{p}^{(s)}_i - \bar{\mathbf{p}}'_i\|^2\right)
        + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2,
        \qquad \bar{p}'_{ic} \propto \bar{p}_{ic}^{\,1/T}

    The first layer's linear part is what is propagated: :math:`(\bar{\mathbf{A}}\mathbf{X})
    \mathbf{W}` is :math:`\bar{\mathbf{A}}(\mathbf{X}\mathbf{W})`, so sparse features stay
    sparse. :mod:`crossgcn.training.objective` computes the rest. With ``order=1`` it is
    GRAND without crosses.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Layers of the perceptron, of which the first propagates.
        dropout: Probability of dropping an entry of a layer's input.
        input_dropout: The same for the features; ``dropout`` when left out.
        order: Highest order of the crosses in the first layer; the others have none, which
            ``order=[2, 1]`` may say in words.
        hops: How many hops features are averaged over.
        node_drop: Probability of leaving a node out.
        draws: :math:`S`; 1 leaves predictions to be sharpened only.
        consistency: :math:`\gamma`.
        temperature: :math:`T`, above 0 and at most 1; 1 sharpens nothing.
        warm_up: Steps over which :math:`\gamma` grows from nothing. Draws that must agree
            before they know anything agree on one class for all nodes.
        aggregate_first: Propagate, then cross; ``False`` crosses each node first.
        bias: Give each layer a bias.
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
        if draws < 1:
            raise BadInput(f"draws must be at least 1; got {draws}")
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
        perceptron = (
            CrossFeatureTransform(*width, order=1, order_weights="fixed", bias=bias)
            for width in others
        )
        super().__init__([propagating, *perceptron], dropout, input_dropout=input_dropout)
        self.draws = draws
        self.consistency = consistency
        self.temperature = temperature
        self.warm_up = warm_up

    def choose_draw(self, draw: int) -> None:
        """Which of a step's propagations the next pass is."""
        for module in self.modules():
            if isinstance(module, FeatureDropout):
                module.draw = draw
