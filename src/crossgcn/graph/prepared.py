"""A graph that is prepared once for any number of models: normalised, and cut to what they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from crossgcn.graph.sparse_matrix import Features, ModelInputs, SparseMatrix, select_rows

EdgeKind = Literal["gcn", "improved", "normalised", "given"]
"""Which edges a node aggregates over and how they are weighted; see :func:`edges_of_kind`."""


class ReceptiveField(NamedTuple):
    """The part of a graph that a model needs for the outputs of some nodes.

    Attributes:
        input_rows: The nodes whose features enter the first layer.
        blocks: One rectangular block of the adjacency per hop, first to last. The rows of the
            last one are the targets. Each row's own node is among the columns.
    """

    input_rows: Tensor
    blocks: tuple[SparseMatrix, ...]


def receptive_field(hops: Sequence[SparseMatrix], targets: Tensor) -> ReceptiveField:
    """Cut a graph down to the receptive field of ``targets``.

    This is exact: a model gives the same rows and gradients over the blocks as over the whole
    graph, whose adjacency in each hop is given, first to last.
    """
    rows = targets.numpy()
    blocks: list[SparseMatrix] = []
    for adjacency in reversed(hops):
        everyone = np.arange(adjacency.shape[1])
        if np.array_equal(rows, everyone):
            blocks.append(adjacency)
            continue
        block = adjacency.to_scipy()[rows]
        reached = np.zeros(everyone.size, dtype=bool)
        reached[block.indices] = reached[rows] = True
        needed = reached.nonzero()[0]
        if needed.size < everyone.size:
            block = block[:, needed]
        blocks.append(SparseMatrix.from_scipy(block))
        rows = needed
    return ReceptiveField(torch.from_numpy(rows.astype(np.int64)), tuple(reversed(blocks)))


class PreparedGraph:
    """Features and the adjacency in every kind of edges that models ask for.

    Args:
        x: Node features, dense ``[nodes, features]`` or ``torch.sparse_csr``, which stays sparse.
        edge_index: Sources and targets, ``[2, edges]``.
        edge_weight: One weight per edge; ones by default.
        dtype: Of features and adjacency; by default features are not converted and the
            adjacency has 32 bits.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        if dtype is not None and isinstance(self.x, SparseMatrix):
            self.x = self.x.with_values(self.x.values.to(dtype))
        elif dtype is not None:
            self.x = x.to(dtype)
        self._given = edge_index, x.size(0), edge_weight
        self._dtype = dtype or torch.float32
        self._kinds: dict[EdgeKind, SparseMatrix] = {}
        self.adjacency = self.edges("gcn")

    def edges(self, kind: EdgeKind) -> SparseMatrix:
        """Return the adjacency of a kind of edges, see :func:`~crossgcn.graph.edges_of_kind`."""
        if kind not in self._kinds:
            self._kinds[kind] = edges_of_kind(kind, *self._given, dtype=self._dtype)
        return self._kinds[kind]

    def view(self, targets: Tensor, propagations: Sequence[EdgeKind]) -> ModelInputs:
        """Return a model's inputs for some targets: ``model(*view)`` has a row per target.

        Args:
            propagations: Of the model: the kind of edges of each hop.
        """
        rows, blocks = receptive_field([self.edges(kind) for kind in propagations], targets)
        if rows.equal(torch.arange(self.x.size(0))):
            return self.x, blocks
        return select_rows(self.x, rows), blocks


def edges_of_kind(
    kind: EdgeKind,
    edge_index: Tensor,
    num_nodes: int,
    edge_weight: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> SparseMatrix:
    r"""Build the adjacency matrix of a kind of edges, one row per target; parallel edges add up.

    The matrix of ``"gcn"`` is :math:`\hat{\mathbf{A}} =
    \mathbf{D}^{-1/2}(\mathbf{A}+\mathbf{I})\mathbf{D}^{-1/2}`, and ``adjacency @ x`` is what
    PyG's ``GCNConv`` computes: a node that has a self-loop keeps it (NOTE[D9]). Of parallel
    self-loops, PyG keeps the last; here they add up, like other parallel edges.

    Args:
        kind: ``"gcn"``; ``"improved"``, where added self-loops have the weight 2 if edges have
            weights; ``"normalised"``, without added self-loops; or the edges as ``"given"``.
        edge_index: Sources and targets, ``[2, edges]``.
        num_nodes: Number of nodes, isolated ones included.
        edge_weight: One weight per edge; ones by default.
        dtype: Precision of the weights, at least 32 bits: products cast them to the type of
            what they multiply.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    if kind == "given":
        weight = _weights(edge_index, edge_weight, dtype)
    else:
        edge_index, weight = normalise_edges(
            edge_index,
            edge_weight,
            num_nodes,
            improved=kind == "improved",
            add_self_loops=kind != "normalised",
            dtype=dtype,
        )
    return SparseMatrix.from_edges(edge_index, weight, num_nodes)


def normalise_edges(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    *,
    improved: bool,
    add_self_loops: bool,
    dtype: torch.dtype,
    flow: str = "source_to_target",
) -> tuple[Tensor, Tensor]:
    """Normalise edges as PyG's ``gcn_norm`` does, but for parallel self-loops, which add up."""
    weight = _weights(edge_index, edge_weight, dtype)
    if add_self_loops:
        weight = _add_up_self_loops(edge_index, weight, num_nodes)
    improved = improved and edge_weight is not None
    normalised: tuple[Tensor, Tensor] = gcn_norm(
        edge_index, weight, num_nodes, improved, add_self_loops, flow, dtype
    )
    return normalised


def _weights(edge_index: Tensor, edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    if edge_weight is None:
        return torch.ones_like(edge_index[0], dtype=dtype)
    return edge_weight.to(dtype)


def _add_up_self_loops(edge_index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    """Give each self-loop the sum over the self-loops of its node, of which PyG keeps one."""
    source, target = edge_index[0], edge_index[1]
    is_loop = source == target
    sums = weight.new_zeros(num_nodes).index_add(0, source, torch.where(is_loop, weight, 0.0))
    return torch.where(is_loop, sums[source], weight)


def normalise_bipartite(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_sources: int,
    num_targets: int,
    dtype: torch.dtype,
) -> Tensor:
    r"""Normalise the weights of edges between two kinds of nodes by both degrees.

    .. math:: w'_{st} = w_{st} \left(\textstyle\sum_{t'} w_{st'}\right)^{-1/2}
        \left(\textstyle\sum_{s'} w_{s't}\right)^{-1/2}

    No self-loops are added. Returns the new weights, ``[edges]``.
    """
    source, target = edge_index[0], edge_index[1]
    weight = edge_weight
    if weight is None:
        weight = torch.ones(source.numel(), dtype=dtype, device=source.device)
    out_degree = weight.new_zeros(num_sources).index_add(0, source, weight)
    in_degree = weight.new_zeros(num_targets).index_add(0, target, weight)
    scale = (out_degree[source] * in_degree[target]).pow(-0.5)
    return weight * scale.masked_fill(~torch.isfinite(scale), 0.0)
