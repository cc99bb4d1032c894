"""The models to compare with: PyG's GCN as it is, tuned and compiled, and what one writes by hand.

No peer has a bias, because the presets of this package have none; both sides then compute the same
function. This favours the peers slightly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")

BACKEND = "inductor"
"""The compiler of ``torch.compile``."""

PEERS = ("PyG GCN", "tuned PyG GCN", "naive Cross-GCN", "sparse GCN", "compiled PyG GCN")
GPU_PEERS = (*PEERS, "compiled PyG GCN, CUDA graphs")


def order_of(peer: str) -> int:
    """Return the order of a peer: 2 with crosses, 1 for a GCN."""
    return 2 if peer == "naive Cross-GCN" else 1


class NaiveCrossConv(MessagePassing):  # type: ignore[misc]
    """A naive layer of order 2: two linear maps and their product, propagated as by ``GCNConv``."""

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


class SparseGCNConv(nn.Module):
    """A hand-written GCN layer on the adjacency and its transpose in CSR.

    It multiplies with the adjacency where the features are narrower: before or after the weights.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.widens = in_channels < out_channels

    def forward(self, x: Tensor, adjacency: tuple[Tensor, Tensor]) -> Tensor:
        """Transform each node's features and sum them over its neighbours."""
        sum_first = self.widens and x.layout == torch.strided
        hidden = x if sum_first else self.lin(x)
        hidden = _SparseProduct.apply(*adjacency, hidden)  # type: ignore[no-untyped-call]
        out: Tensor = self.lin(hidden) if sum_first else hidden
        return out


class _SparseProduct(torch.autograd.Function):
    """A product of a constant ``torch.sparse_csr`` matrix, whose transpose is kept."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose @ gradient


class PeerModel(nn.Module):
    """Two convolutions with dropout before each, as in PyG's example of a GCN.

    Dropout of a sparse input applies to its stored entries.
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


