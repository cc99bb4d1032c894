"""Graphs in memory or on disk that mini-batches are cut from, a few rows at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.stored import StoredGraph
from crossgcn.data.stored.format import changed_file
from crossgcn.errors import BadInput
from crossgcn.graph.matrix import SparseMatrix
from crossgcn.kernels.sampling import NoRow, loops

Features = Tensor | SparseMatrix


class GraphSource(Protocol):
    """A graph by rows; its tensors may be memory-mapped.

    Attributes:
        offsets: Start of each node's neighbours, ``[num_nodes + 1]``, int64.
        neighbours: Node ``i`` aggregates over ``neighbours[offsets[i]:offsets[i + 1]]``,
            ascending, each once; int32 or int64.
        weights: One per entry of ``neighbours``, float32; ``None`` if all are one.
        labels: The class of each node, -1 if unknown.
    """

    @property
    def num_nodes(self) -> int: ...  # noqa: D102

    @property
    def offsets(self) -> Tensor: ...  # noqa: D102

    @property
    def neighbours(self) -> Tensor: ...  # noqa: D102

    @property
    def weights(self) -> Tensor | None: ...  # noqa: D102

    @property
    def labels(self) -> Tensor: ...  # noqa: D102

    @property
    def num_features(self) -> int: ...  # noqa: D102

    def features(self, nodes: Tensor) -> Features:
        """Return the features of some nodes."""


class MemoryGraph:
    """A graph of tensors.

    Parallel edges add up; of parallel self-loops, the last one counts.

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
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        self.num_nodes = x.size(0)
        self.num_features = x.size(1)
        self.labels = torch.full((x.size(0),), -1) if y is None else y
        self.offsets, self.neighbours, self.weights = _rows(edge_index, edge_weight, x.size(0))

    def features(self, nodes: Tensor) -> Features:
        """Return the features of some nodes."""
        return self.x.select_rows(nodes) if isinstance(self.x, SparseMatrix) else self.x[nodes]


class StoredSource:
    """A graph on disk, from an open graph folder."""

    def __init__(self, stored: StoredGraph) -> None:
        self.folder = stored.folder
        self.num_nodes, self.num_features = stored.num_nodes, stored.num_features
        self.offsets, self.neighbours = stored.offsets, stored.neighbours
        self.weights, self.labels = stored.weights, stored.labels
        self._stored = stored

    def features(self, nodes: Tensor) -> Features:
        """Read the features of some nodes."""
        rows = self._stored.features(nodes)
        return SparseMatrix.from_torch(rows) if rows.layout == torch.sparse_csr else rows


class NarrowSource:
    """A graph with sparse features, without columns that have no entry.

    Args:
        source: The graph.
        is_kept: Whether a column stays, ``[num_features]``.
    """

    def __init__(self, source: GraphSource, is_kept: Tensor) -> None:
        self.num_nodes, self.num_features = source.num_nodes, int(is_kept.sum())
        self.offsets, self.neighbours = source.offsets, source.neighbours
        self.weights, self.labels = source.weights, source.labels
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
    weight: Tensor | None = graph.edge_weight
    return MemoryGraph(graph.x, graph.edge_index, weight, graph.y)


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


Array = NDArray[Any]


class CheckedRows:
    """Reads rows of a graph and refuses invalid offsets and neighbours.

    It checks only what is read, so the arrays may be memory-mapped.

    Args:
        offsets: Start of each node's neighbours, ``[nodes + 1]``, int64.
        neighbours: The neighbours of all nodes, int32 or int64.
        folder: The graph folder, for error messages.
    """

    def __init__(self, offsets: Tensor, neighbours: Tensor, folder: Path | None = None) -> None:
        self._offsets, self._neighbours, self._folder = offsets, neighbours, folder

    @classmethod
    def of(cls, source: GraphSource) -> CheckedRows:
        """Read the rows of a source."""
        return cls(source.offsets, source.neighbours, getattr(source, "folder", None))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._offsets.numel() - 1

    def draw(
        self, nodes: Array, fanout: int, key: int, skip_own: bool
    ) -> tuple[Array, Array, Array]:
        """Draw as :func:`~crossgcn.kernels.sampling.draw_entries`; also return the neighbours."""
        offsets, neighbours = self._arrays()
        try:
            starts, entries = loops().draw_entries(
                offsets, neighbours, nodes, fanout, key, skip_own
            )
        except NoRow as error:
            self._refuse_row(error.node)
        drawn = neighbours[entries]
        self._check(drawn)
        return starts, entries, drawn

    def find_own(self, nodes: Array) -> Array:
        """See :func:`~crossgcn.kernels.sampling.find_own`."""
        try:
            own: Array = loops().find_own(*self._arrays(), nodes)
        except NoRow as error:
            self._refuse_row(error.node)
        return own

    def weigh(self, weights: Array, own: bool, first: int, last: int) -> Array:
        """See :func:`~crossgcn.kernels.sampling.row_weights`."""
        try:
            total: Array = loops().row_weights(*self._arrays(), weights, own, first, last)
        except NoRow as error:
            self._refuse_row(error.node)
        return total

    def check_all(self) -> None:
        """Check every row."""
        offsets, neighbours = self._arrays()
        wrong = (offsets[1:] < offsets[:-1]) | (offsets[1:] > neighbours.size)
        wrong[:1] |= offsets[:1] != 0
        wrong[-1:] |= offsets[-1:] != neighbours.size
        if wrong.any():
            self._refuse_row(int(wrong.argmax()))
        self._check(neighbours)

    def _arrays(self) -> tuple[Array, Array]:
        return self._offsets.numpy(), self._neighbours.numpy()

    def _check(self, neighbours: Array) -> None:
        # As unsigned numbers, negative ones are larger than any node, so one pass finds both.
        unsigned = neighbours.view(np.uint32 if neighbours.itemsize == 4 else np.uint64)
        if unsigned.size and unsigned.max() >= self.num_nodes:
            node = int(neighbours[unsigned.argmax()])
            self._refuse("neighbours", f"node {node} is none of {self.num_nodes:,}")

    def _refuse_row(self, node: int) -> NoReturn:
        first, end = self._offsets[node : node + 2].tolist()
        size = self._neighbours.numel()
        self._refuse("offsets", f"row {node} is from {first} to {end} of {size:,} neighbours")

    def _refuse(self, array: str, what: str) -> NoReturn:
        if self._folder is None:
            raise BadInput(f"{array} are of no graph: {what}; see GraphSource for what they hold")
        raise changed_file(self._folder, array, what)
