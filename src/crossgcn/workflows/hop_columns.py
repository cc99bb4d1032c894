"""Columns of ``crossgcn hops`` in one Parquet file, from which a graph folder can be made again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from crossgcn.data.files import one_at_a_time, replacing
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import add_checksum, checksum_matches
from crossgcn.data.stored.format import check_free_space
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.data.stored.write import GraphWriter, writing_graph
from crossgcn.data.tables.frames import reporting_damage
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.kept_columns import columns_beside
from crossgcn.graph.neighbourhood import Smoothing

if TYPE_CHECKING:
    import pyarrow as pa

KEY, VERSION = b"crossgcn", 1
"""Where the schema of a file says what the columns are."""

GROUP_BYTES = 64 << 20
"""Rows that are in memory at once: a row group of the file."""

_ROLES = ("train", "validation", "test")
_REMEDY = "write it again: crossgcn hops ... --parquet FILE"


@dataclass(frozen=True)
class HopFile:
    """What the schema of a file says: all of a graph folder that is no row.

    Attributes:
        page: The description of the columns in the folder: the graph's fingerprint, the number
            of hops, the checksum, and the smoothing.
        weighted: Whether edges have weights.
    """

    page: dict[str, Any]
    preprocess: Preprocess
    weighted: bool

    @classmethod
    def read(cls, description: bytes) -> HopFile:
        """Read what :meth:`schema` wrote."""
        content = json.loads(description)
        if content["version"] != VERSION or not checksum_matches(content):
            raise ValueError(f"version {content['version']!r}, or its checksum is another one")
        preprocess = Preprocess.from_json(content["preprocess"])
        return cls(content["page"], preprocess, content["weighted"])

    @property
    def plan(self) -> HopPlan:
        """Which columns there are."""
        assert self.preprocess.space is not None
        of = self.page["identity"]
        return HopPlan(len(self.preprocess.space), of["hops"], directed=of["directed"])

    @property
    def smoothing(self) -> Smoothing:
        """How the means are smoothed."""
        prior, strength = (torch.tensor(self.page[name]) for name in Smoothing._fields)
        return Smoothing(prior.float(), strength.float())

    @property
    def table(self) -> dict[str, Any]:
        """What the columns of the table of nodes were."""
        assert self.preprocess.encoding is not None
        plan: dict[str, Any] = self.preprocess.encoding["plan"]
        return plan

    def schema(self) -> pa.Schema:
        """Return names and types: id, target and split, columns, and rows of neighbours."""
        import pyarrow as pa

        def required(name: str, kind: pa.DataType) -> pa.Field:
            return pa.field(name, kind, nullable=False)

        assert self.preprocess.space is not None
        table, names = self.table, self.preprocess.space.names
        fields = [required(table["id_column"], pa.string())]
        if table["target"] is not None:
            is_number = table["task"] == "regression"
            fields.append(pa.field(table["target"], pa.float32() if is_number else pa.string()))
        if table["split_column"] is not None:
            fields.append(pa.field(table["split_column"], pa.string()))
        columns = self.plan.name_columns(names, relation=table["relation"])
        fields += [required(name, pa.float32()) for name in columns]
        row = pa.int32() if self.page["shape"][0] < 2**31 else pa.int64()
        fields.append(required("rows of neighbours", pa.list_(required("item", row))))
        if self.weighted:
            kind = pa.list_(required("item", pa.float32()))
            fields.append(required("weights of neighbours", kind))
        content = {"version": VERSION, "page": self.page, "weighted": self.weighted}
        content["preprocess"] = self.preprocess.to_json()
        return pa.schema(fields, {KEY: json.dumps(add_checksum(content))})


def write_hop_file(path: Path, graph: StoredGraph, columns: Tensor, page: dict[str, Any]) -> None:
    """Write a graph and its columns to a file, one row per node, some rows at a time.

    Args:
        page: What :meth:`~crossgcn.graph.kept_columns.KeptRows.write` returned.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert graph.preprocess is not None and graph.ids is not None
    file = HopFile(page, graph.preprocess, graph.weights is not None)
    schema, offsets, first = file.schema(), graph.offsets.numpy(), 0
    lists = [graph.neighbours.numpy(), *([] if graph.weights is None else [graph.weights.numpy()])]
    try:
        with (
            replacing(path) as out,
            pq.ParquetWriter(out, schema, write_page_checksum=True) as to,
        ):
            while first < graph.num_nodes:
                most = np.searchsorted(offsets, offsets[first] + GROUP_BYTES // 8, "right") - 1
                last = min(first + GROUP_BYTES // (4 * columns.size(1)), int(most))
                rows = slice(first, max(first + 1, min(last, graph.num_nodes)))
                arrays = [pa.array(graph.ids[rows], pa.string())]
                if file.table["target"] is not None:
                    arrays.append(_named(graph.labels[rows].numpy(), file.preprocess.classes))
                if graph.roles is not None:
                    arrays.append(_named(graph.roles[0, rows].numpy() - 1, _ROLES))
                arrays += [pa.array(column.copy()) for column in columns[rows].numpy().T]
                start, *_, end = ends = offsets[rows.start : rows.stop + 1]
                arrays += [
                    pa.ListArray.from_arrays((ends - start).astype(np.int32), each[start:end])
                    for each in lists
                ]
                arrays = [each.cast(field.type) for each, field in zip(arrays, schema, strict=True)]
                to.write_batch(pa.record_batch(arrays, schema=schema))
                first = rows.stop
    except OSError as error:
        raise WorkFailed(f"{path}: could not be written ({error.strerror or error})") from error


def _named(codes: NDArray[Any], names: tuple[str, ...]) -> pa.Array:
    """Return the name of each code, and none for -1; numbers stay as they are."""
    import pyarrow as pa

    if codes.dtype.kind == "f":
        return pa.array(codes)
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def _coded(cells: pa.Array, names: tuple[str, ...]) -> NDArray[Any]:
    """Return the codes that :func:`_named` has named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(cells.type):
        return cells.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    found = pc.index_in(cells, value_set=pa.array(names, pa.string()), skip_nulls=True)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def find_description(path: Path) -> bytes | None:
    """Return what the schema of a Parquet file says of columns; ``None`` if it has none of ours."""
    if not path.is_file():
        return None
    with reporting_damage(str(path)), path.open("rb") as file:
        import pyarrow.parquet as pq

        found = pq.ParquetFile(file).schema_arrow.metadata or {}
        return found.get(KEY)


def import_hop_file(path: Path, out: Path) -> StoredGraph:
    """Make the graph folder with its columns again, one row group at a time.

    Raises:
        BadInput: The file is not as ``crossgcn hops`` wrote it.
    """
    file = read_hop_file(path)
    plan, (num_nodes, num_columns) = file.plan, file.page["shape"]
    check_free_space(out, 4 * num_nodes * num_columns + path.stat().st_size)
    with writing_graph(
        out, num_nodes=num_nodes, directed=plan.directed, weighted=file.weighted
    ) as writer:
        writer.set_preprocess(file.preprocess)
        writer.set_ids(_add_rows(path, file, writer))

        def fill(out: Tensor) -> Smoothing:
            for first, _, columns, _ in _batches(path, file):
                out[first : first + len(columns)] = torch.from_numpy(columns)
            return file.smoothing

        def store_columns(graph: StoredGraph) -> None:
            if columns_beside(graph, plan).write(fill) != file.page:
                raise BadInput(f"{path}: a cell was changed after it was written; {_REMEDY}")

        writer.write_beside = store_columns
    return open_graph(out)


def store_beside(path: Path) -> StoredGraph:
    """Return the graph folder of a file, which is made beside it on first use.

    The folder is named after the content of the file. Of processes that are started together, one
    makes it and the others wait.
    """
    with one_at_a_time(path), path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        folder = path.with_name(f"{path.stem}-{digest[:16]}.graph")
        if not folder.exists():
            if not os.access(folder.parent, os.W_OK):
                raise BadInput(
                    f"{folder.parent}: cannot be written to, and a graph folder is made there of "
                    f"{path.name}; copy or link the file into another folder"
                )
            import_hop_file(path, folder)
    return open_graph(folder)


def training_settings(graph: StoredGraph, hops: int) -> dict[str, Any]:
    """Return the settings of a training that reads the columns in a graph folder."""
    settings = {"model": "cross-hops", "splits": "stratified" if graph.roles is None else "public"}
    return settings | ({} if hops == HopPlan.hops else {"hops": hops})


def read_hop_file(path: Path) -> HopFile:
    """Read what the columns of a file are, and refuse one that lacks a column or rows."""
    import pyarrow.parquet as pq

    description = find_description(path)
    if description is None:
        raise BadInput(f"{path}: holds no columns of crossgcn hops; {_REMEDY}")
    try:
        file = HopFile.read(description)
        wanted, (num_rows, _), _ = file.schema(), file.page["shape"], file.smoothing
    except Exception as error:  # a text that was made up can raise any error
        raise BadInput(f"{path}: the text on its columns is damaged ({error}); {_REMEDY}") from None
    with reporting_damage(str(path)), path.open("rb") as content:
        parquet = pq.ParquetFile(content)
        schema, found = parquet.schema_arrow, parquet.metadata.num_rows
    for place, pair in enumerate(zip_longest(wanted, schema), start=1):
        if any(each is None for each in pair) or not pair[0].equals(pair[1]):
            was, now = ("none" if each is None else f"{each.name!r}, {each.type}," for each in pair)
            raise BadInput(
                f"{path}: column {place} was {was} and is {now} so a column was removed, added or "
                f"changed; {_REMEDY}"
            )
    if found != num_rows:
        raise BadInput(f"{path}: has {found:,} rows where {num_rows:,} were written; {_REMEDY}")
    return file


def _batches(
    path: Path, file: HopFile
) -> Iterator[tuple[int, list[pa.Array], Any, list[pa.Array]]]:
    """Read a file one row group at a time; refuse a number that is not finite.

    Yields:
        The number of the first row; ids, target and split; the columns; lists of neighbours.
    """
    import pyarrow.parquet as pq

    first, width, num_lists = 0, file.plan.num_columns, 1 + file.weighted
    with path.open("rb") as content:
        with reporting_damage(str(path)):
            parquet = pq.ParquetFile(content, page_checksum_verification=True)
        for group in range(parquet.num_row_groups):
            with reporting_damage(str(path), f" after row {first:,}"):
                batches = parquet.read_row_group(group).to_batches()
            for batch in batches:
                cells, start = batch.columns, batch.num_columns - width - num_lists
                columns = np.column_stack([each.to_numpy() for each in cells[start:-num_lists]])
                for row, column in np.argwhere(~np.isfinite(columns)):
                    name, value = batch.schema.names[start + column], columns[row, column]
                    raise BadInput(
                        f"{path}, row {first + row + 1}, column {name}: {value} is not a finite "
                        f"number; {_REMEDY}"
                    )
                yield first, cells[:start], columns, cells[-num_lists:]
                first += len(batch)


def _add_rows(path: Path, file: HopFile, writer: GraphWriter) -> Iterator[str]:
    """Add features, labels, roles and edges of all rows; yield the ids."""
    roles, classes = [], file.preprocess.classes
    for first, (ids, *named), columns, (near, *weights) in _batches(path, file):
        own = columns[:, : file.plan.num_features]
        writer.add_sparse_features(sparse.csr_array(own))
        if file.table["target"] is not None:
            writer.set_labels(_coded(named[0], classes), len(classes))
        if file.table["split_column"] is not None:
            roles.append(_coded(named[-1], _ROLES) + 1)
        counts = np.diff(near.offsets.to_numpy())
        target = np.repeat(np.arange(first, first + len(counts)), counts)
        source = near.flatten().to_numpy()
        once = slice(None) if file.plan.directed else source < target
        of_edges = [each.flatten().to_numpy()[once] for each in weights]
        writer.add_edges(source[once], target[once], *of_edges)
        yield from ids.to_pylist()
    if roles:
        writer.set_roles(np.concatenate(roles)[None])