class PeerTraining:
    """A peer with its optimiser on one graph; :meth:`step` and :meth:`epoch` are timed.

    - ``PyG GCN``: ``GCNConv(cached=True)`` twice, dense features, COO edges, the default Adam,
      a loss over the training mask; PyG's own ``examples/gcn.py``.
    - ``tuned PyG GCN``: the normalised adjacency as a ``torch.sparse_csr`` tensor, which
      ``GCNConv(normalize=False)`` multiplies with in one product; features that are sparse as
      ``torch.sparse_csr`` too; fused Adam. (PyG's ``EdgeIndex`` with its cache was no faster.)
    - ``naive Cross-GCN``: :class:`NaiveCrossConv` twice, dense features, the default Adam.
    - ``sparse GCN``: :class:`SparseGCNConv` twice, features as for the tuned peer, fused Adam.
    - ``compiled PyG GCN``: ``GCNConv(normalize=False)`` twice on edges that are normalised once,
      dense features, fused Adam; ``torch.compile`` of model and loss.
    - ``compiled PyG GCN, CUDA graphs``: the same with ``mode="reduce-overhead"``, on GPUs.

    Args:
        name: One of the names above.
        weights: Our weights, ``[order, out, in]`` and the order weights of each layer; copied.
        train: Training nodes.
        validation: Validation nodes, for :meth:`epoch`.
        precision: ``bf16`` runs under autocast; ``tf32`` needs :func:`product_precision`.
    """

    def __init__(
        self,
        name: str,
        weights: Sequence[tuple[Tensor, Tensor | None]],
        data: Data,
        train: Tensor,
        validation: Tensor | None = None,
        *,
        dropout: float = 0.5,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        if name not in GPU_PEERS:
            raise ValueError(f"{name!r} is none of {', '.join(GPU_PEERS)}")
        convolutions = [_convolution(name, *layer) for layer in weights]
        self.model = PeerModel(convolutions, dropout).to(device, weights[0][0].dtype)
        self.precision = precision
        dtype = torch.bfloat16 if precision == "bf16" else data.x.dtype
        self.inputs = _inputs(name, data.x.to(device), data.edge_index.to(device), dtype)
        self.y: Tensor = data.y.to(device)
        fused = name not in ("PyG GCN", "naive Cross-GCN")
        self.train = train.to(device) if fused else _mask(train, self.y)
        self.validation = None if validation is None else _mask(validation, self.y)
        self.uses_cuda_graphs = name.endswith("CUDA graphs")
        self._pass = self._run
        if name.startswith("compiled"):
            # Beyond its limit, PyTorch runs further sizes uncompiled, and only warns.
            torch._dynamo.config.recompile_limit = 10_000
            torch._dynamo.config.accumulated_recompile_limit = 10_000
            mode = "reduce-overhead" if self.uses_cuda_graphs else "default"
            self._pass = torch.compile(self._run, mode=mode, backend=BACKEND, dynamic=False)
        groups = [
            {"params": [p for p in self.model.parameters() if p.dim() >= 2], "weight_decay": 5e-4},
            {"params": [p for p in self.model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        self.optimizer = torch.optim.Adam(groups, lr=0.01, fused=fused or None)

    def scores(self) -> Tensor:
        """Return the class scores of the training nodes."""
        return self._forward()[0].clone()

    def step(self) -> Tensor:
        """Run forward, backward and Adam, and return the loss."""
        self.model.train()
        self.optimizer.zero_grad()
        loss = self._forward()[1]
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach().clone()

    def gradients(self) -> list[list[Tensor]]:
        """Return for each layer the gradients: of every order, then of the order weight."""
        self.model.zero_grad()
        self._forward()[1].backward()  # type: ignore[no-untyped-call]
        found = []
        for layer in self.model.convolutions:
            weights = _weights_of(layer)
            found.append([weight.grad.clone() for weight in weights if weight.grad is not None])
        return found

    @torch.no_grad()
    def epoch(self) -> float:
        """Run a step and a validation pass over the whole graph, as PyG's example; return it."""
        assert self.validation is not None
        with torch.enable_grad():
            self.step()
        self.model.eval()
        with self._autocast():
            predicted = self.model(*self.inputs).argmax(dim=1)
        correct = predicted[self.validation] == self.y[self.validation]
        return float(correct.float().mean())

    def _forward(self) -> tuple[Tensor, Tensor]:
        if self.uses_cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with self._autocast():
            return self._pass()

    def _run(self) -> tuple[Tensor, Tensor]:
        scores: Tensor = self.model(*self.inputs)[self.train]
        return scores, functional.cross_entropy(scores, self.y[self.train])

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.y.device.type, dtype=torch.bfloat16)


@contextmanager
def product_precision(precision: Precision) -> Iterator[None]:
    """Allow or forbid tf32 in float32 matrix products on GPUs within the block."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def csr_adjacency(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Tensor:
    """Return the normalised adjacency, transposed as PyG's layers expect it."""
    edges, weight = gcn_norm(edge_index.cpu(), None, num_nodes, dtype=torch.float64)
    source, target = edges.numpy()
    shape = (num_nodes, num_nodes)
    matrix = sp.coo_array((weight.numpy(), (target, source)), shape=shape).tocsr()
    offsets, columns, values = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    adjacency = torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False)
    return adjacency.to(device=edge_index.device, dtype=dtype)


def _convolution(name: str, weight: Tensor, order_weights: Tensor | None) -> nn.Module:
    size = (weight.size(2), weight.size(1))
    layer: Any
    if order_of(name) == 2:
        assert order_weights is not None
        layer = NaiveCrossConv(*size)
    elif name == "sparse GCN":
        layer = SparseGCNConv(*size)
    else:
        options = {"cached": True} if name == "PyG GCN" else {"normalize": False}
        layer = GCNConv(*size, bias=False, **options)
    with torch.no_grad():
        for own, ours in zip(_weights_of(layer), (*weight, order_weights), strict=False):
            own.copy_(ours[1:] if own.dim() == 1 and ours is not None else ours)
    return layer  # type: ignore[no-any-return]


def _weights_of(layer: Any) -> list[Tensor]:
    if isinstance(layer, NaiveCrossConv):
        return [layer.first.weight, layer.second.weight, layer.order_weight]
    return [layer.lin.weight]


def _inputs(name: str, x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return features and edges in the format of a peer; ``x`` is dense or in CSR."""
    num_nodes = x.size(0)
    if name == "tuned PyG GCN":
        return x, csr_adjacency(edge_index, num_nodes, dtype)
    if name == "sparse GCN":
        both = (edge_index, edge_index.flip(0))
        return x, tuple(csr_adjacency(edges, num_nodes, dtype) for edges in both)
    x = x.to_dense() if x.layout != torch.strided else x
    if name.startswith("compiled"):
        return x, *gcn_norm(edge_index, None, num_nodes, dtype=x.dtype)
    return x, edge_index


def _mask(nodes: Tensor, y: Tensor) -> Tensor:
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    mask[nodes] = True
    return mask.to(y.device)
