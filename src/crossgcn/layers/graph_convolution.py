"""Any feature transformation, combined with neighbour aggregation (Equation 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation as PyGAggregator
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_sparse, spmm, to_edge_index

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind, normalise_bipartite
from crossgcn.layers.aggregation import NodeAggregation, linear_aggregations, make_aggregation
from crossgcn.layers.aggregation.neighbour_sum import NeighbourSum

Features = Tensor | SparseMatrix
Aggregation = str | Callable[[int], NodeAggregation]


class FeatureTransform(Protocol):
    """A map of rows in two parts: a linear one, and the rest.

    A weighted sum over neighbours commutes with the linear part, which lets a
    sparse feature matrix be projected before it is aggregated.
    """

    def __call__(self, x: Features) -> Tensor:
        """Both parts, without the bias of the convolution."""

    @property
    def in_channels(self) -> int:
        """Features per row, -1 while not yet known."""

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""

    def project(self, x: Features) -> Tensor:
        """The linear part."""

    def combine(self, projections: Tensor) -> Tensor:
        """The rest."""

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""


class GraphConvolution(MessagePassing):  # type: ignore[misc]
    r"""Feature transformation :math:`\mathcal{F}` and node aggregation :math:`\hat{\mathbf{A}}`.

    Computes :math:`\hat{\mathbf{A}}\mathcal{F}(\mathbf{X}) + \mathbf{b}`, or
    :math:`\mathcal{F}(\hat{\mathbf{A}}\mathbf{X}) + \mathbf{b}` with
    ``aggregate_first`` (NOTE[D1]). It returns pre-activation values.

    Args:
        transform: The feature transformation.
        out_channels: Width of its output.
        aggregate_first: Which of the two comes first.
        bias: Add :math:`\mathbf{b}` at the end (NOTE[D3]).
        add_self_loops: Let each node count among its own neighbours.
        normalize: Weigh edges by the degrees of both ends. ``False`` takes the
            edges as they are given and adds no self-loop.
        cached: Keep the normalised edges of the first call; only for models
            that see one graph.
        aggr: How neighbours are joined. ``add``, ``mean``, ``max``, ``min``, ``mul`` and
            instances of PyG's ``Aggregation`` work as in PyG, over edges weighed as above.
            Every other name is one of
            :data:`~crossgcn.layers.aggregation.AGGREGATIONS`, which weighs edges its own
            way; so is a function that makes one for a given width.
        **kwargs: For PyG's ``MessagePassing``.

    Attributes:
        propagations: The kinds of edges the layer takes as a
            :class:`~crossgcn.graph.SparseMatrix`, one per hop.
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
        add_self_loops: bool = True,
        normalize: bool = True,
        cached: bool = False,
        aggr: Aggregation = "add",
        **kwargs: Any,
    ) -> None:
        by_pyg = aggr in _BY_PYG if isinstance(aggr, str) else isinstance(aggr, PyGAggregator)
        super().__init__(aggr=aggr if by_pyg else "add", **kwargs)
        self.out_channels = out_channels
        self.aggregate_first = aggregate_first
        self.add_self_loops = add_self_loops
        self.normalize = normalize
        self.cached = cached
        self.transform = transform
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)
        self.aggregation = None if by_pyg else self._make_aggregation(aggr)
        self._linear_aggregation = (
            self.aggr in ("add", "sum", "mean")
            if self.aggregation is None
            else self.aggregation.linear
        )
        self._cache: tuple[tuple[int, int], Any, Tensor | None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew and forget a cached graph."""
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
        edge_index: Tensor | SparseTensor | SparseMatrix,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Convolve.

        Args:
            x: Node features ``[nodes, in_channels]``, dense or sparse; or a
                pair for a bipartite graph, whose second member only says
                how many targets there are.
            edge_index: COO indices ``[2, edges]``; a transposed adjacency as
                ``torch.sparse`` tensor or PyG ``SparseTensor``, normalised
                here unless ``normalize=False``; or a
                :class:`~crossgcn.graph.SparseMatrix`, used as it is.
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        source, size = _source_and_size(x)
        if size is not None and self.flow != "source_to_target":
            raise BadInput("a bipartite input (x_src, x_dst) needs flow='source_to_target'")
        if self.aggregation is not None:
            edge_index = self._hops(edge_index, edge_weight, source, size)
        elif not isinstance(edge_index, SparseMatrix):
            edge_index, edge_weight = self._normalised(edge_index, edge_weight, source, size)

        return self.finish(self._aggregate(self.send(source), edge_index, edge_weight, size))

    def send(self, x: Features) -> Tensor:
        """What nodes hand to their neighbours, each node's on its own."""
        if not self.aggregate_first:
            return self.transform(x)
        if self._linear_aggregation:
            # NOTE[D1] Â(xW) is (Âx)W: projecting first keeps a sparse x sparse.
            return self.transform.project(x)
        if isinstance(x, SparseMatrix) or is_sparse(x):
            raise BadInput(
                f"aggregate_first=True with {self._name_of_aggregation()} needs dense "
                "features, because that aggregation does not commute with a projection: use "
                "--transform-first (aggregate_first=False), an aggregation that does "
                f"({', '.join(linear_aggregations())}), or x.to_dense()"
            )
        return x

    def join(self, sent: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate what was sent, over edges made ready, one matrix per hop."""
        edges = hops[0] if self.aggregation is None else hops
        return self._aggregate(sent, edges, None, None)

    def finish(self, joined: Tensor) -> Tensor:
        """A node's output from what its neighbours sent, joined."""
        out = joined
        if self.aggregate_first and self._linear_aggregation:
            out = self.transform.combine(joined)
        elif self.aggregate_first:
            out = self.transform(joined)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    @property
    def sums_neighbours(self) -> bool:
        """Whether neighbours are added up over one hop, by the weights of edges and no others."""
        if self.aggregation is None:
            return self.aggr in ("add", "sum")
        return isinstance(self.aggregation, NeighbourSum)

    @property
    def sent_channels(self) -> int | None:
        """Width of what :meth:`send` makes; ``None`` where nodes send what they are given."""
        if not self.aggregate_first:
            return self.out_channels
        return self.transform.num_projections if self._linear_aggregation else None

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """The edges of each hop, as :class:`~crossgcn.graph.PreparedGraph` makes them."""
        if self.aggregation is not None:
            return self.aggregation.propagations
        return ("gcn",) if self.normalize else ("self-loops",)

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Weigh what comes along an edge."""
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j

    def message_and_aggregate(self, adj_t: Any, x: Any) -> Tensor:
        """Both in one sparse product, where the edges come as a sparse matrix."""
        dense = x[0] if isinstance(x, tuple) else x
        return cast(Tensor, spmm(adj_t, dense, self.aggr))

    def _aggregate(
        self, x: Tensor, edge_index: Any, edge_weight: Tensor | None, size: tuple[int, int] | None
    ) -> Tensor:
        if self.aggregation is not None:
            joined: Tensor = self.aggregation(x, edge_index)
            return joined
        if isinstance(edge_index, SparseMatrix):
            if self.aggr not in ("add", "sum"):
                raise BadInput(
                    f"a SparseMatrix sums over neighbours; aggr={self.aggr!r} needs a COO "
                    "edge_index or a torch.sparse adjacency"
                )
            return edge_index @ x
        pair = x if size is None else (x, None)
        return cast(Tensor, self.propagate(edge_index, x=pair, edge_weight=edge_weight, size=size))

    def _make_aggregation(self, aggr: Aggregation) -> NodeAggregation:
        """For what is aggregated: outputs of the transformation, or else its inputs."""
        if not callable(aggr) and not isinstance(aggr, str):
            raise BadInput(
                f"aggr is a name, a PyG Aggregation, or a function of the width; got {aggr!r}"
            )
        if not (self.normalize and self.add_self_loops):
            raise BadInput(
                f"normalize=False and add_self_loops=False go with aggr='add', 'mean' and the "
                f"like: {aggr!r} weighs edges its own way"
            )
        make = partial(make_aggregation, aggr) if isinstance(aggr, str) else aggr
        if not self.aggregate_first:
            return make(self.out_channels)
        known = self.transform.in_channels >= 0
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

    def _name_of_aggregation(self) -> str:
        if self.aggregation is not None:
            return f"aggr={self.aggregation.name!r}"
        return f"aggr={self.aggr or self.aggr_module!r}"

    def _hops(
        self, edge_index: Any, edge_weight: Tensor | None, source: Features, size: Any
    ) -> Sequence[SparseMatrix]:
        """The edges of each hop, made from whatever form they were given in."""
        if isinstance(edge_index, SparseMatrix):
            return (edge_index,) * len(self.propagations)
        if isinstance(edge_index, Sequence):
            return edge_index
        self._check_suits_aggregation(edge_index, edge_weight, source, size)
        nodes = (source.shape[-2], source.shape[-2])
        cached = self._cached(nodes)
        if cached is not None:
            return cast(Sequence[SparseMatrix], cached[0])
        if is_sparse(edge_index):
            edge_index, edge_weight = _to_edges(edge_index, nodes)
        device, dtype = edge_index.device, _dtype_of(source)
        weight = None if edge_weight is None else edge_weight.detach().cpu()
        made = {
            kind: edges_of_kind(kind, edge_index.cpu(), nodes[0], weight, dtype=dtype).to(device)
            for kind in set(self.propagations)
        }
        hops = tuple(made[kind] for kind in self.propagations)
        if self.cached:
            self._cache = (nodes, hops, None)
        return hops

    def _check_suits_aggregation(
        self, edge_index: Any, edge_weight: Tensor | None, source: Features, size: Any
    ) -> None:
        """Refuse what only PyG's ways of aggregating can do."""
        name = self._name_of_aggregation()
        remedy = "use aggr='add', 'mean' or 'max'"
        if size is not None or self.flow != "source_to_target":
            raise BadInput(
                f"{name} joins the neighbours of one kind of nodes, from source to target: "
                f"{remedy} for a bipartite graph"
            )
        if len(source.shape) != 2:
            raise BadInput(
                f"{name} takes x of [nodes, channels]; got {tuple(source.shape)}: {remedy} for "
                "batches on one graph, or go through them one by one"
            )
        if self.explain or (edge_weight is not None and edge_weight.requires_grad):
            raise BadInput(
                f"{name} takes edges as constants, so no mask or gradient reaches their weights: "
                f"{remedy}, or give edge_weight.detach()"
            )
        _check_weights_have_edges(edge_index, edge_weight)

    def _cached(self, nodes: tuple[int, int]) -> tuple[Any, Tensor | None] | None:
        """The edges of the first call, if they are kept."""
        if self._cache is None:
            return None
        if self._cache[0] != nodes:
            raise BadInput(
                f"this layer has cached=True and keeps a graph of {self._cache[0][0]} nodes, "
                f"but was given {nodes[0]}: use cached=False for more than one graph, or call "
                "reset_parameters() to start again"
            )
        return self._cache[1], self._cache[2]

    def _normalised(
        self,
        edge_index: Any,
        edge_weight: Tensor | None,
        source: Features,
        size: tuple[int, int] | None,
    ) -> tuple[Any, Tensor | None]:
        """The edges as they are summed over, from the cache where there is one."""
        sparse = is_sparse(edge_index)
        _check_weights_have_edges(edge_index, edge_weight)
        if not self.normalize:
            return edge_index, edge_weight
        nodes = size or (source.shape[-2], source.shape[-2])
        cached = self._cached(nodes)
        if cached is not None:
            return cached

        if sparse:
            # NOTE[D9] PyG treats existing self-loops in three ways, by container; here a
            # sparse adjacency is normalised by the rule for COO edges.
            edge_index, edge_weight = _to_edges(edge_index, nodes)
        dtype = _dtype_of(source)
        if size is None:
            edge_index, edge_weight = gcn_norm(
                edge_index,
                edge_weight,
                nodes[0],
                add_self_loops=self.add_self_loops,
                flow=self.flow,
                dtype=dtype,
            )
        else:
            edge_weight = normalise_bipartite(edge_index, edge_weight, *nodes, dtype=dtype)
        if sparse:
            edge_index, edge_weight = _to_adjacency(edge_index, edge_weight, nodes), None
        if self.cached:
            self._cache = (nodes, edge_index, edge_weight)
        return edge_index, edge_weight


_BY_PYG = ("add", "sum", "mean", "max", "min", "mul")
"""What PyG's ``MessagePassing`` does itself, in one sparse product where it can."""


def _check_weights_have_edges(edge_index: Any, edge_weight: Tensor | None) -> None:
    if is_sparse(edge_index) and edge_weight is not None:
        raise BadInput(
            "edge_weight goes with COO edges [2, edges]; a sparse adjacency holds its weights "
            "as values"
        )


def _dtype_of(source: Features) -> torch.dtype:
    return source.values.dtype if isinstance(source, SparseMatrix) else source.dtype


def _to_edges(adjacency: Any, nodes: tuple[int, int]) -> tuple[Tensor, Tensor | None]:
    """COO indices and weights of a transposed sparse adjacency."""
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
    """The transposed adjacency of COO edges, as ``torch.sparse_csr``."""
    order = torch.argsort(edge_index[1] * nodes[0] + edge_index[0])
    source, target = edge_index[:, order]
    counts = torch.bincount(target, minlength=nodes[1])
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return csr_tensor(offsets, source, edge_weight[order], (nodes[1], nodes[0]))


def _source_and_size(
    x: Features | tuple[Features, Features | None],
) -> tuple[Features, tuple[int, int] | None]:
    """The features that are sent, and the shape of a bipartite graph."""
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
