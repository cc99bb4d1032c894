"""The models to compare with: PyG's GCN as it is, tuned and compiled, and what one writes by hand.

No peer has a bias, because the presets of this package have none; both sides then compute the same
function. This favours the peers slightly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from crossgcn.data.features import csr_tensor
from crossgcn.layers import CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier

__all__ = ["NaiveCrossConv", "Peer", "PeerModel", "SparseGCNConv", "csr_adjacency"]


class NaiveCrossConv(MessagePassing):  # type: ignore[misc]
    """A naive layer of order 2: two linear maps and their product.

    Propagation is that of PyG's ``GCNConv`` with ``cached=True``.

    Args:
        in_channels: Features per node.
        out_channels: Width of the output.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(aggr="add")
        self.first = nn.Linear(in_channels, out_channels, bias=False)
        self.second = nn.Linear(in_channels, out_channels, bias=False)
        self.order_weight = nn.Parameter(torch.zeros(1))
        self._edges: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Cross each node's features, then sum over its neighbours."""
        if self._edges is None:
            self._edges = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        projected = self.first(x)
        crossed = projected + self.order_weight * projected * self.second(x)
        edges, edge_weight = self._edges
        out: Tensor = self.propagate(edges, x=crossed, edge_weight=edge_weight)
        return out

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:
        """Return the weighted features of the source of each edge."""
        return edge_weight.view(-1, 1) * x_j


class _SparseProduct(torch.autograd.Function):
    """A product of a constant ``torch.sparse_csr`` matrix, whose transpose is kept."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose @ gradient


class SparseGCNConv(nn.Module):
    """A hand-written GCN layer on the adjacency and its transpose in CSR.

    It multiplies with the adjacency where the features are narrower: before or after the weights.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.grows = in_channels < out_channels

    def forward(self, x: Tensor, adjacency: tuple[Tensor, Tensor]) -> Tensor:
        """Transform each node's features and sum them over its neighbours."""
        first = self.grows and x.layout == torch.strided
        hidden = x if first else self.lin(x)
        hidden = _SparseProduct.apply(*adjacency, hidden)  # type: ignore[no-untyped-call]
        out: Tensor = self.lin(hidden) if first else hidden
        return out


