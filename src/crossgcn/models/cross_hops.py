"""Crosses of a node's own columns with those of its neighbourhood."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from math import sqrt
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from crossgcn.data.relations import Relation, as_relation
from crossgcn.errors import BadInput, check_count
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.neighbourhood import NeighbourLabels, Smoothing
from crossgcn.graph.standardise import Scale, standardise
from crossgcn.kernels import project
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier


class CrossHops(NodeClassifier):
    r"""The paper's transform on a node's own columns and the means of its neighbourhood.

    .. math::
        \tilde{\mathbf{x}}_v &= \left[\mathbf{x}_v \,\|\, s(\bar{\mathbf{N}}\mathbf{X})_v \,\|\,
        s(\bar{\mathbf{N}}^2\mathbf{X})_v \,\|\, s(\log(1 + d_v))\right] \\
        \mathbf{z}_v &= \sum_{k=1}^{K} \boldsymbol{\alpha}_k \odot (\mathbf{W}^k
        \tilde{\mathbf{x}}_v) \odot \dots \odot (\mathbf{W}^1 \tilde{\mathbf{x}}_v), \qquad
        \text{score} = \mathbf{V}\mathbf{z}_v + \mathbf{b}

    :math:`\bar{\mathbf{N}}` is the mean over neighbours without the node itself, shrunk towards
    the mean over all nodes where neighbours are few
    (:class:`~crossgcn.graph.neighbourhood.Smoothing`); :math:`d` is the number of neighbours, and
    :math:`s` standardises each column over all nodes. There is no activation: a score is a
    polynomial of degree K in named columns, and thus an exact sum of terms. With ``order=1`` the
    model is linear, without crosses.

    The columns (:meth:`columns`) do not change during training. A training step reads rows of the
    columns and no edges.

    With ``bags`` B > 1 the model is the mean of B models of ``hidden_channels`` units each, which
    has the same form. In training mode it returns the scores of each bag.

    Args:
        in_channels: Own columns per node.
        hidden_channels: Units per bag.
        num_layers: Must be 1.
        out_channels: Number of classes, or 1 for a number; ``hidden_channels`` by default.
        dropout: Probability of dropping an entry of :math:`\tilde{\mathbf{x}}`.
        order: Highest order K of the crosses, as a number or a sequence of one number.
        hops: Number of hops of the neighbourhood; 0 for own columns alone.
        label_features: Add columns with the labels of neighbours in the training set.
        bags: Number of models that are averaged.
        directed: Keep in-neighbours and out-neighbours apart; of several relations one for each.
        edge_columns: Number of columns of the edges of each relation; empty for none.

    Attributes:
        plan: The columns of :math:`\tilde{\mathbf{x}}`.
        center: Mean of each column that was standardised, else 0.
        deviation: Standard deviation of each column that was standardised, else 1.
        low: Smallest value of each column among the training nodes; lower values are clipped.
        high: Largest value of each column among the training nodes; higher values are clipped.
        prior: Mean of each own column, towards which means over neighbours are shrunk.
        strength: Strength of the shrinkage of each block of means; 0 for none.
        reads: Which columns each projection reads, 1 or 0, ``[order, units, columns]``; training
            keeps the other weights at 0. ``None`` for all columns.
    """

    center: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor
    prior: Tensor
    strength: Tensor
    reads: Tensor | None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 1,
        out_channels: int | None = None,
        dropout: float = 0.0,
        *,
        order: int | Sequence[int] = 2,
        hops: int = 2,
        label_features: bool = False,
        bags: int = 1,
        directed: bool | Sequence[bool] = False,
        edge_columns: Sequence[int] = (),
    ) -> None:
        if num_layers != 1:
            raise BadInput(
                f"{type(self).__name__} has one layer; got num_layers={num_layers!r}: leave it "
                "out, and give hops for a larger neighbourhood"
            )
        out_channels = hidden_channels if out_channels is None else out_channels
        if not isinstance(order, int):
            (order,) = order
        check_count("hidden_channels", hidden_channels)
        check_count("bags", bags)
        num_labels = (1 if out_channels <= 2 else out_channels) if label_features and hops else 0
        directed = directed if isinstance(directed, bool) else tuple(directed)
        plan = HopPlan(in_channels, hops, num_labels, directed, tuple(edge_columns))
        units = bags * hidden_channels
        transform = CrossFeatureTransform(
            plan.num_columns, units, order, order_weights="per-unit", bias=False
        )
        super().__init__([transform, BagReadout(hidden_channels, out_channels, bags)], dropout)
        self.plan, self.bags = plan, bags
        largest = torch.finfo(torch.float32).max
        unscaled = {"center": 0.0, "deviation": 1.0, "low": -largest, "high": largest}
        for name, value in unscaled.items():
            self.register_buffer(name, torch.full((plan.num_columns,), value))
        self.register_buffer("prior", torch.zeros(in_channels))
        self.register_buffer("strength", torch.zeros(plan.num_blocks))
        self.register_buffer("reads", None, persistent=False)
        self.reset_parameters()

    def set_scale(self, scale: Scale, smoothing: Smoothing | None = None) -> None:
        """Set the standardisation of columns and the smoothing of means over neighbours."""
        for name, value in scale._asdict().items():
            getattr(self, name).copy_(value)
        if smoothing is not None:
            self.prior.copy_(smoothing.prior)
            self.strength.copy_(smoothing.strength)

    @property
    def in_channels(self) -> int:
        """Own columns per node."""
        return self.plan.num_features

    @property
    def order(self) -> int:
        """Highest order of the crosses."""
        return self.transform.order

    @property
    def transform(self) -> CrossFeatureTransform:
        """The transform that crosses the columns."""
        return cast(CrossFeatureTransform, self.layers[0])

    @property
    def readout(self) -> BagReadout:
        """The linear map to scores."""
        return cast(BagReadout, self.layers[1])

    @property
    def scale(self) -> Scale:
        """The standardisation of the columns."""
        return Scale(self.center, self.deviation, self.low, self.high)

    @property
    def smoothing(self) -> Smoothing:
        """The smoothing of means over neighbours."""
        return Smoothing(self.prior.cpu(), self.strength.cpu())

    @property
    def is_read(self) -> Tensor:
        """Which columns have weights other than 0, bool ``[columns]``."""
        return self.transform.weight.detach().ne(0).flatten(0, 1).any(0)

    def reset_parameters(self) -> None:
        """Initialise all weights; each bag is initialised like a separate model."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        nn.init.normal_(self.transform.weight, std=1 / sqrt(self.plan.num_columns))

    def narrow(self, kept: Tensor, order: int | None = None) -> Self:
        """Return a copy that reads only some of the columns.

        Args:
            kept: Which columns, bool ``[columns]``.
            order: Highest order of the copy's crosses, at most that of the model (the default).
        """
        copy, transform = deepcopy(self), self.transform
        order = self.order if order is None else order
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            narrow = CrossFeatureTransform(
                int(kept.sum()), transform.out_channels, order, order_weights="per-unit", bias=False
            )
            narrow.weight.copy_(transform.weight[:order, :, kept])
            for gates, trained in zip(narrow.gates(), transform.gates(), strict=False):
                gates.copy_(trained[: len(gates)])
        copy.layers[0] = narrow.to(transform.weight)
        copy.reads = None if self.reads is None else self.reads[:order, :, kept]
        for name, value in self.scale.narrow(kept)._asdict().items():
            setattr(copy, name, value)
        return copy

    def set_units(self, units: int) -> None:
        """Replace transform and read-out by untrained ones with ``units`` units per bag."""
        old = self.transform
        with torch.random.fork_rng(devices=[]):
            transform = CrossFeatureTransform(
                old.in_channels, self.bags * units, old.order, order_weights="per-unit", bias=False
            )
            readout = BagReadout(units, self.readout.out_channels, self.bags)
        self.layers[0], self.layers[1] = transform.to(self.center), readout.to(self.center)

    @torch.no_grad()
    def widen(self, narrow: CrossHops, kept: Tensor) -> None:
        """Copy the weights of a model that :meth:`narrow` returned; other weights become 0."""
        if narrow.readout.in_channels != self.readout.in_channels:
            self.set_units(narrow.readout.in_channels)
        self.transform.weight.zero_()
        self.transform.weight[: narrow.order, :, kept] = narrow.transform.weight.to(self.center)
        for gates in self.transform.gates():
            gates.zero_()
            for trained in narrow.transform.gates():
                gates[: len(trained)] = trained.to(gates)
        others = dict(narrow.named_parameters())
        for name, weight in self.named_parameters():
            if not name.startswith("layers.0."):
                weight.copy_(others[name])

    def columns(
        self,
        x: Tensor,
        edge_index: Tensor | Sequence[Relation],
        edge_weight: Tensor | None = None,
        labels: NeighbourLabels | None = None,
    ) -> Tensor:
        r"""Compute the standardised columns :math:`\tilde{\mathbf{x}}` of all nodes.

        ``x`` may require a gradient. Edge weights get no gradient and must not be negative.
        """
        if isinstance(edge_index, Tensor):
            is_directed = self.plan.directed is True
            weight = None if edge_weight is None else edge_weight.detach().cpu()
            edge_index = (as_relation(edge_index.cpu(), weight, is_directed),)
        for each in edge_index:
            weight = each.edge_weight
            if weight is not None and not ((weight >= 0) & weight.isfinite()).all():
                raise BadInput(
                    "edge_weight has entries that are negative or not finite: means over "
                    "neighbours need weights of 0 or more; replace them, or leave edge_weight out"
                )
        hops = HopColumns(x.cpu(), edge_index, hops=self.plan.hops, smoothing=self.smoothing)
        if self.plan.hops and hops.plan != replace(self.plan, num_labels=0):
            raise BadInput(
                f"the graph has {len(edge_index)} relations whose columns are not those that the "
                "model was trained on; give the same relations in the same order"
            )
        columns = hops.without_labels
        if self.plan.num_labels:
            if labels is None:
                raise BadInput("this model sees the labels of neighbours: give labels")
            on_cpu: Any = (None if each is None else each.cpu() for each in labels)
            columns = torch.cat([columns, hops.label_columns(NeighbourLabels(*on_cpu))], dim=1)
        return standardise(columns.to(self.center.device), self.scale)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Tensor | None = None,
        labels: NeighbourLabels | None = None,
    ) -> Tensor:
        """Compute scores, ``[nodes, out_channels]``; in training ``[bags, nodes, out_channels]``.

        Args:
            x: Own columns of all nodes. Without edges: rows of :meth:`columns`.
            edge_index: Sources and targets, ``[2, edges]``; or a sequence of
                :class:`~crossgcn.data.relations.Relation`.
            edge_weight: One weight per edge; relations have their own.
            labels: Labels of the training nodes, if the model has ``label_features``.
        """
        if isinstance(edge_index, Tensor) or edge_index:
            x = self.columns(x, edge_index, edge_weight, labels)
        scores = self.score_bags(x)
        return scores if self.training and self.bags > 1 else self.in_unit(scores.mean(0))

    def score_bags(self, x: Tensor) -> Tensor:
        """Compute scores from rows of :meth:`columns`, ``[bags, rows, outputs]``, standardised."""
        scores: Tensor = self.readout(self.hidden(self._project(self.dropout(x))))
        return scores

    def hidden(self, projections: Tensor) -> Tensor:
        """Compute the hidden units from the projections of the columns."""
        return self.transform.combine(projections)

    def _project(self, x: Tensor) -> Tensor:
        # Like transform.project, but the gradient has the memory layout of the weights.
        return project(x, self.transform.weight.flatten(0, 1))


