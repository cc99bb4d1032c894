"""Writing a graph folder, edges in any order and any number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.files import digest_of_file, sealed, write_json
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.external_sort import ENTRY_BYTES, KeyPile
from crossgcn.data.stored.format import (
    FORMAT,
    PAGE,
    PREPROCESS,
    VERSION,
    ArrayFile,
    building_folder,
    fingerprint_of,
)
from crossgcn.data.stored.open import encode_ids
from crossgcn.errors import BadInput

MOST_NODES = 2**32
"""Both ends of an edge make one key of 64 bits."""


def check_ends(
    source: NDArray[Any], target: NDArray[Any], num_nodes: int | None, before: int
) -> None:
    """Refuse ends that are no nodes.

    Args:
        source: First ends.
        target: Second ends.
        num_nodes: How many nodes there are, where that is known.
        before: Edges that came before these.

    Raises:
        BadInput: Naming the edge and the node.
    """
    most = MOST_NODES if num_nodes is None else num_nodes
    for end in (source, target):
        if end.shape != source.shape or end.ndim != 1 or end.dtype.kind not in "iu":
            raise BadInput(
                f"ends of edges are {end.dtype} {list(end.shape)}; give integers, as many targets "
                "as sources"
            )
        if not len(end) or (end.min() >= 0 and end.max() < most):
            continue
        at = int(np.flatnonzero((end < 0) | (end >= most))[0])
        raise BadInput(
            f"edge {before + at} ends in node {int(end[at])}, which does not exist; "
            f"nodes are numbered from 0 to {most - 1:,}"
        )


def check_weight(
    weight: NDArray[np.float32] | None, weighted: bool, num_edges: int, before: int
) -> None:
    """Refuse weights that are none.

    Args:
        weight: Of each edge, if they have any.
        weighted: Whether they should.
        num_edges: How many edges there are.
        before: Edges that came before these.

    Raises:
        BadInput: Naming the edge and its weight.
    """
    if weighted != (weight is not None):
        raise BadInput("some edges have weights and some have none; give every edge one, or none")
    if weight is None:
        return
    if weight.shape != (num_edges,):
        raise BadInput(f"weights are {list(weight.shape)} for {num_edges} edges; give each one")
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(
            f"edge {before + at} weighs {float(weight[at])}; weights are finite and not negative"
        )


_HALF_WORD, _LOW = np.uint64(32), np.uint64(2**32 - 1)
BLOCK = 1 << 20
"""Rows whose ends are written at once."""


class EntryWriter:
    """Takes entries in order of row and column, and writes where every row ends.

    Args:
        num_rows: Of the matrix, empty ones included.
        offsets: Where each row starts.
        columns: Column of each entry.
        weights: Of each entry, if there are any.
    """

    def __init__(
        self, num_rows: int, offsets: ArrayFile, columns: ArrayFile, weights: ArrayFile | None
    ) -> None:
        self.num_entries = 0
        self.num_self_loops = 0
        self._num_rows = num_rows
        self._offsets = offsets
        self._columns = columns
        self._weights = weights
        self._row = 0
        offsets.append(np.zeros(1, np.int64))

    def append(self, keys: NDArray[np.uint64], weights: NDArray[np.float64] | None) -> None:
        """Add entries.

        Args:
            keys: Row in the upper half, column in the lower, above all that came before.
            weights: One per key.
        """
        rows, columns = (keys >> _HALF_WORD).view(np.int64), (keys & _LOW).view(np.int64)
        self.num_self_loops += int((rows == columns).sum())
        # The last row may go on in the next block, so its end is not known yet.
        self._end_rows(rows, int(rows[-1]))
        self._columns.append(columns)
        if self._weights is not None and weights is not None:
            self._weights.append(weights)
        self.num_entries += len(keys)

    def finish(self) -> None:
        """Say where the remaining rows end."""
        self._end_rows(np.empty(0, np.int64), self._num_rows)

    def _end_rows(self, rows: NDArray[np.int64], stop: int) -> None:
        for first in range(self._row, stop, BLOCK):
            these = np.arange(first, min(first + BLOCK, stop))
            self._offsets.append(self.num_entries + np.searchsorted(rows, these, side="right"))
        self._row = max(self._row, stop)


MEMORY_LIMIT = 1 << 28
"""Bytes that sorting may take, unless told otherwise."""

_HALF = np.uint64(32)

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and of how much, if that is known."""


