"""Neighbour samplers: ours, which also works in PyG's loaders, and PyG's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch_geometric.typing
from torch import Tensor
from torch.utils.data import get_worker_info
from torch_geometric.data import Data
from torch_geometric.sampler import (
    BaseSampler,
    NeighborSampler,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.utils import to_csc

from crossgcn.errors import BadInput, unknown_name
from crossgcn.graph.sampling.source import CheckedRows, GraphSource
from crossgcn.kernels.sampling import ALL, draw_key, loops

SamplerName = Literal["auto", "ours", "pyg"]


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
        rows: CheckedRows,
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
        rows = CheckedRows(offsets, neighbours)
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


def make_sampler(
    source: GraphSource, fanouts: Sequence[int], *, seed: int = 0, which: SamplerName = "auto"
) -> BaseSampler:
    """Make the sampler for batches of a graph.

    PyG's sampler draws from one stream of random numbers, so its draws depend on the number of
    processes; ours depend on the node. PyG's needs 64-bit neighbours without self-loops, so other
    graphs are copied to memory (8 bytes per edge, or up to 21 with self-loops); ours reads the
    rows it draws from.

    Args:
        seed: Of our draws; PyG's follow torch's generator.
        which: See :func:`choose_sampler`.
    """
    if choose_sampler(which) == "ours":
        return CSRSampler.from_source(source, fanouts, seed=seed)
    return _pyg_sampler(source, check_fanouts(fanouts))


def choose_sampler(which: SamplerName = "auto") -> Literal["ours", "pyg"]:
    """Resolve ``"auto"``: PyG's ``NeighborSampler`` if ``pyg-lib`` is installed, otherwise ours."""
    if which not in ("auto", "ours", "pyg"):
        raise unknown_name("sampler", which, ("auto", "ours", "pyg"))
    has_pyg_lib = torch_geometric.typing.WITH_PYG_LIB
    if which == "pyg" and not has_pyg_lib:
        raise BadInput("sampler='pyg' needs pyg-lib, which is not installed: use sampler='ours'")
    return "ours" if which == "ours" or not has_pyg_lib else "pyg"


def check_fanouts(fanouts: Sequence[int]) -> tuple[int, ...]:
    """Return fanouts as a tuple; refuse invalid ones."""
    for fanout in fanouts:
        if fanout < 1 and fanout != ALL:
            raise BadInput(
                f"fanouts are numbers of neighbours, at least 1, or -1 for all; got {list(fanouts)}"
            )
    return tuple(fanouts)


class _Rows:
    """The interface of a transposed adjacency that PyG's sampler needs."""

    def __init__(self, offsets: Tensor, neighbours: Tensor) -> None:
        self._rows = (offsets, neighbours, None)

    def csr(self) -> tuple[Tensor, Tensor, None]:
        return self._rows


def _pyg_sampler(source: GraphSource, fanouts: tuple[int, ...]) -> BaseSampler:
    """Make PyG's sampler of the same rows without self-loops."""
    offsets, neighbours = source.offsets, source.neighbours
    source.check_all()  # pyg-lib does not check
    own = torch.from_numpy(source.find_own(np.arange(source.num_nodes)))
    kept = None
    if bool((own >= 0).any()):
        keep = torch.ones(neighbours.numel(), dtype=torch.bool)
        keep[own[own >= 0]] = False
        kept = keep.nonzero().flatten()
        offsets = offsets - torch.cat([own.new_zeros(1), (own >= 0).cumsum(0)])
        neighbours = neighbours[kept]
    data = Data(num_nodes=source.num_nodes)
    data.adj_t = _Rows(offsets, neighbours.long())
    sampler = NeighborSampler(data, list(fanouts))
    sampler.perm = kept
    return sampler


def _join(parts: list[Any]) -> Tensor:
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return torch.from_numpy(joined.astype(np.int64, copy=False))