class PeerModel(nn.Module):
    """Two convolutions with dropout before each, as in PyG's example of a GCN.

    Args:
        convolutions: The two layers.
        dropout: Dropout rate of each layer's input; on a sparse input, dropout applies to
            the stored entries.
    """

    def __init__(self, convolutions: Sequence[nn.Module], dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.dropout = dropout

    def forward(self, x: Tensor, *edges: Any) -> Tensor:
        """Return the class scores of each node."""
        hidden = x
        for position, convolution in enumerate(self.convolutions):
            if position > 0:
                hidden = hidden.relu()
            hidden = convolution(self._drop(hidden), *edges)
        return hidden

    def _drop(self, hidden: Tensor) -> Tensor:
        if hidden.layout != torch.sparse_csr:
            return functional.dropout(hidden, self.dropout, self.training)
        values = functional.dropout(hidden.values(), self.dropout, self.training)
        offsets, columns = hidden.crow_indices(), hidden.col_indices()
        return torch.sparse_csr_tensor(
            offsets, columns, values, hidden.shape, check_invariants=False
        )


class Peer:
    """A peer by name, built with the weights of one of our models.

    - ``PyG GCN``: ``GCNConv(cached=True)`` twice, dense features, COO edges, the default
      Adam; PyG's own ``examples/gcn.py``.
    - ``tuned PyG GCN``: the normalised adjacency as a ``torch.sparse_csr`` tensor, which
      ``GCNConv(normalize=False)`` multiplies with in one product; features that are sparse
      as ``torch.sparse_csr`` too, which its ``Linear`` takes as they are, with dropout on
      the stored entries; fused Adam. (PyG's ``EdgeIndex`` with its cache was no faster.)
    - ``naive Cross-GCN``: :class:`NaiveCrossConv` twice, dense features, the default Adam.
    - ``sparse GCN``: :class:`SparseGCNConv` twice, features as for the tuned peer, fused Adam.
    - ``compiled PyG GCN``: ``GCNConv(normalize=False)`` twice on edges that are normalised once,
      dense features, fused Adam; ``torch.compile`` of model and loss.
    - ``compiled PyG GCN, CUDA graphs``: the same with ``mode="reduce-overhead"``, on GPUs.

    Args:
        name: One of the names above.

    Attributes:
        fused: Whether Adam is fused, and the training nodes are numbers instead of a mask.
        mode: The mode of ``torch.compile``; ``None`` if the peer is not compiled.
    """

    NAMES = ("PyG GCN", "tuned PyG GCN", "naive Cross-GCN", "sparse GCN")
    COMPILED = ("compiled PyG GCN",)
    GPU_ONLY = ("compiled PyG GCN, CUDA graphs",)

    def __init__(self, name: str) -> None:
        names = (*self.NAMES, *self.COMPILED, *self.GPU_ONLY)
        if name not in names:
            raise ValueError(f"{name!r} is none of {', '.join(names)}")
        self.name = name
        self.order = 2 if name == "naive Cross-GCN" else 1
        self.fused = name not in ("PyG GCN", "naive Cross-GCN")
        self.mode: str | None = None
        if name not in self.NAMES:
            self.mode = "default" if name in self.COMPILED else "reduce-overhead"

    def build(self, ours: NodeClassifier) -> PeerModel:
        """Build the peer that computes the same function as our model."""
        convolutions: list[nn.Module] = []
        for layer in ours.layers:
            assert isinstance(layer, CrossGCNConv)
            transform = layer.transform
            with torch.no_grad():
                weight = transform.weight
                size = (weight.size(2), weight.size(1))
                if self.order == 2:
                    naive = NaiveCrossConv(*size)
                    naive.first.weight.copy_(weight[0])
                    naive.second.weight.copy_(weight[1])
                    assert transform.order_weights is not None
                    naive.order_weight.copy_(transform.order_weights[1:])
                    convolutions.append(naive)
                else:
                    convolution: Any
                    if self.name == "sparse GCN":
                        convolution = SparseGCNConv(*size)
                    else:
                        options = {"normalize": False} if self.fused else {"cached": True}
                        convolution = GCNConv(*size, bias=False, **options)
                    convolution.lin.weight.copy_(weight[0])
                    convolutions.append(convolution)
        return PeerModel(convolutions, ours.dropout.p).to(weight.dtype)

    def inputs(self, x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return features and edges in the format of this peer.

        Args:
            x: Dense or ``torch.sparse_csr``.
            edge_index: Sources and targets.
            dtype: Data type of the adjacency's weights.
        """
        num_nodes = x.size(0)
        if self.name == "tuned PyG GCN":
            return x, csr_adjacency(edge_index, num_nodes, dtype)
        if self.name == "sparse GCN":
            both = (edge_index, edge_index.flip(0))
            return x, tuple(csr_adjacency(edges, num_nodes, dtype) for edges in both)
        x = x.to_dense() if x.layout != torch.strided else x
        if self.mode is not None:
            return x, *gcn_norm(edge_index, None, num_nodes, dtype=x.dtype)
        return x, edge_index


def csr_adjacency(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Tensor:
    """Return the normalised adjacency, transposed as PyG's layers expect it."""
    edges, weight = gcn_norm(edge_index.cpu(), None, num_nodes, dtype=torch.float64)
    source, target = edges.numpy()
    shape = (num_nodes, num_nodes)
    matrix = sp.coo_array((weight.numpy(), (target, source)), shape=shape).tocsr()
    adjacency = csr_tensor(matrix.indptr, matrix.indices, matrix.data, shape)
    return adjacency.to(device=edge_index.device, dtype=dtype)
