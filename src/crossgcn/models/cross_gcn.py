"""Cross-GCN, and the models to compare it with: GCN, GIN, a perceptron, and SemiEmb."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from torch import Tensor, nn
from torch_geometric.nn import JumpingKnowledge, LayerNorm, Linear
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import PreparedGraph, SparseMatrix, mean_laplacian
from crossgcn.layers import CrossGCNConv
from crossgcn.layers.catalogue import ONLY_OF_CROSS
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.layers.graph_convolution import Aggregation
from crossgcn.models.node_classifier import NodeClassifier, Residual, layer_widths


class CrossGCN(NodeClassifier):
    """Any number of :class:`~crossgcn.CrossGCNConv` layers.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers, at least 1.
        out_channels: Number of classes; ``hidden_channels`` by default.
        dropout: Probability of dropping an entry of a layer's input.
        act: The activation between layers, by a name of PyG's, a function, or ``None``; like
            ``act_first``, ``act_kwargs``, ``norm``, ``norm_kwargs`` and ``jk`` as in PyG's models.
        norm: The normalisation between layers, such as ``"batch_norm"``.
        jk: Jumping knowledge: ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``.
        order: Highest order of the crosses, one for all layers or one per
            layer: ``order=[2, 1]`` crosses in the first layer only.
        aggr: The aggregation of every layer, see :class:`~crossgcn.CrossGCNConv`; GCN's
            normalised sum by default.
        transform: The feature transform, see :class:`~crossgcn.CrossGCNConv`; one for all
            layers or one per layer: ``["mlp", "linear"]``.
        residual: ``"none"``, ``"add"`` or ``"norm"``, see
            :class:`~crossgcn.models.node_classifier.NodeClassifier`.
        **kwargs: For every :class:`~crossgcn.CrossGCNConv`, such as
            ``order_weights``, ``first_order``, ``aggregate_first``, ``scaling``,
            ``bias`` and ``cached``.

    Shapes:
        - **x**: ``[nodes, in_channels]``, dense or sparse CSR.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **output**: class scores ``[nodes, out_channels]``.
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
        order: int | Sequence[int] = 2,
        aggr: Aggregation = "gcn",
        transform: str | Sequence[str] = "cross",
        residual: Residual = "none",
        **kwargs: Any,
    ) -> None:
        out = hidden_channels if out_channels is None else out_channels
        between = (act, act_first, act_kwargs, norm, norm_kwargs, jk)
        stack = None
        if between != ("relu", False, None, None, None, None):
            check_count("num_layers", num_layers)
            stack = Stack(hidden_channels, num_layers, out, *between)
            out = out if jk is None else hidden_channels
        widths = layer_widths(in_channels, hidden_channels, out, num_layers)
        orders = _one_per_layer("order", order, num_layers)
        transforms = _one_per_layer("transform", transform, num_layers)
        if residual == "add" and not any(a == b for a, b in widths[1:]):
            raise BadInput(
                "residual='add' needs a layer whose input and output have the same width, and none "
                f"of these {num_layers} layers has: give at least 3 layers"
            )
        others = {name: value for name, value in kwargs.items() if name not in ONLY_OF_CROSS}
        layers = (
            CrossGCNConv(
                *width, order, aggr=aggr, transform=name, **(kwargs if name == "cross" else others)
            )
            for width, order, name in zip(widths, orders, transforms, strict=True)
        )
        super().__init__(layers, dropout, residual=residual, stack=stack)


class Stack(nn.Module):
    """What PyG's ``BasicGNN`` has between and after its layers.

    The arguments are those of :class:`~crossgcn.CrossGCN`. With ``jk``, the output is a linear map
    of jumping knowledge over all hidden layers.
    """

    def __init__(
        self,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None,
        act_first: bool,
        act_kwargs: Mapping[str, Any] | None,
        norm: str | nn.Module | None,
        norm_kwargs: Mapping[str, Any] | None,
        jk: str | None,
    ) -> None:
        super().__init__()
        self.act: Any = None if act is None else activation_resolver(act, **(act_kwargs or {}))
        self.act_first = act_first
        made = normalization_resolver(norm, hidden_channels, **(norm_kwargs or {}))
        count = num_layers - (jk is None)
        norms = [nn.Identity() if made is None else deepcopy(made) for _ in range(count)]
        self.norms = nn.ModuleList(norms)
        arguments = inspect.signature(norms[0].forward).parameters if norms else {}
        self._takes_batch = "batch" in arguments
        self.jk: nn.Module | None = None
        self.lin: nn.Module | None = None
        if jk is not None:
            if jk != "last":
                self.jk = JumpingKnowledge(jk, hidden_channels, num_layers)
            width = num_layers * hidden_channels if jk == "cat" else hidden_channels
            self.lin = Linear(width, out_channels)

    @property
    def mixes_rows(self) -> bool:
        """Whether a row of the output depends on other rows, also in evaluation."""
        return not all(_normalises_rows_alone(norm) for norm in self.norms)

    def activate(self, position: int, hidden: Tensor, *batch: Any) -> Tensor:
        """Normalise and activate the output of a layer.

        Args:
            *batch: The graph of each node, and the number of graphs.
        """
        if self.act is not None and self.act_first:
            hidden = self.act(hidden)
        norm = self.norms[position]
        hidden = norm(hidden, *batch) if batch and self._takes_batch else norm(hidden)
        if self.act is not None and not self.act_first:
            hidden = self.act(hidden)
        return hidden

    def jump(self, hidden: list[Tensor]) -> Tensor:
        """Compute the output from all hidden layers."""
        assert self.lin is not None
        return cast(Tensor, self.lin(hidden[-1] if self.jk is None else self.jk(hidden)))


def _normalises_rows_alone(norm: nn.Module) -> bool:
    if isinstance(norm, LayerNorm):
        return bool(norm.mode == "node")
    inner = getattr(norm, "module", getattr(norm, "norm", norm))  # of BatchNorm and DiffGroupNorm
    if isinstance(inner, nn.BatchNorm1d):
        return inner.track_running_stats
    return isinstance(norm, nn.Identity | nn.LayerNorm)


def _one_per_layer(what: str, given: Any, num_layers: int) -> list[Any]:
    values = [given] * num_layers if isinstance(given, str | int) else list(given)
    if len(values) != num_layers:
        raise BadInput(
            f"{what}={values} names {len(values)} layers, but num_layers is {num_layers}: "
            f"give one {what} for all layers or one per layer"
        )
    return values


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
