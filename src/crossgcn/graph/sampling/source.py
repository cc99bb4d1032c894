r"""Graphs in memory or on disk, and the blocks of their adjacency, a few rows at a time.

The expectation of a block is the matrix of :func:`~crossgcn.graph.edges_of_kind`. If
:math:`\mathcal{S}_i` were drawn of node ``i``'s neighbours :math:`\mathcal{N}_i`, itself
excluded, a row of a block computes

.. math:: a_{ii}\mathbf{x}_i + \frac{|\mathcal{N}_i|}{|\mathcal{S}_i|}
    \sum_{j\in\mathcal{S}_i} a_{ij}\mathbf{x}_j

with the weights :math:`a_{ij}` of the whole graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import SamplerOutput

from crossgcn.data.stored.format import changed_file
from crossgcn.data.stored.open import StoredGraph
from crossgcn.errors import BadInput
from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.normalise import EDGE_RULES, EdgeKind
from crossgcn.kernels.sampling import ALL, NoRow, loops

Array = NDArray[Any]
Features = Tensor | SparseMatrix

_NODES_AT_ONCE = 1 << 20
_LOCK = Lock()


class GraphSource:
    """A graph by rows, with features and labels; subclasses say where the features are.

    Invalid offsets and neighbours are refused. Only what is read is checked, so the tensors may
    be memory-mapped.

    Args:
        offsets: Start of each node's neighbours, ``[num_nodes + 1]``, int64.
        neighbours: Node ``i`` aggregates over ``neighbours[offsets[i]:offsets[i + 1]]``,
            ascending, each once; int32 or int64.
        weights: One per entry of ``neighbours``, float32; ``None`` if all are one.
        labels: The class of each node, -1 if unknown, which is the default.
        stored: The open graph folder that they are mapped from; rows of it are verified.

    Attributes:
        is_weighted: Whether edges have weights; parallel edges without are ``weights`` as well.
        device: Where the features are. All else is on the CPU.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        offsets: Tensor,
        neighbours: Tensor,
        weights: Tensor | None = None,
        labels: Tensor | None = None,
        num_features: int = 0,
        stored: StoredGraph | None = None,
    ) -> None:
        self.num_nodes, self.num_features = offsets.numel() - 1, num_features
        self.offsets, self.neighbours, self.weights = offsets, neighbours, weights
        self.is_weighted = weights is not None
        self.labels = torch.full((self.num_nodes,), -1) if labels is None else labels
        self.stored = stored
        self._roots: dict[tuple[str, float], NDArray[np.float32]] = {}

    def features(self, nodes: Tensor) -> Features:
        """Return the features of some nodes."""
        raise NotImplementedError

    def draw(
        self, nodes: Array, fanout: int, key: int, skip_own: bool
    ) -> tuple[Array, Array, Array]:
        """Draw as :func:`~crossgcn.kernels.sampling.draw_entries`; also return the neighbours."""
        self._verify(nodes)
        starts, entries = self._read("draw_entries", nodes, fanout, key, skip_own)
        drawn = self.neighbours.numpy()[entries]
        self._check(drawn)
        return starts, entries, drawn

    def find_own(self, nodes: Array) -> Array:
        """Return the entry of each node's self-loop, -1 if it has none."""
        return self.find_entries(nodes, nodes)

    def find_entries(self, nodes: Array, wanted: Array) -> Array:
        """See :func:`~crossgcn.kernels.sampling.find_entries`."""
        self._verify(nodes)
        entries: Array = self._read("find_entries", nodes, wanted)
        return entries

    def weigh(self, weights: Array, own: bool, first: int, last: int) -> Array:
        """See :func:`~crossgcn.kernels.sampling.row_weights`."""
        self._verify(np.arange(first, last))
        total: Array = self._read("row_weights", weights, own, first, last)
        return total

    def check_all(self) -> None:
        """Check every row."""
        offsets, neighbours = self.offsets.numpy(), self.neighbours.numpy()
        wrong = (offsets[1:] < offsets[:-1]) | (offsets[1:] > neighbours.size)
        wrong[:1] |= offsets[:1] != 0
        wrong[-1:] |= offsets[-1:] != neighbours.size
        if wrong.any():
            self._refuse_row(int(wrong.argmax()))
        self._check(neighbours)
        if self.stored is not None:
            self.stored.check_all_rows()

    def _verify(self, nodes: Array) -> None:
        if self.stored is not None:
            self.stored.check_rows(nodes)

    def _read(self, function: str, *arguments: Any) -> Any:
        try:
            read = getattr(loops(), function)
            return read(self.offsets.numpy(), self.neighbours.numpy(), *arguments)
        except NoRow as error:
            self._refuse_row(error.node)

    def _check(self, neighbours: Array) -> None:
        # As unsigned numbers, negative ones are larger than any node, so one pass finds both.
        unsigned = neighbours.view(np.uint32 if neighbours.itemsize == 4 else np.uint64)
        if unsigned.size and unsigned.max() >= self.num_nodes:
            node = int(neighbours[unsigned.argmax()])
            self._refuse("neighbours", f"node {node} is none of {self.num_nodes:,}")

    def _refuse_row(self, node: int) -> NoReturn:
        first, end = self.offsets[node : node + 2].tolist()
        size = self.neighbours.numel()
        self._refuse("offsets", f"row {node} is from {first} to {end} of {size:,} neighbours")

    def _refuse(self, array: str, what: str) -> NoReturn:
        if self.stored is None:
            raise BadInput(f"{array} are of no graph: {what}; see GraphSource for what they hold")
        raise changed_file(self.stored.folder, array, what)

    def inverse_roots(self, self_loops: str, own: float = 1.0) -> NDArray[np.float32]:
        """Return one over the square root of each node's degree; zero where it has none.

        Args:
            self_loops: Which count, see :class:`~crossgcn.graph.normalise.EdgeRule`.
            own: The weight of an added self-loop.
        """
        with _LOCK:
            if (self_loops, own) not in self._roots:
                self._roots[self_loops, own] = self._compute_inverse_roots(self_loops, own)
            return self._roots[self_loops, own]

    def _compute_inverse_roots(self, self_loops: str, own: float) -> NDArray[np.float32]:
        weights = np.empty(0, np.float32) if self.weights is None else self.weights.numpy()
        roots = np.empty(self.num_nodes, np.float32)
        for first in range(0, roots.size, _NODES_AT_ONCE):
            last = min(first + _NODES_AT_ONCE, roots.size)
            total = self.weigh(weights, self_loops != "remove", first, last)
            if self_loops == "keep":
                own = 0.0
            if self_loops != "remove" and own != 1.0:
                total += (own - 1.0) * (self.find_own(np.arange(first, last)) < 0)
            root = torch.from_numpy(total).float().pow(-0.5)
            roots[first:last] = root.masked_fill(root == torch.inf, 0.0).numpy()
        return roots


