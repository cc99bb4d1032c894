"""Graph convolution: a feature transform combined with an aggregation (Equation 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch_geometric.nn.aggr import Aggregation as PyGAggregator
from torch_geometric.nn.aggr import MulAggregation
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_sparse, spmm, to_edge_index

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput
from crossgcn.graph import (
    DenseFeatures,
    EdgeKind,
    SparseMatrix,
    edges_of_kind,
    normalise_bipartite,
)
from crossgcn.layers.aggregation import LayerMessages, NodeAggregation
from crossgcn.layers.catalogue import AGGREGATIONS, linear_aggregations, make_aggregation
from crossgcn.layers.feature_transform import FeatureTransform, is_dense

Features = Tensor | SparseMatrix
Aggregation: TypeAlias = "str | nn.Module | Callable[[int], NodeAggregation]"
"""A name, an instance of PyG's ``Aggregation``, or a function of the width."""

_SUM_NAMES = ("add", "sum", "gcn")
_REDUCTIONS = tuple(
    name for name, part in AGGREGATIONS.items() if part.target.endswith(":LayerMessages")
)


class GraphConvolution(MessagePassing):  # type: ignore[misc]
    r"""A feature transform :math:`\mathcal{F}` and an aggregation :math:`\hat{\mathbf{A}}`.

    Computes :math:`\hat{\mathbf{A}}\mathcal{F}(\mathbf{X}) + \mathbf{b}`, or
    :math:`\mathcal{F}(\hat{\mathbf{A}}\mathbf{X}) + \mathbf{b}` with
    ``aggregate_first`` (NOTE[D1]). It returns pre-activation values. Arguments that are not listed
    are those of :class:`~crossgcn.CrossGCNConv`.

    Args:
        aggr: How messages are aggregated. ``add`` (also called ``sum`` and ``gcn``), other names
            of PyG's such as ``mean``, ``max`` and ``softmax``, and instances of PyG's
            ``Aggregation`` work as in PyG's ``GCNConv``, over the edges that ``improved``,
            ``normalize`` and ``add_self_loops`` describe. Other
            names of :data:`~crossgcn.layers.catalogue.AGGREGATIONS`, and functions that make a
            :class:`~crossgcn.layers.aggregation.NodeAggregation` of a given width, weight edges
            in their own way.
    """

    bias: nn.Parameter | None
    aggregation: NodeAggregation | None

    def __init__(
        self,
        transform: FeatureTransform,
        out_channels: int,
        *,
        aggregate_first: bool = False,
        bias: bool = True,
        improved: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        cached: bool = False,
        aggr: Aggregation = "add",
        **kwargs: Any,
    ) -> None:
        if add_self_loops and not normalize:
            raise BadInput(
                "normalize=False takes edges as they are and does not support adding self-loops: "
                "leave out add_self_loops, or add them to edge_index"
            )
        if add_self_loops is None:
            add_self_loops = normalize
        if improved and not (normalize and add_self_loops):
            raise BadInput(
                "improved=True sets the weight of added self-loops before edges are normalised: "
                "leave normalize and add_self_loops at True"
            )
        reduces = isinstance(aggr, PyGAggregator) or aggr in _REDUCTIONS
        options = {} if reduces else kwargs.pop("aggr_kwargs", None) or {}
        if options and not isinstance(aggr, str):
            raise BadInput("aggr_kwargs go with the name of an aggregation: leave them out")
        super().__init__(aggr=aggr if reduces else "add", **kwargs)
        self.out_channels = out_channels
        self.aggregate_first = aggregate_first
        self.improved = improved
        self.add_self_loops = add_self_loops
        self.normalize = normalize
        self.cached = cached
        self.transform = transform
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)
        self.aggregation = None
        self._of_pyg = reduces or aggr in _SUM_NAMES
        if reduces:
            make = partial(LayerMessages, reduce=self.aggr_module, kind=self.edge_kind)
            self.aggregation = self._make_aggregation(make, lazy=True)
            self.aggregation.name = aggr if isinstance(aggr, str) else repr(aggr)
        elif options and self._of_pyg:
            raise BadInput(f"aggr={aggr!r} has no options; got aggr_kwargs={options!r}")
        elif not self._of_pyg:
            self.aggregation = self._make_own_aggregation(aggr, options)
        self._cache: tuple[tuple[int, int], Any, Tensor | None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters and clear the cache."""
        super().reset_parameters()
        self.transform.reset_parameters()
        if self.aggregation is not None:
            self.aggregation.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._cache = None

    def forward(
        self,
        x: Features | tuple[Features, Features | None],
        edge_index: Tensor | SparseTensor | SparseMatrix | Sequence[SparseMatrix],
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Convolve.

        Args:
            x: Node features ``[nodes, in_channels]``, dense or sparse; or, for a bipartite
                graph, a pair whose second member only gives the number of targets.
            edge_index: COO indices ``[2, edges]``; a transposed adjacency as ``torch.sparse``
                tensor or PyG ``SparseTensor``; or a
                :class:`~crossgcn.graph.SparseMatrix` of the layer's :attr:`propagations`, which
                is used as it is (a sequence holds one per hop).
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        if forward_ad._current_level >= 0 and any(
            isinstance(module, MulAggregation) for module in self.modules()
        ):
            # PyTorch 2.13 silently returns zero tangents for scatter_reduce(reduce="prod").
            raise BadInput(
                f"aggr={self.aggr_name!r} cannot be differentiated in forward mode: use reverse "
                "mode, torch.autograd.grad"
            )
        source, size = _source_and_size(x)
        if size is not None and self.flow != "source_to_target":
            raise BadInput("a bipartite input (x_src, x_dst) needs flow='source_to_target'")
        if isinstance(edge_index, SparseMatrix):
            edge_index = (edge_index,) * len(self.propagations)
        elif not isinstance(edge_index, Sequence):
            edge_index, edge_weight = self._prepare(edge_index, edge_weight, source, size)
        if isinstance(edge_index, Sequence):
            if self._sums_crosses_of(source):
                return self.finish(self.transform(source, sum_by=edge_index[0]))
            return self.finish(self.join(self.send(source), edge_index))
        sent = self.send(source)
        pair = sent if size is None else (sent, None)
        return self.finish(self.propagate(edge_index, x=pair, edge_weight=edge_weight, size=size))

    def send(self, x: Features) -> Tensor:
        """Compute what each node sends to its neighbours."""
        if not self.aggregate_first:
            out: Tensor = self.transform(x)
            return out
        if self._is_linear:
            # NOTE[D1] Â(xW) is (Âx)W: projecting first keeps a sparse x sparse.
            return self.transform.project(x)
        if not is_dense(x):
            raise BadInput(
                f"aggregate_first=True with aggr={self.aggr_name!r} needs dense features, because "
                "that aggregation does not commute with a projection: use --transform-first "
                "(aggregate_first=False), an aggregation that does "
                f"({', '.join(linear_aggregations())}), or x.to_dense()"
            )
        return cast(Tensor, x)

    def join(self, sent: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate what was sent over prepared edges, one matrix per hop."""
        joined: Tensor = (
            hops[0] @ sent if self.aggregation is None else self.aggregation(sent, hops)
        )
        return joined

    def finish(self, joined: Tensor) -> Tensor:
        """Compute the output from what was aggregated."""
        out = joined
        if self.aggregate_first:
            out = self.transform.combine(joined) if self._is_linear else self.transform(joined)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    @property
    def in_channels(self) -> int:
        """Features per node, -1 while not yet known."""
        return self.transform.in_channels

    @property
    def aggr_name(self) -> str:
        """The name of the aggregation, for messages."""
        return "gcn" if self.aggregation is None else self.aggregation.name

    @property
    def edge_kind(self) -> EdgeKind:
        """The edges that ``improved``, ``normalize`` and ``add_self_loops`` describe."""
        if not self.normalize:
            return "given"
        if not self.add_self_loops:
            return "normalised"
        return "improved" if self.improved else "gcn"

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """The kind of edges of each hop, as :class:`~crossgcn.graph.PreparedGraph` makes them."""
        return (self.edge_kind,) if self.aggregation is None else self.aggregation.propagations

    @property
    def sums_neighbours(self) -> bool:
        """Whether it multiplies by the matrix of one hop and does nothing else with edges."""
        return self.aggregation is None or self.aggregation.is_sum

    @property
    def sent_channels(self) -> int | None:
        """Width of what :meth:`send` returns; ``None`` for the layer's own input."""
        if not self.aggregate_first:
            return self.out_channels
        return self.transform.num_projections if self._is_linear else None

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Weight the message of each edge."""
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j

    def message_and_aggregate(self, adj_t: Any, x: Any) -> Tensor:
        """Compute messages and their aggregation as one sparse product."""
        dense = x[0] if isinstance(x, tuple) else x
        return cast(Tensor, spmm(adj_t, dense, self.aggr))

    @property
    def multiplies_first(self) -> bool:
        """Whether nothing but the projections is computed from the input."""
        multiplies = getattr(self.transform, "multiplies_first", False)
        return multiplies and (not self.aggregate_first or self._is_linear)

    def _sums_crosses_of(self, x: object) -> bool:
        """Whether a kernel can compute the transform and the sum over neighbours together."""
        adds_nothing = not self.aggregate_first and self.transform.bias is None
        sums = self.aggregation is None and self.multiplies_first and adds_nothing
        return isinstance(x, DenseFeatures) and sums

    @property
    def _is_linear(self) -> bool:
        return self.aggregation is None or self.aggregation.linear

    def _make_own_aggregation(
        self, aggr: Aggregation, options: Mapping[str, Any]
    ) -> NodeAggregation:
        if not callable(aggr) and not isinstance(aggr, str):
            raise BadInput(
                f"aggr is a name, a PyG Aggregation, or a function of the width; got {aggr!r}"
            )
        if self.edge_kind != "gcn":
            raise BadInput(
                "improved=True, normalize=False and add_self_loops=False go with aggr='add', "
                f"'mean', 'max' and the like: {aggr!r} weights edges in its own way"
            )
        make: Any = partial(make_aggregation, aggr, **options) if isinstance(aggr, str) else aggr
        return self._make_aggregation(make)

    def _make_aggregation(
        self, make: Callable[[int], NodeAggregation], lazy: bool = False
    ) -> NodeAggregation:
        """Make the aggregation for the width of what :meth:`send` returns."""
        if not self.aggregate_first:
            return make(self.out_channels)
        known = lazy or self.transform.in_channels >= 0
        made = make(self.transform.in_channels if known else self.transform.num_projections)
        if made.linear:
            return make(self.transform.num_projections)
        if not known:
            raise BadInput(
                f"aggregate_first=True with {type(made).__name__}, which does not commute with "
                "a projection, needs to know the number of features: give in_channels instead "
                "of -1"
            )
        return made

    def _check_suits_aggregation(
        self, edge_weight: Tensor | None, source: Features, size: Any
    ) -> None:
        """Refuse what only PyG's aggregations can do."""
        name = f"aggr={self.aggr_name!r}"
        remedy = "use aggr='add', 'mean' or 'max'"
        if size is not None:
            raise BadInput(f"{name} aggregates nodes of one kind: {remedy} for a bipartite graph")
        if len(source.shape) != 2:
            raise BadInput(
                f"{name} takes x of [nodes, channels]; got {tuple(source.shape)}: {remedy} for "
                "batches on one graph, or loop over them"
            )
        if self.explain:
            raise BadInput(
                f"{name} has no messages that PyG's explainers could mask: {remedy}, or explain "
                "features only (edge_mask_type=None)"
            )

    def _prepare(
        self,
        edge_index: Any,
        edge_weight: Tensor | None,
        source: Features,
        size: tuple[int, int] | None,
    ) -> tuple[Any, Tensor | None]:
        """Normalise edges for PyG's ``propagate``, or make the matrices of our own aggregation.

        They are taken from the cache if there is one.
        """
        sparse = is_sparse(edge_index)
        if sparse and edge_weight is not None:
            raise BadInput(
                "edge_weight goes with COO edges [2, edges]; a sparse adjacency holds its weights "
                "as values"
            )
        if not self._of_pyg:
            self._check_suits_aggregation(edge_weight, source, size)
        elif not self.normalize:
            return edge_index, edge_weight
        nodes = size or (source.shape[-2], source.shape[-2])
        if self._cache is not None:
            kept, *cached = self._cache
            if kept != nodes:
                raise BadInput(
                    f"this layer has cached=True and keeps a graph of {kept[0]} nodes, "
                    f"but was given {nodes[0]}: use cached=False for more than one graph, or call "
                    "reset_parameters() to start again"
                )
            return cached[0], cached[1]
        if sparse:
            # NOTE[D9] PyG treats existing self-loops in three ways, by container; here a
            # sparse adjacency follows the rule for COO edges.
            edge_index, edge_weight = _to_edges(edge_index, nodes)
        dtype = source.values.dtype if isinstance(source, SparseMatrix) else source.dtype
        if not self._of_pyg:
            if self.flow != "source_to_target" and not sparse:
                edge_index = edge_index.flip(0)
            matrices = {
                kind: edges_of_kind(kind, edge_index, nodes[0], edge_weight, dtype=dtype)
                for kind in set(self.propagations)
            }
            edge_index, edge_weight = tuple(matrices[kind] for kind in self.propagations), None
        elif size is None:
            edge_index, edge_weight = gcn_norm(
                edge_index,
                edge_weight,
                nodes[0],
                self.improved,
                self.add_self_loops,
                flow=self.flow,
                dtype=dtype,
            )
        else:
            edge_weight = normalise_bipartite(edge_index, edge_weight, *nodes, dtype=dtype)
        if sparse and self._of_pyg:
            assert edge_weight is not None
            edge_index, edge_weight = _to_adjacency(edge_index, edge_weight, nodes), None
        if self.cached:
            self._cache = (nodes, edge_index, edge_weight)
        return edge_index, edge_weight


def _to_edges(adjacency: Any, nodes: tuple[int, int]) -> tuple[Tensor, Tensor | None]:
    """Return COO indices and weights of a transposed sparse adjacency."""
    if isinstance(adjacency, Tensor):
        (target, source), weight = to_edge_index(adjacency)
        shape = tuple(adjacency.shape)
    else:
        target, source, weight = adjacency.coo()
        shape = tuple(adjacency.sparse_sizes())
    if shape != nodes[::-1]:
        raise BadInput(
            f"the adjacency is {shape[0]} × {shape[1]}, but there are {nodes[1]} targets and "
            f"{nodes[0]} sources: give it transposed, a row per target and a column per source"
        )
    return torch.stack([source, target]), weight


def _to_adjacency(edge_index: Tensor, edge_weight: Tensor, nodes: tuple[int, int]) -> Tensor:
    """Return the transposed adjacency of COO edges, as ``torch.sparse_csr``."""
    order = torch.argsort(edge_index[1] * nodes[0] + edge_index[0])
    source, target = edge_index[:, order]
    counts = torch.bincount(target, minlength=nodes[1])
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return csr_tensor(offsets, source, edge_weight[order], (nodes[1], nodes[0]))


def _source_and_size(
    x: Features | tuple[Features, Features | None],
) -> tuple[Features, tuple[int, int] | None]:
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
