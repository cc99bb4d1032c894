"""Neighbour sampling for PyG's loaders, from a graph in rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
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
    """Draws neighbours uniformly, without replacement, in time linear in what is drawn.

    It needs no ``pyg-lib`` and reads only the rows it draws from, so they may be memory-mapped::

        loader = NodeLoader(data, node_sampler=CSRSampler.from_data(data, [10, 5]), batch_size=256)

    Args:
        offsets: Start of each node's neighbours, ``[nodes + 1]``, int64.
        neighbours: The nodes that each node sums over, one after the other, ascending.
        num_neighbors: How many are drawn per node at each hop, as in PyG: the first number is
            the first hop from the seeds, and -1 draws all.
        seed: Decides on all draws.
        redraw: ``False`` draws for each node once, in the hop after the one that found it, as PyG
            does: a model then uses the same neighbours of a node in all its layers. ``True`` draws
            anew in each hop, for all nodes found so far: the edges of hop ``h`` are then those
            that one layer uses, and what is drawn for a node depends on seed, hop and node only.
        skip_own: Never draw a node for itself.
        edge_permutation: Where each entry of ``neighbours`` stands among the graph's edges, for
            the loader to look up attributes of edges.
        folder: The graph folder that all this is from, for messages.
    """

    def __init__(
        self,
        offsets: Tensor,
        neighbours: Tensor,
        num_neighbors: Sequence[int],
        *,
        seed: int = 0,
        redraw: bool = False,
        skip_own: bool = False,
        edge_permutation: Tensor | None = None,
        folder: Path | None = None,
    ) -> None:
        self.num_neighbors = check_fanouts(num_neighbors)
        self.offsets = offsets
        self.neighbours = neighbours
        self.seed = seed
        self.redraw = redraw
        self.skip_own = skip_own
        self._permutation = edge_permutation
        self._rows = CheckedRows(offsets, neighbours, folder)
        self._calls = count()

    @classmethod
    def from_data(cls, data: Data, num_neighbors: Sequence[int], *, seed: int = 0) -> CSRSampler:
        """For a PyG graph in memory."""
        offsets, neighbours, permutation = to_csc(data, device="cpu")
        return cls(offsets, neighbours, num_neighbors, seed=seed, edge_permutation=permutation)

    @classmethod
    def from_source(
        cls, source: GraphSource, num_neighbors: Sequence[int], *, seed: int = 0
    ) -> CSRSampler:
        """For batches of a graph: draws anew in each hop, and no node for itself."""
        return cls(
            source.offsets,
            source.neighbours,
            num_neighbors,
            seed=seed,
            redraw=True,
            skip_own=True,
            folder=getattr(source, "folder", None),
        )

    @property
    def edge_permutation(self) -> Tensor | None:
        """From entries to the graph's edges; ``None`` where they are the same."""
        return self._permutation

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """Draw around some nodes; every call draws anew, in every worker of a loader."""
        worker = get_worker_info()
        stream = 0 if worker is None else worker.seed
        output = self.sample(index.node, self.seed, stream, next(self._calls))
        output.metadata = (index.input_id, index.time)
        return output

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Not here: this sampler starts from nodes."""
        raise BadInput(
            "CSRSampler draws around nodes, not around edges: use NodeLoader, or PyG's "
            "LinkNeighborLoader with pyg-lib installed"
        )

    def sample(self, nodes: Tensor, *numbers: int) -> SamplerOutput:
        """Draw around some nodes; the same numbers draw the same.

        Args:
            nodes: Where to start, each once.
            *numbers: What decides, such as a seed, an epoch and the number of a batch.

        Returns:
            As from PyG's sampler: all nodes, those of each hop after those of the one before;
            and for each drawn edge its two ends, among these, and its entry.

        Raises:
            BadInput: If a row that is read leads out of the graph.
        """
        kernels = loops()
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
            found, source = kernels.number(found, ends)
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
    """The sampler for batches of a graph.

    PyG's draws in compiled loops of its own, and what it gives up for that is this. Its draws
    come from one stream, so they depend on how many processes share the batches; ours depend on
    the node. It takes 64-bit neighbours and draws a node for itself, so a graph of 32-bit
    neighbours is copied to memory (8 bytes per edge), and so is one with self-loops (up to 21
    bytes per edge while that is done, 16 after it); only one of 64-bit neighbours without
    self-loops stays where it is. Ours reads the rows it draws from.

    Args:
        source: The graph.
        fanouts: See :class:`CSRSampler`.
        seed: Decides on our draws; PyG's follow torch's generator.
        which: See :func:`choose_sampler`.
    """
    if choose_sampler(which) == "ours":
        return CSRSampler.from_source(source, fanouts, seed=seed)
    return _pyg_sampler(source, check_fanouts(fanouts))


def choose_sampler(which: SamplerName = "auto") -> Literal["ours", "pyg"]:
    """Which sampler is meant; a record of training in batches names it.

    Args:
        which: ``"ours"``; ``"pyg"`` for PyG's ``NeighborSampler``, which needs ``pyg-lib``; or
            ``"auto"``, PyG's where ``pyg-lib`` is installed.
    """
    if which not in ("auto", "ours", "pyg"):
        raise unknown_name("sampler", which, ("auto", "ours", "pyg"))
    has_pyg_lib = torch_geometric.typing.WITH_PYG_LIB
    if which == "pyg" and not has_pyg_lib:
        raise BadInput("sampler='pyg' needs pyg-lib, which is not installed: use sampler='ours'")
    return "ours" if which == "ours" or not has_pyg_lib else "pyg"


def check_fanouts(fanouts: Sequence[int]) -> tuple[int, ...]:
    """Refuse what draws nothing."""
    for fanout in fanouts:
        if fanout < 1 and fanout != ALL:
            raise BadInput(
                f"fanouts are numbers of neighbours, at least 1, or -1 for all; got {list(fanouts)}"
            )
    return tuple(fanouts)


class _Rows:
    """What PyG's sampler asks of a transposed adjacency, without a copy of it."""

    def __init__(self, offsets: Tensor, neighbours: Tensor) -> None:
        self._rows = (offsets, neighbours, None)

    def csr(self) -> tuple[Tensor, Tensor, None]:
        return self._rows


def _pyg_sampler(source: GraphSource, fanouts: tuple[int, ...]) -> BaseSampler:
    """PyG's own over the same rows, less the nodes' edges to themselves, which are not drawn."""
    offsets, neighbours = source.offsets, source.neighbours
    rows = CheckedRows.of(source)
    rows.check_all()  # pyg-lib's loops trust what they are given
    own = torch.from_numpy(rows.find_own(np.arange(source.num_nodes)))
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