class MemoryGraph(GraphSource):
    """A graph of tensors; parallel edges add up, but of parallel self-loops the last one counts.

    Args:
        x: Node features, dense ``[nodes, features]`` or ``torch.sparse_csr``.
        edge_index: Sources and targets, ``[2, edges]``.
        edge_weight: One weight per edge; ones by default.
        y: The class of each node, -1 if unknown, which is the default.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        y: Tensor | None = None,
    ) -> None:
        super().__init__(*_rows(edge_index, edge_weight, x.size(0)), y, x.size(1))
        self.is_weighted = edge_weight is not None
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)

    def features(self, nodes: Tensor) -> Features:
        """Return the features of some nodes."""
        return self.x.select_rows(nodes) if isinstance(self.x, SparseMatrix) else self.x[nodes]


class StoredSource(GraphSource):
    """A graph on disk, from an open graph folder."""

    def __init__(self, stored: StoredGraph) -> None:
        rows = (stored.offsets, stored.neighbours, stored.weights)
        super().__init__(*rows, stored.labels, stored.num_features, stored)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredSource, (self.stored,)

    def features(self, nodes: Tensor) -> Features:
        """Read the features of some nodes."""
        assert self.stored is not None
        rows = self.stored.features(nodes)
        return SparseMatrix.from_torch(rows) if rows.layout == torch.sparse_csr else rows


class NarrowSource(GraphSource):
    """A graph with sparse features, without the columns where ``is_kept`` is false."""

    def __init__(self, source: GraphSource, is_kept: Tensor) -> None:
        rows = (source.offsets, source.neighbours, source.weights)
        super().__init__(*rows, source.labels, int(is_kept.sum()), source.stored)
        self.is_weighted = source.is_weighted
        self._source, self._is_kept = source, is_kept

    def features(self, nodes: Tensor) -> Features:
        """Return the remaining features of some nodes."""
        rows = self._source.features(nodes)
        assert isinstance(rows, SparseMatrix)
        return select_columns(rows, self._is_kept)


def select_columns(x: SparseMatrix, is_kept: Tensor) -> SparseMatrix:
    """Remove columns without entries from a matrix."""
    places = is_kept.long().cumsum(0) - 1
    shape = (x.shape[0], int(is_kept.sum()))
    return SparseMatrix(x.row_offsets, places[x.columns], x.values, shape)


def source_of(graph: Data | StoredGraph) -> GraphSource:
    """Return the source of a PyG graph or of an open graph folder."""
    if isinstance(graph, StoredGraph):
        return StoredSource(graph)
    return MemoryGraph(graph.x, graph.edge_index, graph.edge_weight, graph.y)


def _rows(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return offsets, neighbours and weights."""
    source, target = edge_index.numpy()
    weight = np.ones(source.size, np.float32) if edge_weight is None else edge_weight.numpy()
    loop = source == target
    own = np.zeros(num_nodes, dtype=weight.dtype)
    own[source[loop]] = weight[loop]
    nodes = np.unique(source[loop])
    rows = np.concatenate([target[~loop], nodes])
    columns = np.concatenate([source[~loop], nodes])
    values = np.concatenate([weight[~loop], own[nodes]])
    matrix = sp.coo_array((values, (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()
    small = np.int32 if num_nodes < 2**31 else np.int64
    even = edge_weight is None and bool((matrix.data == 1).all())
    return (
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(small)),
        None if even else torch.from_numpy(matrix.data.astype(np.float32)),
    )


def sampled_blocks(
    source: GraphSource,
    output: SamplerOutput,
    propagations: Sequence[EdgeKind],
    rescaled: Sequence[bool] | None = None,
) -> tuple[SparseMatrix, ...]:
    """Return one block per hop, first to last; ``output.node`` enters the first.

    Args:
        output: The sampled edges; each hop drew for all nodes found before.
        rescaled: For each hop, whether weights of drawn edges are scaled up to stand for all
            neighbours; ``True`` by default.
    """
    rescaled = rescaled if rescaled is not None else [True] * len(propagations)
    node = output.node.numpy()
    ends = [tensor.numpy() for tensor in (output.col, output.row, output.edge)]
    nodes_until = np.cumsum(output.num_sampled_nodes)
    edges_until = np.concatenate([[0], np.cumsum(output.num_sampled_edges)])
    blocks = []
    last_first = zip(reversed(propagations), reversed(rescaled), strict=True)
    for hop, (kind, rescale) in enumerate(last_first):
        edges = slice(edges_until[hop], edges_until[hop + 1])
        rows, num_columns = node[: nodes_until[hop]], int(nodes_until[hop + 1])
        blocks.append(
            _block(source, kind, rows, num_columns, *(end[edges] for end in ends), rescale=rescale)
        )
    return tuple(reversed(blocks))


def whole_adjacency(source: GraphSource, kind: EdgeKind) -> SparseMatrix:
    """Return the adjacency of the whole graph."""
    source.check_all()
    nodes, neighbours = np.arange(source.num_nodes), source.neighbours.numpy()
    rows = np.repeat(nodes, np.diff(source.offsets.numpy()))
    entries = (neighbours != rows).nonzero()[0]
    rows, columns = rows[entries], neighbours[entries].astype(np.int64)
    return _block(source, kind, nodes, nodes.size, rows, columns, entries)


def adjacency_rows(source: GraphSource, nodes: Tensor, kind: EdgeKind) -> SparseMatrix:
    """Return the rows of some nodes in the adjacency of the whole graph."""
    own = nodes.numpy()
    starts, entries, drawn = source.draw(own, ALL, 0, True)
    targets = np.repeat(np.arange(own.size), np.diff(starts))
    columns = drawn.astype(np.int64)
    return _block(source, kind, own, source.num_nodes, targets, columns, entries, own)


def _block(
    source: GraphSource,
    kind: EdgeKind,
    rows: NDArray[np.int64],
    num_columns: int,
    targets: NDArray[np.int64],
    sources: NDArray[np.int64],
    entries: NDArray[np.int64],
    own_columns: NDArray[np.int64] | None = None,
    *,
    rescale: bool = False,
) -> SparseMatrix:
    """Make a block; by default, the rows' own nodes are its first columns."""
    if (np.diff(targets) < 0).any():
        order = np.argsort(targets, kind="stable")
        targets, sources, entries = targets[order], sources[order], entries[order]
    loop = source.find_own(rows)
    has_loop = loop >= 0
    drawn = np.bincount(targets, minlength=rows.size)
    values = np.ones(targets.size, np.float32)
    if rescale:
        offsets = source.offsets.numpy()
        degrees = offsets[rows + 1] - offsets[rows] - has_loop
        values = (degrees / np.maximum(drawn, 1)).astype(np.float32)[targets]
    rule = EDGE_RULES[kind]
    if not source.is_weighted:
        rule = rule._replace(own=1.0)
    own = np.full(rows.size, rule.own, np.float32)
    own[has_loop] = 1.0
    if source.weights is not None:
        weights = source.weights.numpy()
        values *= weights[entries]
        own[has_loop] = weights[loop[has_loop]]
    nodes = source.neighbours.numpy()[entries]
    if rule.normalised:
        roots = source.inverse_roots(rule.self_loops, rule.own)
        values *= roots[rows][targets] * roots[nodes]
        own *= roots[rows] ** 2
    starts = np.concatenate([[0], np.cumsum(drawn)])
    columns = np.arange(rows.size) if own_columns is None else own_columns
    if rule.self_loops == "add":
        starts, sources, values = loops().insert_own(
            starts, nodes, sources, values, rows, columns, own
        )
    elif rule.self_loops == "keep":
        targets = np.concatenate([targets, has_loop.nonzero()[0]])
        order = np.lexsort((np.concatenate([nodes, rows[has_loop]]), targets))
        sources = np.concatenate([sources, columns[has_loop]])[order]
        values = np.concatenate([values, own[has_loop]])[order]
        starts = np.concatenate([[0], np.cumsum(drawn + has_loop)])
    block = SparseMatrix(
        torch.from_numpy(starts),
        torch.from_numpy(sources),
        torch.from_numpy(values),
        (rows.size, num_columns),
    )
    if own_columns is not None or rows.size < num_columns:
        block.own = torch.from_numpy(columns)
    return block
