"""The rows a loss depends on, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["ReceptiveField", "receptive_field"]


@dataclass(frozen=True)
class ReceptiveField:
    """What a stack of graph convolutions must compute to know its output at some nodes.

    Attributes:
        input_rows: The nodes whose features enter the first layer.
        blocks: One rectangular piece of the adjacency per propagation, first to
            last; the last one's rows are the target nodes in the order given. Each
            row's own node is among the columns, and ``own`` says where, unless rows and
            columns are the same nodes.
    """

    input_rows: Tensor
    blocks: tuple[SparseMatrix, ...]


def receptive_field(hops: Sequence[SparseMatrix], targets: Tensor) -> ReceptiveField:
    """Cut a graph down to what some propagations need to reach ``targets``.

    Nothing is sampled or approximated: running a model over the blocks gives
    the same rows, and the same gradients, as running it over the whole graph
    and reading off ``targets``.

    Args:
        hops: The whole graph as each propagation sees it, first to last; row ``i`` sums
            into node ``i``. None for a model that looks at no neighbour.
        targets: The nodes whose outputs are wanted.
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
        if not np.array_equal(needed, rows):
            blocks[-1].own = torch.from_numpy(np.searchsorted(needed, rows))
        rows = needed
    return ReceptiveField(torch.from_numpy(rows.astype(np.int64)), tuple(reversed(blocks)))
