"""Write a graph folder from edges in any order and number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.files import write_json
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import BlockChecksums, add_checksum
from crossgcn.data.stored.external_sort import ENTRY_BYTES, ExternalSort
from crossgcn.data.stored.format import (
    PAGE,
    PREPROCESS,
    ArrayFile,
    FileDescription,
    Page,
    building_folder,
)
from crossgcn.data.stored.open import StoredGraph, encode_ids, open_graph
from crossgcn.data.tables.cells import MOST_WEIGHT
from crossgcn.errors import BadInput

MOST_NODES = 2**32
"""Both ends of an edge make one key of 64 bits."""

MEMORY_LIMIT = 1 << 28
"""Default for the bytes that sorting may take."""

OFFSETS_BLOCK = 1 << 20
"""Rows whose offsets are written at once."""

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)

Progress = Callable[[str, int, int | None], None]
"""Called with the current stage, the amount done, and the total if it is known."""


@contextmanager
def writing_graph(
    out: Path | str,
    *,
    num_nodes: int | None = None,
    directed: bool = False,
    weighted: bool = False,
    keep_self_loops: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
) -> Iterator[GraphWriter]:
    """Create a graph folder, which appears only if the block ends without an error.

    Args:
        out: The folder, new or empty.
        num_nodes: By default one more than the highest node of an edge.
        directed: Keep the direction of edges; otherwise each counts in both directions.
        memory_limit: Bytes that sorting may take; the rest is sorted on disk.
    """
    if memory_limit < 1 << 20:
        raise BadInput(f"memory_limit is {memory_limit:,} bytes; give at least {1 << 20:,}")
    if num_nodes is not None and not 1 <= num_nodes <= MOST_NODES:
        raise BadInput(f"num_nodes is {num_nodes:,}; give 1 to {MOST_NODES:,}")
    with building_folder(Path(out)) as (folder, scratch):
        sorter = ExternalSort(scratch, memory_limit // ENTRY_BYTES[weighted], weighted=weighted)
        writer = GraphWriter(folder, sorter, num_nodes, directed, weighted, keep_self_loops)
        try:
            yield writer
            writer.finish(progress or (lambda stage, done, total: None))
            # From disk; the writer computed the SHA-256 of the same bytes there.
            graph = open_graph(folder)
            graph.check()
            writer.write_beside(graph)
        finally:
            writer.close()


@dataclass
class GraphWriter:
    """Take the edges of a graph, and features, labels, roles and ids of its nodes.

    Made by :func:`writing_graph`.

    Attributes:
        write_beside: Called with the complete graph before its folder appears; may add files.
    """

    _folder: Path
    _sorter: ExternalSort
    _num_nodes: int | None
    _directed: bool
    _weighted: bool
    _keep_self_loops: bool
    _highest: int = -1
    _num_added: int = 0
    _num_features: int = 0
    _num_classes: int | None = None
    _files: dict[str, ArrayFile] = field(default_factory=dict)
    write_beside: Callable[[StoredGraph], None] = lambda graph: None

    @property
    def _num_directions(self) -> int:
        return 1 if self._directed else 2

    def add_edges(
        self, source: NDArray[Any], target: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> None:
        """Add edges; repeated ones become one, with the mean of their weights.

        Args:
            weight: One per edge, 0 or more, if the graph has weights.

        Raises:
            BadInput: Naming the edge, and the node that does not exist or the wrong weight.
        """
        source, target = np.asarray(source), np.asarray(target)
        for end in (source, target):
            self._check_end(end, source.shape)
        weight = None if weight is None else np.asarray(weight, np.float32)
        self._check_weight(weight, len(source))
        self._num_added += len(source)
        if len(source):
            self._highest = max(self._highest, int(source.max()), int(target.max()))
        source, target = source.astype(np.uint64), target.astype(np.uint64)
        both = [(target << _HALF) | source, (source << _HALF) | target][: self._num_directions]
        # Side by side, so that the weights of both directions are added in the same order.
        keys = np.stack(both, axis=1).ravel()
        weight = None if weight is None else np.repeat(weight, self._num_directions)
        other = source != target
        if not other.all():
            keep = np.stack([other | self._keep_self_loops, other][: self._num_directions], axis=1)
            keys = keys[keep.ravel()]
            weight = None if weight is None else weight[keep.ravel()]
        self._sorter.add(keys, weight)

    def add_features(self, rows: NDArray[np.float32]) -> None:
        """Add dense features of the next nodes, ``[nodes, features]``."""
        self._num_features = rows.shape[1]
        self._append("features", rows, np.float32)

    def add_sparse_features(self, rows: sparse.csr_array) -> None:
        """Add sparse features of the next nodes, columns ascending in every row."""
        self._num_features = int(rows.shape[1])
        column = np.int32 if self._num_features < 2**31 else np.int64
        if "feature_values" not in self._files:
            self._append("feature_offsets", np.zeros(1), np.int64)
        values = self._append("feature_values", rows.data, np.float32)
        first = values.length - len(rows.data)
        self._append("feature_offsets", rows.indptr[1:].astype(np.int64) + first, np.int64)
        self._append("feature_columns", rows.indices, column)

    def set_labels(self, labels: NDArray[Any], num_classes: int) -> None:
        """Set the class of every node, -1 for unlabelled; or its number, a float, NaN if unknown.

        Args:
            num_classes: 1 for numbers.
        """
        self._num_classes = num_classes
        self._append("labels", labels, np.float32 if labels.dtype.kind == "f" else np.int64)

    def set_roles(self, roles: NDArray[np.int8]) -> None:
        """Set who trains, validates and tests, ``[splits, nodes]``."""
        self._append("roles", roles, np.int8)

    def set_ids(self, ids: Iterable[str]) -> None:
        """Set the id of every node."""
        self._append("id_offsets", np.zeros(1), np.int64)
        self._append("id_text", np.empty(0), np.uint8)
        for ends, text in encode_ids(ids):
            self._append("id_offsets", ends, np.int64)
            self._append("id_text", text, np.uint8)

    def set_preprocess(self, preprocess: Preprocess) -> None:
        """Set the names of classes and features."""
        write_json(self._folder / PREPROCESS, preprocess.to_json())

    def finish(self, progress: Progress) -> None:
        """Sort the edges and write ``graph.json``."""
        num_nodes = self._highest + 1 if self._num_nodes is None else self._num_nodes
        if num_nodes < 1:
            raise BadInput("there are no edges, so there are no nodes; give num_nodes")
        num_entries, num_self_loops = self._write_entries(num_nodes, progress)
        self._check_counts(num_nodes)
        files = {f"{name}.npy": file.finish() for name, file in self._files.items()}
        path = self._folder / PREPROCESS
        if path.exists():
            content, checksums = path.read_bytes(), BlockChecksums()
            checksums.update(content)
            files[PREPROCESS] = FileDescription(
                bytes=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                blocks=checksums.finish(),
            )
        page = Page(
            num_nodes=num_nodes,
            num_entries=num_entries,
            num_self_loops=num_self_loops,
            directed=self._directed,
            num_features=self._num_features,
            num_classes=self._num_classes,
            files=dict(sorted(files.items())),
        )
        write_json(self._folder / PAGE, add_checksum(page.model_dump(exclude={"sha256"})))

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()

    def _write_entries(self, num_nodes: int, progress: Progress) -> tuple[int, int]:
        """Write the sorted edges as a CSR matrix; return the entries and self-loops in it."""
        column = np.int32 if num_nodes < 2**31 else np.int64
        expected = self._num_added * self._num_directions
        num_entries = num_self_loops = next_row = 0

        def end_rows(rows: NDArray[np.int64], stop: int) -> int:
            for first in range(next_row, stop, OFFSETS_BLOCK):
                these = np.arange(first, min(first + OFFSETS_BLOCK, stop))
                ends = num_entries + np.searchsorted(rows, these, side="right")
                self._append("offsets", ends, np.int64)
            return max(next_row, stop)

        progress("sorting", 0, expected)
        self._append("offsets", np.zeros(1), np.int64)
        self._append("neighbours", np.empty(0), column)
        if self._weighted:
            self._append("weights", np.empty(0), np.float32)
        for keys, weights in self._sorter.sorted_blocks():
            rows, columns = (keys >> _HALF).view(np.int64), (keys & _LOW).view(np.int64)
            # The last row may continue in the next block, so its end is not known yet.
            next_row = end_rows(rows, int(rows[-1]))
            self._append("neighbours", columns, column)
            if weights is not None:
                self._append("weights", weights, np.float32)
            num_entries += len(keys)
            num_self_loops += int((rows == columns).sum())
            progress("sorting", num_entries, expected)
        end_rows(np.empty(0, np.int64), num_nodes)
        progress("sorting", expected, expected)
        return num_entries, num_self_loops

    def _append(self, name: str, rows: NDArray[Any], dtype: Any) -> ArrayFile:
        if name not in self._files:
            self._files[name] = ArrayFile(self._folder / f"{name}.npy", dtype, rows.shape[1:])
        self._files[name].append(rows)
        return self._files[name]

    def _check_end(self, end: NDArray[Any], shape: tuple[int, ...]) -> None:
        if end.shape != shape or end.ndim != 1 or end.dtype.kind not in "iu":
            raise BadInput(
                f"ends of edges are {end.dtype} {list(end.shape)}; give integers, as many targets "
                "as sources"
            )
        most = MOST_NODES if self._num_nodes is None else self._num_nodes
        if len(end) and (end.min() < 0 or end.max() >= most):
            at = int(np.flatnonzero((end < 0) | (end >= most))[0])
            raise BadInput(
                f"edge {self._num_added + at} ends in node {int(end[at])}, which does not exist; "
                f"nodes are numbered from 0 to {most - 1:,}"
            )

    def _check_weight(self, weight: NDArray[np.float32] | None, num_edges: int) -> None:
        if self._weighted != (weight is not None):
            raise BadInput(
                "some edges have weights and some have none; give every edge one, or none"
            )
        if weight is None:
            return
        if weight.shape != (num_edges,):
            raise BadInput(f"weights are {list(weight.shape)} for {num_edges} edges; give each one")
        wrong = np.flatnonzero(~((weight >= 0) & (weight <= MOST_WEIGHT)))
        if len(wrong):
            at = int(wrong[0])
            raise BadInput(
                f"edge {self._num_added + at} weighs {float(weight[at])}; weights are finite, not "
                f"negative and at most {MOST_WEIGHT:g}"
            )

    def _check_counts(self, num_nodes: int) -> None:
        counts = {
            name: file.shape[1] if name == "roles" else file.length - name.endswith("_offsets")
            for name, file in self._files.items()
            if name in ("features", "feature_offsets", "labels", "roles", "id_offsets")
        }
        for name, count in counts.items():
            if count != num_nodes:
                what = {"feature_offsets": "features", "id_offsets": "ids"}.get(name, name)
                raise BadInput(
                    f"{what} are given for {count:,} nodes, but there are {num_nodes:,}; give "
                    "them for every node"
                )
