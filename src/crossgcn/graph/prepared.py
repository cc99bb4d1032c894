"""A graph that is prepared once for any number of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph.normalise import EdgeKind, edges_of_kind
from crossgcn.graph.sparse_matrix import Features, ModelInputs, SparseMatrix, select_rows


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
