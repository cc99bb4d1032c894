"""A graph on disk that is opened, not loaded."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.data.files import read_json_object
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.format import (
    PREPROCESS,
    REMEDY,
    changed_file,
    check_feature_rows,
    checked_csr,
    map_array,
    read_page,
)
from crossgcn.errors import BadInput

PIECE = 1 << 16
"""Names read or written at once."""

# A name from a DataFrame may hold half a character, which is kept as it is.
_CODING = ("utf-8", "surrogatepass")


def encode_ids(ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Names as they are stored, a piece at a time.

    Args:
        ids: Of all nodes, in their order.

    Yields:
        Where each name of the piece ends in the text as a whole, and the piece of the text.
    """
    start, left = 0, iter(ids)
    while piece := [name.encode(*_CODING) for name in islice(left, PIECE)]:
        ends = start + np.cumsum([len(name) for name in piece], dtype=np.int64)
        yield ends, np.frombuffer(b"".join(piece), np.uint8)
        start = int(ends[-1])


class StoredIds(Sequence[str]):
    """Names that are read from the disk when they are asked for.

    Args:
        offsets: Where each name starts, and the end of the last, int64 [N + 1].
        text: All names in UTF-8, uint8.
    """

    def __init__(self, offsets: NDArray[Any], text: NDArray[Any]) -> None:
        self._offsets = offsets
        self._text = text

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self[node] for node in range(len(self))[at])
        node = range(len(self))[at]
        start, end = self._offsets[node : node + 2]
        return self._text[start:end].tobytes().decode(*_CODING)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), PIECE):
            bounds = self._offsets[first : first + PIECE + 1].tolist()
            text = self._text[bounds[0] : bounds[-1]].tobytes()
            for start, end in pairwise(bounds):
                yield text[start - bounds[0] : end - bounds[0]].decode(*_CODING)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The node of that name.

        Raises:
            ValueError: There is none.
        """
        for node, name in islice(enumerate(self), start, stop):
            if name == value:
                return node
        raise ValueError(f"{value!r} is the name of no node")


class StoredGraph:
    """A graph folder, its arrays mapped into memory: pages are read when they are used.

    Processes of one machine that open the same folder share those pages. The tensors are for
    reading: writing to one ends the process.

    Args:
        folder: A checked one; see :func:`open_graph`.
        page: What its ``graph.json`` says.

    Attributes:
        folder: Where it is.
        num_nodes: Isolated ones included.
        num_entries: Of ``neighbours``: an undirected edge between two nodes has two.
        num_self_loops: Entries of a node in its own row.
        num_features: 0 where the nodes have none.
        num_classes: None where nothing is known of classes.
        directed: Whether an edge is an entry of its second end alone.
        fingerprint: A hash of all that the folder holds.
        offsets: Where the neighbours of each node start, int64 [N + 1].
        neighbours: Those that sum into each node, rising, each once; int32 or int64.
        weights: Of each entry, float32, where there are any.
        labels: Class of each node, -1 where it has none; int64 [N].
        roles: A row a split, int8 [S, N], where there are any.
    """

    def __init__(self, folder: Path, page: dict[str, Any]) -> None:
        self.folder = folder
        self.num_nodes: int = page["num_nodes"]
        self.num_entries: int = page["num_entries"]
        self.num_self_loops: int = page["num_self_loops"]
        self.num_features: int = page["num_features"]
        self.num_classes: int | None = page["num_classes"]
        self.directed: bool = page["directed"]
        self.fingerprint: str = page["fingerprint"]
        self.files: dict[str, dict[str, Any]] = page["files"]
        self._maps: dict[str, NDArray[Any]] = {}
        self.offsets = self._tensor("offsets")
        self.neighbours = self._tensor("neighbours")
        self.weights = self._tensor("weights") if self._has("weights") else None
        self.roles = self._tensor("roles") if self._has("roles") else None

    def __repr__(self) -> str:
        return (
            f"StoredGraph({str(self.folder)!r}, num_nodes={self.num_nodes}, "
            f"num_edges={self.num_edges}, num_features={self.num_features})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the folder itself, and shares the pages.
        return open_graph, (self.folder,)

    @property
    def name(self) -> str:
        """The folder's own."""
        return self.folder.resolve().name

    @property
    def num_edges(self) -> int:
        """Edges, each counted once; self-loops included."""
        if self.directed:
            return self.num_entries
        return (self.num_entries + self.num_self_loops) // 2

    @property
    def has_sparse_features(self) -> bool:
        """Whether :meth:`features` gives sparse rows."""
        return self._has("feature_offsets")

    @cached_property
    def labels(self) -> Tensor:
        """Class of each node, -1 where it has none, or where no node has any."""
        return self._tensor("labels") if self._has("labels") else torch.full((self.num_nodes,), -1)

    @cached_property
    def preprocess(self) -> Preprocess | None:
        """Names of classes and features, and how they were encoded, where that is known."""
        if PREPROCESS not in self.files:
            return None
        path = self.folder / PREPROCESS
        return Preprocess.from_json(read_json_object(path, "give a whole folder", REMEDY))

    @cached_property
    def ids(self) -> StoredIds | None:
        """The nodes' own names, where a table of nodes gave them any."""
        if not self._has("id_offsets"):
            return None
        return StoredIds(self._map("id_offsets"), self._map("id_text"))

    def features(self, nodes: Tensor | NDArray[np.integer] | None = None) -> Tensor:
        """The features of some nodes, read from the disk; of all if left out.

        Args:
            nodes: Which, in the order wanted; integers.

        Returns:
            float32 ``[nodes, features]``, dense or sparse CSR as it is stored.

        Raises:
            BadInput: The nodes have no features.
        """
        if self.num_features == 0:
            raise BadInput(
                f"{self.folder}: the nodes have no features; import the graph with --nodes FILE"
            )
        at = None if nodes is None else np.asarray(nodes, np.int64)
        if self.has_sparse_features:
            return self._sparse_rows(at)
        rows = self._map("features")
        return torch.from_numpy(np.array(rows) if at is None else rows[at])

    def to_data(self) -> Data:
        """The whole graph in memory, as a full-batch model takes it.

        Raises:
            BadInput: The nodes have no features.
        """
        degrees = torch.from_numpy(np.diff(self._map("offsets")))
        rows = torch.repeat_interleave(torch.arange(self.num_nodes), degrees)
        columns = self.neighbours.long()
        labels = self.labels.clone()
        return Data(
            x=self.features(),
            # Undirected, rows are as good as columns, and so the edges are sorted by source.
            edge_index=torch.stack([columns, rows] if self.directed else [rows, columns]),
            edge_weight=None if self.weights is None else self.weights.clone(),
            y=labels,
            name=self.name,
            num_classes=self._count_classes(labels),
            num_nodes=self.num_nodes,
            roles=None if self.roles is None else self.roles.clone(),
            directed=True if self.directed else None,
        )

    def verify(self) -> None:
        """Read everything, and compare it with the hashes taken when it was written.

        Raises:
            BadInput: Naming the file that was changed.
        """
        for name, about in self.files.items():
            path = self.folder / name
            digest = hashlib.sha256()
            with path.open("rb") as file:
                if path.suffix == ".npy":
                    np.lib.format.read_magic(file)
                    np.lib.format.read_array_header_1_0(file)
                while content := file.read(1 << 24):
                    digest.update(content)
            if digest.hexdigest() != about["sha256"]:
                raise BadInput(f"{path}: was changed after it was written; {REMEDY}")

    def _sparse_rows(self, nodes: NDArray[np.int64] | None) -> Tensor:
        offsets, columns, values = (
            self._map(f"feature_{part}") for part in ("offsets", "columns", "values")
        )
        if nodes is None:
            check_feature_rows(self.folder, offsets[:-1], offsets[1:], columns.size)
            return checked_csr(
                self.folder,
                np.array(offsets),
                np.array(columns),
                np.array(values),
                (self.num_nodes, self.num_features),
            )
        starts, ends = offsets[nodes], offsets[nodes + 1]
        check_feature_rows(self.folder, starts, ends, columns.size)
        indptr = np.concatenate([[0], np.cumsum(ends - starts)])
        at = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts)
        shape = (len(nodes), self.num_features)
        return checked_csr(self.folder, indptr, columns[at], values[at], shape)

    def _count_classes(self, labels: Tensor) -> int:
        if self.num_classes is not None:
            return self.num_classes
        return int(labels.max()) + 1

    def _has(self, name: str) -> bool:
        return f"{name}.npy" in self.files

    def _map(self, name: str) -> NDArray[Any]:
        if name not in self._maps:
            self._maps[name] = self._open(name)
        return self._maps[name]

    def _open(self, name: str) -> NDArray[Any]:
        about = self.files[f"{name}.npy"]
        path = self.folder / f"{name}.npy"
        try:
            mapped = map_array(path)
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: cannot be opened ({error}); {REMEDY}") from None
        if mapped.dtype.str != about["dtype"] or list(mapped.shape) != about["shape"]:
            raise BadInput(
                f"{path}: holds {mapped.dtype} {list(mapped.shape)} where graph.json says "
                f"{about['dtype']} {about['shape']}; {REMEDY}"
            )
        return mapped

    def _tensor(self, name: str) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            return torch.from_numpy(self._map(name))


