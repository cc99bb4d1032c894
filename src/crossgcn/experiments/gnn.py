"""Graph neural networks of PyTorch Geometric that ``compare`` trains, as strong opponents.

Layers are residual, with layer norm and dropout, as in Platonov et al. 2023, *A critical look at
the evaluation of GNNs under heterophily*, whose tuned models of this kind beat specialised ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, mse_loss
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from crossgcn.data.features import csr_tensor
from crossgcn.data.splits import Split
from crossgcn.experiments.candidates import Fitted

_MOST_EPOCHS, _EPOCHS_WITHOUT_GAIN, _EPOCHS_BETWEEN_SCORES = 1000, 60, 3
_HEADS = 4


class ResidualGNN(nn.Module):
    r"""Residual graph convolutions between two linear maps.

    .. math::
        \mathbf{H} \leftarrow \mathbf{H} + \mathrm{MLP}(\mathrm{conv}(\mathrm{norm}(\mathbf{H})))

    Args:
        kind: ``gcn``, ``sage`` or ``gat``: :class:`~torch_geometric.nn.GCNConv`, ``SAGEConv``, or
            ``GATConv`` with a separate weight for the node itself.
    """

    def __init__(
        self,
        kind: str,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        width = hidden_channels
        make: Callable[[], nn.Module] = {
            "gcn": lambda: GCNConv(width, width, cached=True),
            "sage": lambda: SAGEConv(width, width),
            "gat": lambda: GATConv(width, width // _HEADS, _HEADS, residual=True),
        }[kind]
        self.dropout = nn.Dropout(dropout)
        self.first, self.last = nn.Linear(in_channels, width), nn.Linear(width, out_channels)
        self.convs = nn.ModuleList(make() for _ in range(num_layers))
        self.mixes = nn.ModuleList(nn.Linear(width, width) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(num_layers + 1))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return scores of all nodes.

        Args:
            edges: A sparse adjacency matrix, ``[target, source]``, or the indices of edges.
        """
        x = gelu(self.dropout(self.first(x)))
        for norm, conv, mix in zip(self.norms, self.convs, self.mixes, strict=False):
            x = x + self.dropout(mix(gelu(self.dropout(conv(norm(x), edges)))))
        scores: Tensor = self.last(self.norms[-1](x))
        return scores


def fit_gnn(
    x: Tensor,
    edge_index: Tensor,
    y: Tensor,
    split: Split,
    settings: Mapping[str, Any],
    *,
    num_classes: int,
    gain_of: Callable[[NDArray[Any]], float],
    weights: Tensor | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Fitted:
    """Train on the whole graph, and select the epoch of the best validation score.

    Args:
        x: Own columns, dense.
        settings: ``kind``, ``num_layers``, ``hidden_channels``, ``dropout``, ``learning_rate``.
        num_classes: 1 if ``y`` is a number.
        gain_of: Returns the validation score for the scores of the validation nodes; greater is
            better.
        weights: Weights of the training nodes in the loss.
    """
    others = dict(settings)
    kind, width = others.pop("kind"), others.pop("hidden_channels")
    rate = others.pop("learning_rate")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ResidualGNN(kind, x.size(1), width, num_classes, **others).to(device)
        edges = edge_index if kind == "gat" else _adjacency(edge_index, len(x))
        x, edges, target = x.to(device), edges.to(device), y[split.train].to(device)
        center, scale = 0.0, 1.0
        if num_classes == 1:
            center, scale = float(target.mean()), float(target.std(correction=0)) or 1.0
            target = ((target - center) / scale).float()
        adam = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
        best = Fitted(0, -np.inf, np.empty(0))
        for epoch in range(1, _MOST_EPOCHS + 1):
            model.train()
            out = model(x, edges)[split.train]
            if num_classes == 1:
                losses = mse_loss(out.flatten(), target, reduction="none")
            else:
                losses = cross_entropy(out, target, reduction="none")
            loss = (losses if weights is None else losses * weights.to(out)).mean()
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            if epoch % _EPOCHS_BETWEEN_SCORES:
                continue
            model.eval()
            with torch.no_grad():
                scores = (model(x, edges) * scale + center).double().cpu().numpy()
            gain = gain_of(scores[split.validation])
            if gain > best.gain:
                best = Fitted(epoch, gain, scores[split.test])
            elif epoch - best.best_epoch >= _EPOCHS_WITHOUT_GAIN:
                break
    return best


def _adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return a matrix whose product with features sums over neighbours much faster than edges."""
    source, target = edge_index.numpy()
    ones = np.ones(len(source), np.float32)
    matrix = sparse.csr_array((ones, (target, source)), shape=(num_nodes, num_nodes))
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)
