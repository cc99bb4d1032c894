"""The cross-feature graph convolution of the paper (Section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation, MeanAggregation, SumAggregation
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_sparse, to_edge_index

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix, normalise_edges
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform, FirstOrder
from crossgcn.layers.mlp_transform import MLPTransform
from crossgcn.layers.order_weights import OrderWeights

Features = Tensor | SparseMatrix
Size = tuple[int, int]
_UNORDERED = ("add", "sum", "mean", "min", "max", "mul")


class CrossGCNConv(MessagePassing):  # type: ignore[misc]
    r"""Graph convolution that multiplies features explicitly, up to order K.

    .. math::
        \mathbf{Z} = \hat{\mathbf{A}}\,\mathcal{F}(\mathbf{X}) + \mathbf{b}, \qquad
        \mathcal{F}(\mathbf{x}) = \sum_{k=1}^{K} \alpha_k
        (\mathbf{W}^{k}\mathbf{x}) \odot \cdots \odot (\mathbf{W}^{1}\mathbf{x})

    With ``order=1`` this is PyG's ``GCNConv`` (except for a sparse adjacency with self-loops,
    NOTE[D9]). The output is the pre-activation value.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input. For a bipartite
            graph, a pair, such as ``(-1, -1)``. Its second number is ignored, because features of
            targets are not read.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        aggregate_first: ``False`` crosses each node's own features and then aggregates, as
            the authors' code does; ``True`` aggregates first, as the paper's text says
            (NOTE[D1]).
        order_weights: See :class:`~crossgcn.CrossFeatureTransform`, also for ``first_order``.
        bias: Add :math:`\mathbf{b}` after aggregation, before any activation.
        add_self_loops: Add a self-loop to nodes without one; ``normalize`` is the default.
        normalize: Normalise edge weights by the degrees of both ends. ``False`` takes the
            edges as they are and adds no self-loop.
        improved: Give added self-loops the weight 2 instead of 1. As in PyG's ``GCNConv``, this
            has an effect only if edges have weights or are a sparse adjacency.
        cached: Keep the normalised edges of the first call, for models that use a single graph.
            Otherwise every call normalises its edges.
        aggr: The aggregation of messages, as for PyG's ``MessagePassing``: ``"add"``, ``"mean"``,
            ``"max"`` and so on, or an ``Aggregation``. Messages are multiplied by the normalised
            edge weights, as in PyG's ``GCNConv``.
        transform: A :class:`~crossgcn.layers.MLPTransform` in place of the cross-feature
            transform. ``order``, ``order_weights`` and ``first_order`` then have no effect.
        **kwargs: For PyG's ``MessagePassing``, such as ``flow`` and ``aggr_kwargs``.

    Shapes:
        - **x**: ``[..., nodes, in_channels]`` dense, ``[nodes, in_channels]``
          sparse CSR, or a pair ``(x_src, x_dst)`` for a bipartite graph.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **edge_weight**: ``[edges]``, optional.
        - **output**: ``[nodes, out_channels]``, or one row per target.
    """

    bias: nn.Parameter | None
    transform: CrossFeatureTransform | MLPTransform

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        order: int = 2,
        *,
        aggregate_first: bool = False,
        order_weights: OrderWeights = "gated",
        first_order: FirstOrder = "paper",
        bias: bool = True,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        improved: bool = False,
        cached: bool = False,
        aggr: str | Sequence[str] | Aggregation = "add",
        transform: MLPTransform | None = None,
        **kwargs: Any,
    ) -> None:
        if add_self_loops and not normalize:
            raise BadInput(
                "normalize=False takes edges as they are and does not support adding self-loops: "
                "leave out add_self_loops, or add them to edge_index"
            )
        super().__init__(aggr=aggr, **kwargs)
        if isinstance(in_channels, tuple):
            in_channels = in_channels[0]
        self.out_channels = out_channels
        self.aggregate_first = aggregate_first
        self.add_self_loops = normalize if add_self_loops is None else add_self_loops
        self.normalize = normalize
        self.improved = improved
        self.cached = cached
        self.transform = transform or CrossFeatureTransform(
            in_channels,
            out_channels,
            order,
            order_weights=order_weights,
            first_order=first_order,
            bias=False,
        )
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)
        self._cache: tuple[Size, Any, Tensor | None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise all parameters and clear the cache."""
        super().reset_parameters()
        self.transform.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._cache = None

    def forward(
        self,
        x: Features | tuple[Features, Features | None],
        edge_index: Tensor | SparseTensor | SparseMatrix,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Apply the graph convolution.

        Args:
            x: Node features ``[nodes, in_channels]``, dense or sparse; or, for a bipartite
                graph, a pair whose second member only gives the number of targets.
            edge_index: COO indices ``[2, edges]``; a transposed adjacency as ``torch.sparse``
                tensor or PyG ``SparseTensor``; or a prepared matrix of :attr:`propagations`
                (:class:`~crossgcn.graph.SparseMatrix`), which is used as it is.
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        x, size = _source_and_size(x)
        if not isinstance(edge_index, SparseMatrix):
            if self.flow != "source_to_target" and (size is not None or is_sparse(edge_index)):
                raise BadInput(
                    "a bipartite input (x_src, x_dst) and a sparse adjacency need "
                    "flow='source_to_target'"
                )
            edge_index, edge_weight = self._prepare(edge_index, edge_weight, x, size)
        edges = edge_index, edge_weight, size
        if not self.aggregate_first:
            out = self._aggregate(self.transform(x), *edges)
        elif self._is_linear:
            # NOTE[D1] Â(xW) is (Âx)W: projecting first keeps a sparse x sparse.
            out = self.transform.combine(self._aggregate(self.transform.project(x), *edges))
        elif isinstance(x, Tensor) and x.layout == torch.strided:
            out = self.transform(self._aggregate(x, *edges))
        else:
            raise BadInput(
                f"aggregate_first=True with aggr={self.aggr!r} needs dense features, because that "
                "aggregation does not commute with a projection: use aggregate_first=False, "
                "aggr='add' or 'mean', or x.to_dense()"
            )
        return out if self.bias is None else out + self.bias

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Weight the message of each edge."""
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j

    @property
    def in_channels(self) -> int:
        """Features per node, -1 while not yet known."""
        return self.transform.in_channels

    @property
    def weight(self) -> nn.Parameter | nn.UninitializedParameter:
        """All projections, ``[order, out_channels, in_channels]``."""
        return cast(nn.Parameter, self.transform.weight)

    @property
    def order_weights(self) -> Tensor | None:
        r"""The weights :math:`\alpha`, ``[order]``; ``None`` if the transform has none."""
        return cast("Tensor | None", getattr(self.transform, "order_weights", None))

    @property
    def order(self) -> int:
        """Highest order of the crosses."""
        return getattr(self.transform, "order", 1)

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """The kind of edges that the layer uses, see :func:`~crossgcn.graph.edges_of_kind`."""
        if not self.normalize:
            return ("given",)
        if not self.add_self_loops:
            return ("normalised",)
        return ("improved" if self.improved else "gcn",)

    @property
    def sums_neighbours(self) -> bool:
        """Whether aggregation is the product with the adjacency."""
        return type(self.aggr_module) is SumAggregation

    @property
    def _is_linear(self) -> bool:
        """Whether the aggregation commutes with a projection."""
        return type(self.aggr_module) in (SumAggregation, MeanAggregation)

    def _aggregate(
        self, source: Tensor, edge_index: Any, edge_weight: Tensor | None, size: Size | None
    ) -> Tensor:
        """Aggregate features of the sources over the edges of each target."""
        out: Tensor
        if not isinstance(edge_index, SparseMatrix):
            pair = source if size is None else (source, None)
            out = self.propagate(edge_index, x=pair, edge_weight=edge_weight, size=size)
        elif self.sums_neighbours:
            out = edge_index @ source
        else:
            weights = edge_index.values.to(source.dtype).unsqueeze(-1)
            messages = source.index_select(0, edge_index.columns) * weights
            out = self.aggr_module(messages, edge_index.rows, dim_size=edge_index.shape[0])
        return out

    def _prepare(
        self, edge_index: Any, edge_weight: Tensor | None, source: Features, size: Size | None
    ) -> tuple[Any, Tensor | None]:
        """Normalise edges, or take them from the cache.

        COO edges stay COO; a sparse adjacency becomes a :class:`~crossgcn.graph.SparseMatrix`.
        """
        nodes = size or (source.shape[-2], source.shape[-2])
        if self._cache is not None:
            cached_nodes, cached_index, cached_weight = self._cache
            if cached_nodes != nodes:
                raise BadInput(
                    f"this layer has cached=True and keeps a graph of {cached_nodes[0]} nodes, "
                    f"but was given {nodes[0]}: use cached=False for more than one graph, or call "
                    "reset_parameters() to start again"
                )
            return cached_index, cached_weight
        sparse = is_sparse(edge_index)
        if sparse:
            # NOTE[D9] PyG treats existing self-loops in three ways, by container; here a
            # sparse adjacency follows the rule for COO edges.
            edge_index, edge_weight = _to_edges(edge_index, edge_weight, nodes)
        if self.normalize:
            edge_index, edge_weight = self._normalise(edge_index, edge_weight, source, size)
        if sparse:
            assert edge_weight is not None
            edge_index = SparseMatrix.from_edges(edge_index, edge_weight, nodes[::-1])
            edge_weight = None
        if self.cached and self.normalize:
            self._cache = (nodes, edge_index, edge_weight)
        return edge_index, edge_weight

    def _normalise(
        self, edge_index: Tensor, edge_weight: Tensor | None, source: Features, size: Size | None
    ) -> tuple[Tensor, Tensor]:
        dtype = source.values.dtype if isinstance(source, SparseMatrix) else source.dtype
        if size is not None:
            return edge_index, _normalise_bipartite(edge_index, edge_weight, size, dtype)
        (kind,), num_nodes = self.propagations, source.shape[-2]
        edge_index, edge_weight = normalise_edges(
            kind, edge_index, num_nodes, edge_weight, self.flow, dtype=dtype
        )
        if self.aggr not in _UNORDERED and not self.explain:
            # PyG's recurrent aggregations need edges sorted by target.
            target = 1 if self.flow == "source_to_target" else 0
            order = torch.argsort(edge_index[target], stable=True)
            edge_index, edge_weight = edge_index[:, order], edge_weight[order]
        return edge_index, edge_weight

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, order={self.order})"


def _to_edges(adjacency: Any, edge_weight: Tensor | None, nodes: Size) -> tuple[Tensor, Tensor]:
    """Return COO indices and weights of a transposed sparse adjacency."""
    if edge_weight is not None:
        raise BadInput(
            "edge_weight goes with COO edges [2, edges]; a sparse adjacency holds its weights "
            "as values"
        )
    shape = adjacency.size(0), adjacency.size(1)
    if shape != nodes[::-1]:
        raise BadInput(
            f"the adjacency is {shape[0]} × {shape[1]}, but there are {nodes[1]} targets and "
            f"{nodes[0]} sources: give it transposed, a row per target and a column per source"
        )
    edge_index, weight = to_edge_index(adjacency)
    return edge_index.flip(0), weight


def _normalise_bipartite(
    edge_index: Tensor, edge_weight: Tensor | None, nodes: Size, dtype: torch.dtype
) -> Tensor:
    """Return the weights of bipartite edges, divided by the square roots of both degrees."""
    weight = torch.ones_like(edge_index[0], dtype=dtype)
    if edge_weight is not None:
        weight = edge_weight.to(dtype)
    degrees = [
        weight.new_zeros(count).index_add(0, ends, weight)[ends]
        for count, ends in zip(nodes, edge_index, strict=True)
    ]
    scale = (degrees[0] * degrees[1]).pow(-0.5)
    return weight * scale.masked_fill(~scale.isfinite(), 0.0)


def _source_and_size(
    x: Features | tuple[Features, Features | None],
) -> tuple[Features, Size | None]:
    """Return the sources' features, and the numbers of sources and targets if bipartite."""
    if not isinstance(x, tuple | list):
        return x, None
    source, target = x
    if target is None:
        raise BadInput(
            "a bipartite input (x_src, x_dst) needs x_dst to know how many targets there are; "
            "got None"
        )
    if source is target:
        return source, None
    return source, (source.shape[-2], target.shape[-2])