def open_graph(folder: Path | str) -> StoredGraph:
    """Open a graph folder; what that costs does not depend on the size of the graph.

    The page's seal and the sizes of all files are checked, their content is not read;
    :meth:`StoredGraph.verify` does that.

    Args:
        folder: Made by :func:`~crossgcn.data.stored.build_graph` or ``crossgcn data import``.

    Raises:
        BadInput: It is no graph, or one that was never finished, cut short or changed;
            naming the file and the remedy.
    """
    folder = Path(folder)
    return StoredGraph(folder, read_page(folder))


def is_opened(dataset: str) -> bool:
    """Whether a dataset is a folder, and so can be opened instead of loaded."""
    return dataset not in CATALOGUE and Path(dataset).is_dir()


def open_dataset(folder: Path | str) -> Data:
    """What :func:`~crossgcn.data.load_dataset` gives, less features and edges.

    These are read from ``stored``, a few rows at a time, by training in batches; what classes
    and features mean is its ``preprocess``, and the nodes' names are its ``ids``.

    Args:
        folder: Made by ``crossgcn data import``.

    Raises:
        BadInput: If it is no whole graph folder, or has no labels or no features.
    """
    stored = open_graph(folder)
    if stored.num_features == 0 or int(stored.labels.max()) < 0:
        raise BadInput(
            f"{folder}: the nodes have no {'features' if stored.num_features == 0 else 'classes'}, "
            "and there is nothing to train on; import the graph with --nodes FILE --target COLUMN"
        )
    _check_range(stored, "labels", stored.labels, -1, stored.num_classes)
    if stored.roles is not None:
        _check_range(stored, "roles", stored.roles, 0, 4)
    classes = stored.num_classes
    num_classes = int(stored.labels.max()) + 1 if classes is None else classes
    named = num_classes if stored.preprocess is None else len(stored.preprocess.classes)
    if named != num_classes:
        raise BadInput(
            f"{folder}: {named} classes have names, but the nodes are of {num_classes}; store the "
            "graph again with a name for each"
        )
    return Data(
        y=stored.labels,
        roles=stored.roles,
        name=stored.name,
        num_classes=num_classes,
        num_nodes=stored.num_nodes,
        stored=stored,
    )


def _check_range(
    stored: StoredGraph, name: str, values: Tensor, lowest: int, end: int | None
) -> None:
    """Refuse an array of a folder that says what cannot be."""
    low, high = (int(value) for value in values.aminmax())
    if low < lowest or (end is not None and high >= end):
        what = f"holds {low} to {high} where {lowest} to {'…' if end is None else end - 1} may be"
        raise changed_file(stored.folder, name, what)
