"""Open a graph folder; its arrays are mapped into memory, and read where they are used."""

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

from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.data.features import csr_tensor
from crossgcn.data.files import read_json_object
from crossgcn.data.graph import is_labelled
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.format import PREPROCESS, REMEDY, changed_file, read_page
from crossgcn.errors import BadInput

PIECE = 1 << 16
"""Ids read or written at once."""

# An id from a DataFrame may hold an unpaired surrogate, which is kept as it is.
_CODING = ("utf-8", "surrogatepass")


def encode_ids(ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Encode ids as they are stored, some at a time.

    Yields:
        Where each id ends in the text of all ids, and the text of these.
    """
    start, left = 0, iter(ids)
    while piece := [node_id.encode(*_CODING) for node_id in islice(left, PIECE)]:
        ends = start + np.cumsum([len(text) for text in piece], dtype=np.int64)
        yield ends, np.frombuffer(b"".join(piece), np.uint8)
        start = int(ends[-1])


class StoredIds(Sequence[str]):
    """Ids of nodes, read from disk when they are indexed; see ``stored/format.py``."""

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
        """Return the node with an id; raise ``ValueError`` if there is none."""
        for node, node_id in islice(enumerate(self), start, stop):
            if node_id == value:
                return node
        raise ValueError(f"{value!r} is the id of no node")


class StoredGraph:
    """A graph folder with its arrays mapped into memory; :func:`open_graph` makes one.

    Processes on one machine that open the same folder share the memory. The tensors are
    read-only: writing to one ends the process.

    The arrays are those of :mod:`crossgcn.data.stored.format`; optional ones may be ``None``.

    Attributes:
        num_entries: Length of ``neighbours``: an undirected edge between two nodes has two.
        num_features: 0 where the nodes have no features.
        num_classes: ``None`` where the folder does not state it.
        fingerprint: A hash of the content of all files.
        files: Size, hash, type and shape of each file, by name.
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
        self.weights = self._optional("weights")
        self.roles = self._optional("roles")

    def __repr__(self) -> str:
        return (
            f"StoredGraph({str(self.folder)!r}, num_nodes={self.num_nodes}, "
            f"num_edges={self.num_edges}, num_features={self.num_features})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the folder itself, and shares the memory.
        return open_graph, (self.folder,)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def num_edges(self) -> int:
        """Number of edges, each counted once, self-loops included."""
        if self.directed:
            return self.num_entries
        return (self.num_entries + self.num_self_loops) // 2

    @property
    def has_sparse_features(self) -> bool:
        """Whether :meth:`features` returns a sparse matrix."""
        return self._has("feature_offsets")

    @cached_property
    def labels(self) -> Tensor:
        """Class of each node, -1 for unlabelled; or its number, NaN for unlabelled; [N]."""
        labels = self._optional("labels")
        return torch.full((self.num_nodes,), -1) if labels is None else labels

    @cached_property
    def preprocess(self) -> Preprocess | None:
        """Names of classes and features, and how tables were encoded, where that is stored."""
        if PREPROCESS not in self.files:
            return None
        path = self.folder / PREPROCESS
        return Preprocess.from_json(read_json_object(path, "give a whole folder", REMEDY))

    @cached_property
    def ids(self) -> StoredIds | None:
        """Ids of the nodes, where a table of nodes had any."""
        if not self._has("id_offsets"):
            return None
        return StoredIds(self._map("id_offsets"), self._map("id_text"))

    def features(self, nodes: Tensor | NDArray[np.integer] | None = None) -> Tensor:
        """Read the features of some nodes, in the order given, or of all.

        Returns:
            float32 ``[nodes, features]``, dense or sparse CSR as it is stored.
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
        """Load the whole graph into memory; its nodes must have features."""
        degrees = torch.from_numpy(np.diff(self._map("offsets")))
        rows = torch.repeat_interleave(torch.arange(self.num_nodes), degrees)
        columns = self.neighbours.long()
        return Data(
            x=self.features(),
            # In an undirected graph both orders are right, and this one is sorted by source.
            edge_index=torch.stack([columns, rows] if self.directed else [rows, columns]),
            edge_weight=None if self.weights is None else self.weights.clone(),
            y=self.labels.clone(),
            name=self.name,
            num_classes=self.count_classes(),
            num_nodes=self.num_nodes,
            roles=None if self.roles is None else self.roles.clone(),
            directed=True if self.directed else None,
        )

    def count_classes(self) -> int:
        """Return the number of classes: stored, or one more than the highest label.

        It is 1 where labels are numbers to predict.
        """
        if self.labels.is_floating_point():
            return 1
        return int(self.labels.max()) + 1 if self.num_classes is None else self.num_classes

    def verify(self) -> None:
        """Read everything and refuse a file that differs from its hash."""
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
        starts, ends = (
            (offsets[:-1], offsets[1:]) if nodes is None else (offsets[nodes], offsets[nodes + 1])
        )
        wrong = (starts < 0) | (ends < starts) | (ends > columns.size)
        if wrong.any():
            row = int(wrong.argmax())
            what = (
                f"a row is from {int(starts[row])} to {int(ends[row])} of {columns.size:,} values"
            )
            raise changed_file(self.folder, "feature_offsets", what)
        if nodes is None:
            indptr, columns, values = np.array(offsets), np.array(columns), np.array(values)
        else:
            indptr = np.concatenate([[0], np.cumsum(ends - starts)])
            at = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts)
            columns, values = columns[at], values[at]
        try:
            return csr_tensor(indptr, columns, values, (len(starts), self.num_features))
        except RuntimeError as error:
            if "not satisfied" not in str(error):  # Part of torch's message about wrong columns.
                raise
            what = f"rows of {self.num_features:,} features name others, or some twice or unsorted"
            raise changed_file(self.folder, "feature_columns", what) from None

    def _has(self, name: str) -> bool:
        return f"{name}.npy" in self.files

    def _map(self, name: str) -> NDArray[Any]:
        if name in self._maps:
            return self._maps[name]
        about = self.files[f"{name}.npy"]
        path = self.folder / f"{name}.npy"
        try:
            # Read-only: systems refuse a writable private map larger than the memory.
            mapped = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: cannot be opened ({error}); {REMEDY}") from None
        if mapped.dtype.str != about["dtype"] or list(mapped.shape) != about["shape"]:
            raise BadInput(
                f"{path}: holds {mapped.dtype} {list(mapped.shape)} where graph.json says "
                f"{about['dtype']} {about['shape']}; {REMEDY}"
            )
        self._maps[name] = mapped
        return mapped

    def _optional(self, name: str) -> Tensor | None:
        return self._tensor(name) if self._has(name) else None

    def _tensor(self, name: str) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            return torch.from_numpy(self._map(name))


def open_graph(folder: Path | str) -> StoredGraph:
    """Open a graph folder, in time that does not depend on the size of the graph.

    ``graph.json`` and the sizes of all files are checked; :meth:`StoredGraph.verify` checks
    their content.
    """
    folder = Path(folder)
    return StoredGraph(folder, read_page(folder))


def is_opened(dataset: str) -> bool:
    """Return whether a dataset is a folder, which can be opened instead of loaded."""
    return dataset not in DATASET_NAMES and Path(dataset).is_dir()


def open_dataset(folder: Path | str) -> Data:
    """Open a graph folder for training in mini-batches.

    Returns:
        What :func:`~crossgcn.data.load_dataset` returns without ``x`` and ``edge_index``,
        which are read in parts from the :class:`StoredGraph` in ``stored``.
    """
    stored = open_graph(folder)
    if stored.num_features == 0 or not is_labelled(stored.labels).any():
        raise BadInput(
            f"{folder}: the nodes have no {'features' if stored.num_features == 0 else 'labels'}, "
            "and there is nothing to train on; import the graph with --nodes FILE --target COLUMN"
        )
    num_classes = stored.count_classes()
    if not stored.labels.is_floating_point():
        _check_range(stored, "labels", stored.labels, -1, num_classes)
    elif stored.labels.isinf().any():
        raise changed_file(stored.folder, "labels", "holds infinite numbers")
    if stored.roles is not None:
        _check_range(stored, "roles", stored.roles, 0, 4)
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


def _check_range(stored: StoredGraph, name: str, values: Tensor, lowest: int, end: int) -> None:
    low, high = (int(value) for value in values.aminmax())
    if low < lowest or high >= end:
        what = f"holds {low} to {high} where {lowest} to {end - 1} may be"
        raise changed_file(stored.folder, name, what)
