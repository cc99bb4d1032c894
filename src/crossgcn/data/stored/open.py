"""Open a graph folder; its arrays are mapped into memory, and read where they are used."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
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
from crossgcn.data.graph import is_labelled
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import SealedFile
from crossgcn.data.stored.format import (
    PREPROCESS,
    REMEDY,
    FileDescription,
    Page,
    changed_file,
    npy_header,
    read_page,
)
from crossgcn.errors import BadInput

PIECE = 1 << 16
"""Ids read or written at once."""

# An id from a DataFrame may hold an unpaired surrogate, which is kept as it is.
_CODING = ("utf-8", "surrogatepass")


def encode_ids(ids: Iterable[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
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
    Whatever a method returns is verified. The tensors ``neighbours`` and ``weights`` are not:
    call :meth:`check_rows` before reading rows of them, or :meth:`verify` once.

    Attributes:
        num_entries: Length of ``neighbours``: an undirected edge between two nodes has two.
        num_features: 0 where the nodes have no features.
        num_classes: ``None`` where the folder does not state it.
        fingerprint: A hash of the content of all files.
        files: Size, hashes, type and shape of each file, by name.
        sealed_only: Whether no file may be read but these, such as columns of neighbourhoods.
    """

    def __init__(self, folder: Path, page: Page) -> None:
        self.folder = folder
        self.sealed_only = False
        self.num_nodes = page.num_nodes
        self.num_entries = page.num_entries
        self.num_self_loops = page.num_self_loops
        self.num_features = page.num_features
        self.num_classes = page.num_classes
        self.directed = page.directed
        # It covers the checksum of every block, against which blocks are verified.
        self.fingerprint = page.sha256
        self.files: dict[str, FileDescription] = page.files
        self._sealed = {
            name: SealedFile(folder / name, about.bytes, about.sha256, about.blocks, REMEDY)
            for name, about in page.files.items()
        }
        self._maps = {
            name.removesuffix(".npy"): self._map(name) for name in page.files if name != PREPROCESS
        }
        self.neighbours = self._tensor("neighbours")
        self.weights = self._tensor("weights") if self._has("weights") else None

    def __repr__(self) -> str:
        return (
            f"StoredGraph({str(self.folder)!r}, num_nodes={self.num_nodes}, "
            f"num_edges={self.num_edges}, num_features={self.num_features})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the folder itself, and shares the memory.
        return open_graph, (self.folder,), {"sealed_only": self.sealed_only}

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
    def offsets(self) -> Tensor:
        """Where the neighbours of each node start; int64 [N + 1]."""
        self._sealed["offsets.npy"].check()
        return self._tensor("offsets")

    @cached_property
    def labels(self) -> Tensor:
        """Class of each node, -1 for unlabelled; or its number, NaN for unlabelled; [N]."""
        if not self._has("labels"):
            return torch.full((self.num_nodes,), -1)
        self._sealed["labels.npy"].check()
        labels = self._tensor("labels")
        if not labels.is_floating_point():
            self._check_range("labels", labels, -1, self.num_classes or self.num_nodes)
        elif labels.isinf().any() or self.num_classes not in (None, 1):
            raise changed_file(self.folder, "labels", "holds infinite numbers, or no classes")
        return labels

    @cached_property
    def roles(self) -> Tensor | None:
        """Who trains, validates and tests; int8 [splits, N]."""
        if not self._has("roles"):
            return None
        self._sealed["roles.npy"].check()
        roles = self._tensor("roles")
        self._check_range("roles", roles, 0, 4)
        return roles

    @cached_property
    def preprocess(self) -> Preprocess | None:
        """Names of classes and features, and how tables were encoded, where that is stored."""
        if PREPROCESS not in self.files:
            return None
        self._sealed[PREPROCESS].check()
        try:
            return Preprocess.from_json(json.loads(bytes(self._sealed[PREPROCESS].content)))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{self.folder / PREPROCESS}: {error}; {REMEDY}") from None

    @cached_property
    def ids(self) -> StoredIds | None:
        """Ids of the nodes, where a table of nodes had any."""
        if not self._has("id_offsets"):
            return None
        for name in ("id_offsets.npy", "id_text.npy"):
            self._sealed[name].check()
        offsets, text = self._maps["id_offsets"], self._maps["id_text"]
        if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != len(text):
            raise changed_file(self.folder, "id_offsets", f"no parts of {len(text):,} bytes")
        return StoredIds(offsets, text)

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
        rows = self._maps["features"]
        self._check("features", *((0, len(rows)) if at is None else (at, at + 1)))
        return torch.from_numpy(np.array(rows) if at is None else rows[at])

    def check_rows(self, nodes: NDArray[np.integer]) -> None:
        """Verify the neighbours and weights of some nodes."""
        offsets = self.offsets.numpy()
        for name in ("neighbours", "weights"):
            if self._has(name):
                self._check(name, offsets[nodes], offsets[nodes + 1])

    def check_all_rows(self) -> None:
        """Verify the neighbours and weights of all nodes."""
        for name in ("neighbours", "weights"):
            if self._has(name):
                self._check(name, 0, self.num_entries)

    def to_data(self) -> Data:
        """Load the whole graph into memory; its nodes must have features."""
        self.check()
        offsets = self.offsets.numpy()
        if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != self.num_entries:
            raise changed_file(self.folder, "offsets", f"no rows of {self.num_entries:,} entries")
        if self.num_entries:
            self._check_range("neighbours", self.neighbours, 0, self.num_nodes)
        degrees = torch.from_numpy(np.diff(offsets))
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
        """Read all files, and refuse one whose SHA-256 is another one."""
        for sealed in self._sealed.values():
            sealed.verify()

    def check(self) -> None:
        """Read all files, and refuse one in which a block has another checksum."""
        for sealed in self._sealed.values():
            sealed.check()

    def _sparse_rows(self, nodes: NDArray[np.int64] | None) -> Tensor:
        offsets, columns, values = (
            self._maps[f"feature_{part}"] for part in ("offsets", "columns", "values")
        )
        self._sealed["feature_offsets.npy"].check()
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
        for name in ("feature_columns", "feature_values"):
            self._check(name, *((0, columns.size) if nodes is None else (starts, ends)))
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
        about, content = self.files[name], self._sealed[name].content
        header = npy_header(about)
        if content[: len(header)] != header:
            raise BadInput(
                f"{self.folder / name}: its header is not that of {about.dtype} {about.shape}, as "
                f"graph.json says; {REMEDY}"
            )
        return np.frombuffer(content, about.dtype, offset=len(header)).reshape(about.shape)

    def _check(self, name: str, starts: Any, ends: Any) -> None:
        """Verify rows of an array before they are read."""
        array = self._maps[name]
        header = self.files[f"{name}.npy"].bytes - array.nbytes
        width = array.nbytes // max(len(array), 1)
        ranges = (header + np.atleast_1d(end).astype(np.int64) * width for end in (starts, ends))
        self._sealed[f"{name}.npy"].check_ranges(*ranges)

    def _check_range(self, name: str, values: Tensor, lowest: int, end: int) -> None:
        low, high = (int(value) for value in values.aminmax())
        if low < lowest or high >= end:
            what = f"holds {low} to {high} where {lowest} to {end - 1} may be"
            raise changed_file(self.folder, name, what)

    def _tensor(self, name: str) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given (NumPy array|buffer) is not writable")
            return torch.from_numpy(self._maps[name])


def open_graph(folder: Path | str) -> StoredGraph:
    """Open a graph folder, in time that does not depend on the size of the graph.

    ``graph.json`` and the sizes of all files are checked now, their content as it is read;
    :meth:`StoredGraph.verify` checks all of it.
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
