"""Mini-batches for training loops of one's own, with the interface of PyG's loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader

from crossgcn.graph.sampling.sampler import CSRSampler


class NeighborLoader(PyGNeighborLoader):  # type: ignore[misc]
    """PyG's ``NeighborLoader`` with a sampler that needs neither pyg-lib nor torch-sparse.

    A batch is a PyG ``Data`` whose first ``batch_size`` nodes are the seed nodes::

        for batch in NeighborLoader(data, [10, 5], data.train_mask, batch_size=256, shuffle=True):
            out = model(batch.x, batch.edge_index)[: batch.batch_size]

    Layers normalise edges by the degrees within the batch, as in PyG.
    :func:`~crossgcn.train_mini_batch` uses the degrees of the whole graph, and
    :meth:`model.inference <crossgcn.CrossGCN.inference>` predicts with them.

    Args:
        data: The graph.
        num_neighbors: Neighbours per node, one number per layer; -1 takes all.
        input_nodes: The seed nodes, as indices or as a mask; all by default.
        seed: Of the neighbours that are drawn.
        **kwargs: As for PyG's loader, such as ``batch_size`` and ``shuffle``.
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Any = None,
        *,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        sampler = CSRSampler.from_data(data, num_neighbors, seed=seed)
        super().__init__(data, list(num_neighbors), input_nodes, neighbor_sampler=sampler, **kwargs)
