"""A neighbour sampler without pyg-lib, and PyG's loader with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.utils import to_csc

from crossgcn.errors import BadInput
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.kernels.sampling import ALL, draw_key, loops


class CSRSampler(BaseSampler):  # type: ignore[misc]
    """Draws neighbours uniformly without replacement.

    It does not need ``pyg-lib``, and reads only the rows that it draws from, which may be
    memory-mapped::

        loader = NodeLoader(data, node_sampler=CSRSampler.from_data(data, [10, 5]), batch_size=256)

    Args:
        num_neighbors: Neighbours per node and hop, as in PyG: the first number is for the first
            hop from the seed nodes, and -1 draws all.
        redraw: ``False`` draws once for each node, as PyG does, so that all layers use the same
            neighbours of a node. ``True`` draws in each hop for all nodes found so far; what is
            drawn then depends on seed, hop and node only.
        skip_own: Never draw a node for itself.
        edge_permutation: The edge of each entry of the rows, for attributes of edges.
    """

    def __init__(
        self,
        rows: GraphSource,
        num_neighbors: Sequence[int],
        *,
        seed: int = 0,
        redraw: bool = False,
        skip_own: bool = False,
        edge_permutation: Tensor | None = None,
    ) -> None:
        self.num_neighbors = check_fanouts(num_neighbors)
        self.seed, self.redraw, self.skip_own = seed, redraw, skip_own
        self._rows, self._permutation = rows, edge_permutation
        self._calls = 0

    @classmethod
    def from_data(cls, data: Data, num_neighbors: Sequence[int], *, seed: int = 0) -> CSRSampler:
        """Sample from a PyG graph in memory."""
        offsets, neighbours, permutation = to_csc(data, device="cpu")
        rows = GraphSource(offsets, neighbours)
        return cls(rows, num_neighbors, seed=seed, edge_permutation=permutation)

    @classmethod
    def from_source(
        cls, source: GraphSource, num_neighbors: Sequence[int], *, seed: int = 0
    ) -> CSRSampler:
        """Sample for :class:`NodeBatches`: draw in each hop, and no node for itself."""
        return cls(source, num_neighbors, seed=seed, redraw=True, skip_own=True)

    @property
    def edge_permutation(self) -> Tensor | None:
        """The edge of each entry; ``None`` if they are in the same order."""
        return self._permutation

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """Sample around some nodes; each call and each worker of a loader draws differently."""
        worker = get_worker_info()
        stream = 0 if worker is None else worker.seed
        output = self.sample(index.node, self.seed, stream, self._calls)
        self._calls += 1
        output.metadata = (index.input_id, index.time)
        return output

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Refuse: this sampler starts from nodes."""
        raise BadInput(
            "CSRSampler draws around nodes, not around edges: use NodeLoader, or PyG's "
            "LinkNeighborLoader with pyg-lib installed"
        )

    def sample(self, nodes: Tensor, *numbers: int) -> SamplerOutput:
        """Sample around distinct nodes; the same numbers give the same draws.

        Args:
            *numbers: Such as a seed, an epoch and the number of a batch.

        Returns:
            As PyG's samplers: the nodes, hop after hop; and for each edge its ends, as positions
            among these nodes, and its entry.
        """
        found = nodes.numpy().astype(np.int64, copy=False)
        begin, num_nodes, num_edges = 0, [found.size], []
        sources, targets, entries = [], [], []
        for hop, fanout in enumerate(self.num_neighbors):
            key = draw_key(*numbers, hop)
            around = found[begin:]
            starts, drawn, ends = self._rows.draw(around, fanout, key, self.skip_own)
            target = np.repeat(np.arange(begin, found.size), np.diff(starts))
            if not self.redraw:
                begin = found.size
            found, source = loops().number(found, ends)
            num_nodes.append(found.size - sum(num_nodes))
            num_edges.append(drawn.size)
            sources.append(source)
            targets.append(target)
            entries.append(drawn)
        return SamplerOutput(
            node=torch.from_numpy(found),
            row=_join(sources),
            col=_join(targets),
            edge=_join(entries),
            num_sampled_nodes=num_nodes,
            num_sampled_edges=num_edges,
        )


def check_fanouts(fanouts: Sequence[int]) -> tuple[int, ...]:
    """Return fanouts as a tuple; refuse invalid ones."""
    for fanout in fanouts:
        if fanout < 1 and fanout != ALL:
            raise BadInput(
                f"fanouts are numbers of neighbours, at least 1, or -1 for all; got {list(fanouts)}"
            )
    return tuple(fanouts)


def _join(parts: list[Any]) -> Tensor:
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return torch.from_numpy(joined.astype(np.int64, copy=False))


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
