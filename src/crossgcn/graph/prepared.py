"""Prepare a graph once for several models: normalise its edges and cut its receptive fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from crossgcn.graph.sparse_matrix import Features, ModelInputs, SparseMatrix

EdgeKind = Literal["gcn", "improved", "normalised", "given"]
"""Which edges a node aggregates over and how they are weighted; see :func:`edges_of_kind`."""


def receptive_field(
    hops: Sequence[SparseMatrix], targets: Tensor
) -> tuple[Tensor, tuple[SparseMatrix, ...]]:
    """Cut the adjacency of each hop to the receptive field of ``targets``.

    This is exact: for the targets, a model gives the same rows and gradients as on the whole
    graph.

    Returns:
        The nodes whose features enter the first layer, and one rectangular block of the adjacency
        per hop, first to last. The rows of the last block are the targets. The columns of a block
        include the nodes of its rows.
    """
    rows = targets.numpy()
    blocks: list[SparseMatrix] = []
    for adjacency in reversed(hops):
        all_nodes = np.arange(adjacency.shape[1])
        if np.array_equal(rows, all_nodes):
            blocks.append(adjacency)
            continue
        block = adjacency.to_scipy()[rows]
        reached = np.zeros(all_nodes.size, dtype=bool)
        reached[block.indices] = reached[rows] = True
        needed = reached.nonzero()[0]
        if needed.size < all_nodes.size:
            block = block[:, needed]
        blocks.append(SparseMatrix.from_scipy(block))
        rows = needed
    return torch.from_numpy(rows.astype(np.int64)), tuple(reversed(blocks))


class PreparedGraph:
    """Features, and the adjacency of every kind of edges that models use.

    Args:
        x: Node features, dense ``[nodes, features]`` or ``torch.sparse_csr``, which stays sparse.
        edge_index: Sources and targets, ``[2, edges]``.
        edge_weight: One weight per edge; ones by default.
        dtype: Type of features and adjacency; by default features are not converted and the
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
        x = x if dtype is None else x.to(dtype)
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
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
            propagations: The kind of edges of each hop of the model.
        """
        rows, blocks = receptive_field([self.edges(kind) for kind in propagations], targets)
        if rows.equal(torch.arange(self.x.size(0))):
            return self.x, blocks
        if isinstance(self.x, SparseMatrix):
            return self.x.select_rows(rows), blocks
        return self.x.index_select(0, rows), blocks  # several times faster than x[rows]


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
        dtype: Type of the weights, at least 32 bits; a product casts them to the type of its
            dense factor.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    edges = normalise_edges(kind, edge_index, num_nodes, edge_weight, dtype=dtype)
    return SparseMatrix.from_edges(*edges, (num_nodes, num_nodes))


def normalise_edges(
    kind: EdgeKind,
    edge_index: Tensor,
    num_nodes: int,
    edge_weight: Tensor | None = None,
    flow: str = "source_to_target",
    *,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Normalise edges as PyG's ``gcn_norm`` does, except that parallel self-loops add up.

    For the arguments see :func:`edges_of_kind`.
    """
    add_self_loops = kind != "normalised"
    improved = kind == "improved" and edge_weight is not None
    weight = torch.ones_like(edge_index[0], dtype=dtype)
    if edge_weight is not None:
        weight = edge_weight.to(dtype)
    if kind == "given":
        return edge_index, weight
    if add_self_loops:
        source, target = edge_index[0], edge_index[1]
        loops = torch.where(source == target, weight, 0.0)
        sums = weight.new_zeros(num_nodes).index_add(0, source, loops)
        weight = torch.where(source == target, sums[source], weight)
    normalised: tuple[Tensor, Tensor] = gcn_norm(
        edge_index, weight, num_nodes, improved, add_self_loops, flow, dtype
    )
    return normalised
