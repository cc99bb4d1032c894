"""Kinds of edges: which self-loops a graph has, and whether weights are normalised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, remove_self_loops

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.kernels import add_rows

EdgeKind = Literal[
    "gcn", "improved", "normalised", "symmetric", "self-loops", "given", "neighbours"
]
"""Which edges a node aggregates over and how they are weighted; see :data:`EDGE_RULES`."""


class EdgeRule(NamedTuple):
    """How the edges of a graph become the rows of a matrix.

    Attributes:
        self_loops: ``"add"`` gives nodes without a self-loop one, ``"keep"`` leaves
            self-loops as they are, ``"remove"`` removes them.
        normalised: Divide weights by the square roots of both ends' degrees, as GCN does.
        own: The weight of an added self-loop; 1 if edges have no weights, as in PyG.
    """

    self_loops: Literal["add", "keep", "remove"]
    normalised: bool
    own: float = 1.0


EDGE_RULES: Mapping[EdgeKind, EdgeRule] = {
    "gcn": EdgeRule("add", normalised=True),
    "improved": EdgeRule("add", normalised=True, own=2.0),
    "normalised": EdgeRule("keep", normalised=True),
    "symmetric": EdgeRule("remove", normalised=True),
    "self-loops": EdgeRule("add", normalised=False),
    "given": EdgeRule("keep", normalised=False),
    "neighbours": EdgeRule("remove", normalised=False),
}


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
        edge_index: Sources and targets, ``[2, edges]``.
        num_nodes: Number of nodes, isolated ones included.
        edge_weight: One weight per edge; ones by default.
        dtype: Precision of the weights, at least 32 bits: products cast them to the type of
            what they multiply.
    """
    rule = EDGE_RULES[kind]
    add = rule.self_loops == "add"
    dtype = torch.promote_types(dtype, torch.float32)
    weight = _weights(edge_index, edge_weight, dtype)
    if rule.self_loops == "remove":
        edge_index, weight = remove_self_loops(edge_index, weight)
    elif add:
        weight = _add_up_self_loops(edge_index, weight, num_nodes)
    if rule.normalised:
        improved = rule.own == 2.0 and edge_weight is not None
        edge_index, weight = gcn_norm(edge_index, weight, num_nodes, improved, add, dtype=dtype)
    elif add:
        edge_index, weight = add_remaining_self_loops(edge_index, weight, 1.0, num_nodes)
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
    sums = add_rows(weight.new_zeros(num_nodes), source, torch.where(is_loop, weight, 0.0))
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
    out_degree = add_rows(weight.new_zeros(num_sources), source, weight)
    in_degree = add_rows(weight.new_zeros(num_targets), target, weight)
    scale = (out_degree[source] * in_degree[target]).pow(-0.5)
    return weight * scale.masked_fill(~torch.isfinite(scale), 0.0)