class BagReadout(nn.Module):
    """One linear map per bag.

    Attributes:
        weight: ``[out_channels, bags * in_channels]``.
        bias: ``[bags * out_channels]``, a vector, so that weight decay does not apply.
    """

    propagations = ()

    def __init__(self, in_channels: int, out_channels: int, bags: int = 1) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.bags = in_channels, out_channels, bags
        self.weight = nn.Parameter(torch.empty(out_channels, bags * in_channels))
        self.bias = nn.Parameter(torch.empty(bags * out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights; biases are 0."""
        nn.init.normal_(self.weight, std=1 / sqrt(self.in_channels))
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[rows, bags * in_channels]`` to ``[bags, rows, out_channels]``."""
        rows = x.view(-1, self.bags, self.in_channels).transpose(0, 1)
        weight = self.weight.view(self.out_channels, self.bags, self.in_channels)
        return torch.baddbmm(
            self.bias.view(self.bags, 1, self.out_channels), rows, weight.permute(1, 2, 0)
        )


class HopPerceptron(CrossHops):
    """One hidden layer with ReLU on a node's own columns and the means of its neighbourhood.

    It reads the same columns as :class:`~crossgcn.CrossHops` and is bagged in the same way, but
    its score is not a sum of named terms. Arguments are those of :class:`~crossgcn.CrossHops`
    without ``order``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, order=1, **kwargs)
        self.hidden_bias = nn.Parameter(torch.zeros(self.transform.out_channels))

    def reset_parameters(self) -> None:
        """Initialise all weights; biases are 0."""
        super().reset_parameters()
        nn.init.normal_(self.transform.weight, std=sqrt(2 / self.plan.num_columns))
        if hasattr(self, "hidden_bias"):
            nn.init.zeros_(self.hidden_bias)

    def hidden(self, projections: Tensor) -> Tensor:
        """Apply ReLU and dropout to the projections and their biases."""
        units: Tensor = self.dropout(projections + self.hidden_bias, site=1, activate=True)
        return units
