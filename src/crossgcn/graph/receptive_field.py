"""The rows a loss depends on, and no others."""

from __future__ import annotations

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
        blocks: One rectangular piece of the adjacency per layer, first to
            last; the last one's rows are the target nodes in the order given.
    """

    input_rows: Tensor
    blocks: tuple[SparseMatrix, ...]


def receptive_field(adjacency: SparseMatrix, targets: Tensor, num_hops: int) -> ReceptiveField:
    """Cut an adjacency down to what ``num_hops`` propagations need to reach ``targets``.

    Nothing is sampled or approximated: running a model over the blocks gives
    the same rows, and the same gradients, as running it over the whole graph
    and reading off ``targets``.

    Args:
        adjacency: The whole graph, normalised; row ``i`` sums into node ``i``.
        targets: The nodes whose outputs are wanted.
        num_hops: How many times the model propagates; 0 for a model that
            looks at no neighbour.
    """
    whole = adjacency.to_scipy()
    rows = targets.numpy()
    blocks: list[SparseMatrix] = []
    for _ in range(num_hops):
        block = whole[rows]
        rows = np.unique(block.indices)
        blocks.append(SparseMatrix.from_scipy(block[:, rows]))
    return ReceptiveField(torch.from_numpy(rows.astype(np.int64)), tuple(reversed(blocks)))
