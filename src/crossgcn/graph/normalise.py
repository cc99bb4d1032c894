"""From edges to the weights with which neighbours are summed."""

from __future__ import annotations

import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["normalise_bipartite", "normalised_adjacency"]


def normalised_adjacency(
    edge_index: Tensor,
    num_nodes: int,
    edge_weight: Tensor | None = None,
    *,
    add_self_loops: bool = True,
    dtype: torch.dtype = torch.float32,
) -> SparseMatrix:
    r"""Build :math:`\hat{\mathbf{A}} = \mathbf{D}^{-1/2}(\mathbf{A}+\mathbf{I})\mathbf{D}^{-1/2}`.

    Row ``i`` holds the weights with which node ``i`` sums its neighbours and
    itself. A node that already has a self-loop keeps that one (NOTE[D9]), as
    PyG's ``GCNConv`` does, so that ``adjacency @ x`` is what that layer computes.

    Args:
        edge_index: Sources and targets, ``[2, edges]``.
        num_nodes: How many nodes there are, isolated ones included.
        edge_weight: One weight per edge; all one when left out.
        add_self_loops: Give nodes without a self-loop one.
        dtype: In which weights are computed and kept.
    """
    if edge_weight is not None:
        edge_weight = edge_weight.to(dtype)
    edge_index, weight = gcn_norm(
        edge_index, edge_weight, num_nodes, add_self_loops=add_self_loops, dtype=dtype
    )
    source, target = edge_index.numpy()
    return SparseMatrix.from_scipy(
        sp.coo_array((weight.numpy(), (target, source)), shape=(num_nodes, num_nodes))
    )


def normalise_bipartite(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_sources: int,
    num_targets: int,
    dtype: torch.dtype,
) -> Tensor:
    r"""Weigh the edges between two kinds of nodes by both their degrees.

    .. math:: w'_{st} = w_{st} \left(\textstyle\sum_{t'} w_{st'}\right)^{-1/2}
        \left(\textstyle\sum_{s'} w_{s't}\right)^{-1/2}

    There are no self-loops between two kinds of nodes, so none are added.

    Returns:
        The new weight of each edge, ``[edges]``.
    """
    source, target = edge_index[0], edge_index[1]
    weight = edge_weight
    if weight is None:
        weight = torch.ones(source.numel(), dtype=dtype, device=source.device)
    out_degree = weight.new_zeros(num_sources).index_add(0, source, weight)
    in_degree = weight.new_zeros(num_targets).index_add(0, target, weight)
    scale = (out_degree[source] * in_degree[target]).pow(-0.5)
    return weight * scale.masked_fill(~torch.isfinite(scale), 0.0)