class GraphWriter:
    """What :func:`writing_graph` hands out: takes edges, and what is known of nodes.

    Args:
        folder: To be filled.
        scratch: For files needed meanwhile.
        num_nodes: How many nodes there are; one more than the highest in an edge if left out.
        directed: Keep edges as they are: an edge is an entry of its second end alone.
        weighted: Whether edges bring weights.
        keep_self_loops: Keep edges from a node to itself.
        memory_limit: Bytes that sorting may take.
        progress: Told how far the sorting is.
    """

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        *,
        num_nodes: int | None,
        directed: bool,
        weighted: bool,
        keep_self_loops: bool,
        memory_limit: int,
        progress: Progress,
    ) -> None:
        if num_nodes is not None and not 1 <= num_nodes <= MOST_NODES:
            raise BadInput(f"num_nodes is {num_nodes:,}; give 1 to {MOST_NODES:,}")
        self.num_nodes = num_nodes
        self.weighted = weighted
        self._folder = folder
        self._directed = directed
        self._keep_self_loops = keep_self_loops
        self._progress = progress
        self._highest = -1
        self._added = 0
        self._open: dict[str, ArrayFile] = {}
        self._facts: dict[str, Any] = {"num_features": 0, "num_classes": None}
        limits = None if num_nodes is None else (0, num_nodes << 32)
        most = memory_limit // ENTRY_BYTES[weighted]
        self._pile = KeyPile(scratch, most, weighted=weighted, limits=limits)

    def add_edges(
        self,
        source: NDArray[Any],
        target: NDArray[Any],
        weight: NDArray[Any] | None = None,
    ) -> None:
        """Add edges; repeated ones become one, which weighs the mean of their weights.

        Args:
            source: First ends, integers from 0.
            target: Second ends.
            weight: One per edge, 0 or more, if the graph has weights.

        Raises:
            BadInput: Naming the edge, and the node that does not exist or the wrong weight.
        """
        source, target = np.asarray(source), np.asarray(target)
        weight = None if weight is None else np.asarray(weight, np.float32)
        check_ends(source, target, self.num_nodes, self._added)
        check_weight(weight, self.weighted, len(source), self._added)
        ends = [end.astype(np.uint64) for end in (source, target)]
        self._added += len(source)
        if len(source):
            self._highest = max(self._highest, *(int(end.max()) for end in ends))
        loops = ends[0] == ends[1]
        if not self._keep_self_loops and loops.any():
            ends = [end[~loops] for end in ends]
            weight = None if weight is None else weight[~loops]
            loops = loops[~loops]
        keys = (ends[1] << _HALF) | ends[0]
        if not self._directed:
            # One after the other, so that the weights of both are added in the same order.
            both = np.stack([keys, (ends[0] << _HALF) | ends[1]], axis=1)
            keep = np.stack([np.ones_like(loops), ~loops], axis=1)
            weight = None if weight is None else np.repeat(weight, 2)[keep.ravel()]
            keys = both[keep] if loops.any() else both.ravel()
        self._pile.add(keys, weight)

    def add_features(self, rows: NDArray[np.float32]) -> None:
        """Add the dense features of the next nodes, ``[nodes, features]``."""
        self._facts["num_features"] = rows.shape[1]
        self._file("features", np.float32, (rows.shape[1],)).append(rows)

    def add_sparse_features(self, rows: sparse.csr_array) -> None:
        """Add the sparse features of the next nodes, columns rising in every row."""
        num_features = int(rows.shape[1])
        self._facts["num_features"] = num_features
        column = np.int32 if num_features < 2**31 else np.int64
        offsets = self._file("feature_offsets", np.int64)
        if offsets.length == 0:
            offsets.append(np.zeros(1, np.int64))
        values = self._file("feature_values", np.float32)
        offsets.append(rows.indptr[1:].astype(np.int64) + values.length)
        self._file("feature_columns", column).append(rows.indices)
        values.append(rows.data)

    def set_labels(self, labels: NDArray[np.int64], num_classes: int) -> None:
        """Say the class of every node, -1 where it has none."""
        self._facts["num_classes"] = num_classes
        self._file("labels", np.int64).append(labels)

    def set_roles(self, roles: NDArray[np.int8]) -> None:
        """Say who trains, validates and tests, ``[splits, nodes]``."""
        self._file("roles", np.int8, (roles.shape[1],)).append(roles)

    def set_ids(self, ids: Sequence[str]) -> None:
        """Say every node's own name."""
        offsets, text = self._file("id_offsets", np.int64), self._file("id_text", np.uint8)
        offsets.append(np.zeros(1, np.int64))
        for ends, piece in encode_ids(ids):
            offsets.append(ends)
            text.append(piece)

    def set_preprocess(self, preprocess: Preprocess) -> None:
        """Name classes and features."""
        write_json(self._folder / PREPROCESS, preprocess.to_json())

    def finish(self) -> None:
        """Sort what was added, and write the page."""
        if self.num_nodes is None:
            self.num_nodes = self._highest + 1
        if self.num_nodes < 1:
            raise BadInput("there are no edges, so there are no nodes; say how many there are")
        index = np.int32 if self.num_nodes < 2**31 else np.int64
        entries = EntryWriter(
            self.num_nodes,
            self._file("offsets", np.int64),
            self._file("neighbours", index),
            self._file("weights", np.float32) if self.weighted else None,
        )
        expected = self._added * (1 if self._directed else 2)
        self._progress("sorting", 0, expected)
        for keys, weights in self._pile.drain():
            entries.append(keys, weights)
            self._progress("sorting", entries.num_entries, expected)
        entries.finish()
        self._progress("sorting", expected, expected)
        self._check_counts()
        files = {f"{name}.npy": file.close() for name, file in self._open.items()}
        path = self._folder / PREPROCESS
        if path.exists():
            files[PREPROCESS] = {"bytes": path.stat().st_size, "sha256": digest_of_file(path)}
        files = dict(sorted(files.items()))
        page = {
            "format": FORMAT,
            "version": VERSION,
            "num_nodes": self.num_nodes,
            "num_entries": entries.num_entries,
            "num_self_loops": entries.num_self_loops,
            "directed": self._directed,
            **self._facts,
            "files": files,
            "fingerprint": fingerprint_of(files),
        }
        write_json(self._folder / PAGE, sealed(page))

    def abandon(self) -> None:
        """Close every file."""
        for file in self._open.values():
            file.abandon()

    def _file(self, name: str, dtype: Any, row_shape: tuple[int, ...] = ()) -> ArrayFile:
        if name not in self._open:
            self._open[name] = ArrayFile(self._folder / f"{name}.npy", dtype, row_shape)
        return self._open[name]

    def _check_counts(self) -> None:
        arrays = (("features", 0), ("feature_offsets", 1), ("labels", 0), ("id_offsets", 1))
        for name, more in arrays:
            file = self._open.get(name)
            if file is not None and file.length != self.num_nodes + more:  # type: ignore[operator]
                raise BadInput(
                    f"{name} are given for {file.length - more:,} nodes, but there are "
                    f"{self.num_nodes:,}; give them for every node"
                )
        roles = self._open.get("roles")
        if roles is not None and roles.shape[1] != self.num_nodes:
            raise BadInput(
                f"roles are given for {roles.shape[1]:,} nodes, but there are {self.num_nodes:,}; "
                "give every node one"
            )


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
    """Make a graph folder; it is there when the block ends well, and not at all otherwise.

    Args:
        out: The folder, new or empty.
        num_nodes: How many nodes there are; one more than the highest in an edge if left out.
        directed: Keep edges as they are; otherwise each counts in both directions.
        weighted: Whether edges bring weights.
        keep_self_loops: Keep edges from a node to itself.
        memory_limit: Bytes that sorting may take, though never less than about 32 MiB; what
            does not fit is sorted on disk.
        progress: Told what is being done, how much of it is done, and of how much.
    """
    if memory_limit < 1 << 20:
        raise BadInput(f"memory_limit is {memory_limit:,} bytes; give at least {1 << 20:,}")
    with building_folder(Path(out)) as (folder, scratch):
        writer = GraphWriter(
            folder,
            scratch,
            num_nodes=num_nodes,
            directed=directed,
            weighted=weighted,
            keep_self_loops=keep_self_loops,
            memory_limit=memory_limit,
            progress=progress or (lambda what, done, total: None),
        )
        try:
            yield writer
            writer.finish()
        finally:
            writer.abandon()
