"""Blocks of the adjacency from sampled edges, whose sums are unbiased."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from crossgcn.errors import unknown_name
from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.normalise import EDGE_RULES, EdgeKind
from crossgcn.graph.sampling.source import CheckedRows, GraphSource
from crossgcn.kernels.sampling import ALL, loops

_NODES_AT_ONCE = 1 << 20


class BlockMaker:
    r"""Makes blocks whose expectation is the matrix of :func:`~crossgcn.graph.edges_of_kind`.

    If :math:`\mathcal{S}_i` were drawn of node ``i``'s neighbours :math:`\mathcal{N}_i`, itself
    excluded, a row of a block computes

    .. math:: a_{ii}\mathbf{x}_i + \frac{|\mathcal{N}_i|}{|\mathcal{S}_i|}
        \sum_{j\in\mathcal{S}_i} a_{ij}\mathbf{x}_j

    with the weights :math:`a_{ij}` of the whole graph. Degrees are computed once per graph and
    take 4 bytes per node.
    """

    def __init__(self, source: GraphSource) -> None:
        self._source = source
        self._rows = CheckedRows.of(source)

    def blocks(
        self,
        output: SamplerOutput,
        propagations: Sequence[EdgeKind],
        *,
        redrawn: bool,
        rescaled: Sequence[bool] | None = None,
    ) -> tuple[SparseMatrix, ...]:
        """Return one block per hop, first to last; ``output.node`` enters the first.

        Args:
            output: The sampled edges.
            propagations: The kind of edges of each hop.
            redrawn: Whether each hop drew for all nodes found before (see
                :class:`~crossgcn.graph.sampling.sampler.CSRSampler`), or only for those of the
                hop before.
            rescaled: For each hop, whether weights of drawn edges are scaled up to stand for all
                neighbours; ``True`` by default.
        """
        rescaled = rescaled if rescaled is not None else [True] * len(propagations)
        node = output.node.numpy()
        targets, sources, entries = (t.numpy() for t in (output.col, output.row, output.edge))
        nodes_until = np.cumsum(output.num_sampled_nodes)
        edges_until = np.concatenate([[0], np.cumsum(output.num_sampled_edges)])
        blocks = []
        last_first = zip(reversed(propagations), reversed(rescaled), strict=True)
        for hop, (kind, rescale) in enumerate(last_first):
            edges = slice(edges_until[hop] if redrawn else 0, edges_until[hop + 1])
            blocks.append(
                self._block(
                    kind,
                    rescale,
                    node[: nodes_until[hop]],
                    int(nodes_until[hop + 1]),
                    targets[edges],
                    sources[edges],
                    entries[edges],
                )
            )
        return tuple(reversed(blocks))

    def whole(self, kind: EdgeKind) -> SparseMatrix:
        """Return the adjacency of the whole graph."""
        self._rows.check_all()
        offsets, neighbours = self._source.offsets.numpy(), self._source.neighbours.numpy()
        nodes = np.arange(self._source.num_nodes)
        rows = np.repeat(nodes, np.diff(offsets))
        entries = (neighbours != rows).nonzero()[0]
        rows, columns = rows[entries], neighbours[entries].astype(np.int64)
        return self._block(kind, False, nodes, nodes.size, rows, columns, entries)

    def rows(self, nodes: Tensor, kind: EdgeKind) -> SparseMatrix:
        """Return the rows of some nodes in the adjacency of the whole graph."""
        own = nodes.numpy()
        starts, entries, drawn = self._rows.draw(own, ALL, 0, True)
        targets = np.repeat(np.arange(own.size), np.diff(starts))
        sources = drawn.astype(np.int64)
        size = self._source.num_nodes
        return self._block(kind, False, own, size, targets, sources, entries, own)

    def _block(
        self,
        kind: EdgeKind,
        rescale: bool,
        rows: NDArray[np.int64],
        num_columns: int,
        targets: NDArray[np.int64],
        sources: NDArray[np.int64],
        entries: NDArray[np.int64],
        own_columns: NDArray[np.int64] | None = None,
    ) -> SparseMatrix:
        """Make a block; by default, the rows' own nodes are its first columns."""
        kernels = loops()
        if (np.diff(targets) < 0).any():
            order = np.argsort(targets, kind="stable")
            targets, sources, entries = targets[order], sources[order], entries[order]
        offsets, neighbours = self._source.offsets.numpy(), self._source.neighbours.numpy()
        loop = self._rows.find_own(rows)
        drawn = np.bincount(targets, minlength=rows.size)
        values = np.ones(targets.size, np.float32)
        if rescale:
            degrees = offsets[rows + 1] - offsets[rows] - (loop >= 0)
            values = (degrees / np.maximum(drawn, 1)).astype(np.float32)[targets]
        own = np.ones(rows.size, np.float32)
        if self._source.weights is not None:
            weights = self._source.weights.numpy()
            values *= weights[entries]
            own[loop >= 0] = weights[loop[loop >= 0]]
        nodes = neighbours[entries]
        rule = EDGE_RULES[kind]
        if rule.normalised:
            roots = self._inverse_roots(rule.self_loops)
            values *= roots[rows][targets] * roots[nodes]
            own *= roots[rows] ** 2
        starts = np.concatenate([[0], np.cumsum(drawn)])
        columns = np.arange(rows.size) if own_columns is None else own_columns
        if rule.self_loops == "add":
            starts, sources, values = kernels.insert_own(
                starts, nodes, sources, values, rows, columns, own
            )
        elif rule.self_loops == "keep":
            with_loop = (loop >= 0).nonzero()[0]
            targets = np.concatenate([targets, with_loop])
            order = np.lexsort((np.concatenate([nodes, rows[with_loop]]), targets))
            sources = np.concatenate([sources, columns[with_loop]])[order]
            values = np.concatenate([values, own[with_loop]])[order]
            starts = np.concatenate([[0], np.cumsum(drawn + (loop >= 0))])
        block = SparseMatrix(
            torch.from_numpy(starts),
            torch.from_numpy(sources),
            torch.from_numpy(values),
            (rows.size, num_columns),
        )
        if own_columns is not None or rows.size < num_columns:
            block.own = torch.from_numpy(columns)
        return block

    def _inverse_roots(self, self_loops: str) -> NDArray[np.float32]:
        """One over the square root of each node's degree; zero where it has none."""
        with _LOCK:
            roots = _ROOTS.setdefault(self._source, {})
            if self_loops not in roots:
                roots[self_loops] = _add_up_degrees(self._source, self_loops)
            return roots[self_loops]


_ROOTS: WeakKeyDictionary[GraphSource, dict[str, NDArray[np.float32]]] = WeakKeyDictionary()
_LOCK = Lock()


def _add_up_degrees(source: GraphSource, self_loops: str) -> NDArray[np.float32]:
    rows = CheckedRows.of(source)
    weights = np.empty(0, np.float32) if source.weights is None else source.weights.numpy()
    roots = np.empty(source.num_nodes, np.float32)
    for first in range(0, roots.size, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, roots.size)
        total = rows.weigh(weights, self_loops != "remove", first, last)
        if self_loops == "keep":
            total -= rows.find_own(np.arange(first, last)) < 0
        roots[first:last] = _inverse_root(torch.from_numpy(total)).numpy()
    return roots


def check_propagations(propagations: Sequence[EdgeKind]) -> tuple[EdgeKind, ...]:
    """Refuse unknown kinds of edges."""
    for kind in propagations:
        if kind not in EDGE_RULES:
            raise unknown_name("kind of edges", str(kind), EDGE_RULES)
    return tuple(propagations)


def _inverse_root(total: Tensor) -> Tensor:
    root = total.float().pow(-0.5)
    return root.masked_fill(root == torch.inf, 0.0)
