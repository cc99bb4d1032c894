"""The Parquet file of ``crossgcn hops``: the columns of every node and its neighbourhood, by name.

A row is a node: its id, target and split, its columns, and the rows of its neighbours. The schema
says how the tables were encoded, so a model that is trained on the file scores new rows of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.files import replacing
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.tables.graph import TableGraph, read_encoding
from crossgcn.data.tables.read import reporting_damage
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.neighbourhood import Smoothing

KEY, CHECKSUM, VERSION = b"crossgcn", b"crossgcn sha256", 2
"""Where the schema of a file says what the columns are."""

_NEIGHBOURS, _WEIGHTS = "rows of neighbours", "weights of neighbours"
_ROLES = ("train", "validation", "test")
_REMEDY = "write it again: crossgcn hops NODES EDGES --out FILE.parquet"


@dataclass(frozen=True)
class HopFile:
    """What the schema of a file says.

    Attributes:
        smoothing: How the means over neighbours are smoothed.
        preprocess: Names of classes and features, and how the tables are encoded.
        weighted: Whether edges have weights.
    """

    num_nodes: int
    plan: HopPlan
    smoothing: Smoothing
    preprocess: Preprocess
    weighted: bool

    @property
    def table(self) -> dict[str, Any]:
        """What the columns of the table of nodes were."""
        assert self.preprocess.encoding is not None
        plan: dict[str, Any] = self.preprocess.encoding["plan"]
        return plan

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, and their description."""
        assert self.preprocess.space is not None
        table, names = self.table, self.preprocess.space.names
        fields = [pa.field(table["id_column"], pa.string(), nullable=False)]
        if table["target"] is not None:
            is_number = table["task"] == "regression"
            fields.append(pa.field(table["target"], pa.float32() if is_number else pa.string()))
        if table["split_column"] is not None:
            fields.append(pa.field(table["split_column"], pa.string()))
        columns = self.plan.name_columns(names, relation=table["relation"])
        fields += [pa.field(name, pa.float32(), nullable=False) for name in columns]
        row = pa.int32() if self.num_nodes < 2**31 else pa.int64()
        lists = {_NEIGHBOURS: row} | ({_WEIGHTS: pa.float32()} if self.weighted else {})
        fields += [pa.field(name, pa.list_(kind), nullable=False) for name, kind in lists.items()]
        content = {
            "version": VERSION,
            "nodes": self.num_nodes,
            "hops": self.plan.hops,
            "directed": self.plan.directed,
            "weighted": self.weighted,
            **{name: each.tolist() for name, each in self.smoothing._asdict().items()},
            "preprocess": self.preprocess.to_json(),
        }
        description = json.dumps(content).encode()
        checksum = hashlib.sha256(description).hexdigest()
        return pa.schema(fields, {KEY: description, CHECKSUM: checksum})

    @classmethod
    def of_schema(cls, metadata: dict[bytes, bytes]) -> HopFile:
        """Read the description in a schema."""
        description = metadata[KEY]
        if hashlib.sha256(description).hexdigest().encode() != metadata.get(CHECKSUM):
            raise ValueError("its checksum is another one")
        content = json.loads(description)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r}")
        preprocess = Preprocess.from_json(content["preprocess"])
        assert preprocess.space is not None
        plan = HopPlan(len(preprocess.space), content["hops"], directed=content["directed"])
        smoothing = Smoothing(*(torch.tensor(content[name]) for name in Smoothing._fields))
        return cls(content["nodes"], plan, smoothing, preprocess, content["weighted"])


@dataclass(frozen=True, kw_only=True)
class HopTable(TableGraph):
    """The graph of a file, with its columns.

    Attributes:
        columns: As they are in the file.
        path: Of the file.
    """

    columns: HopColumns
    path: Path


def write_hop_file(path: Path, file: HopFile, rows: Iterator[list[pa.Array]]) -> None:
    """Write a file; ``rows`` yields all columns of the schema, for some nodes at a time."""
    schema = file.schema
    try:
        with (
            replacing(path) as out,
            pq.ParquetWriter(out, schema, write_page_checksum=True) as to,
        ):
            for columns in rows:
                cast = [each.cast(field.type) for each, field in zip(columns, schema, strict=True)]
                to.write_batch(pa.record_batch(cast, schema=schema))
    except OSError as error:
        raise WorkFailed(f"{path}: could not be written ({error.strerror or error})") from error


def named_classes(codes: NDArray[Any], names: tuple[str, ...]) -> pa.Array:
    """Return the name of each code, and none for -1; numbers stay as they are."""
    if codes.dtype.kind == "f":
        return pa.array(codes)
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def named_roles(roles: NDArray[np.int8]) -> pa.Array:
    """Return the name of each role, and none for 0."""
    return named_classes(roles - 1, _ROLES)


def is_hop_file(path: str | Path | None) -> bool:
    """Whether a file is one that ``crossgcn hops`` wrote."""
    if path is None or not str(path).lower().endswith((".parquet", ".pq")):
        return False
    path = Path(path)
    if not path.is_file():
        return False
    with reporting_damage(str(path)), path.open("rb") as file:
        return KEY in (pq.ParquetFile(file).schema_arrow.metadata or {})


def read_hop_file(path: Path) -> HopTable:
    """Read the columns, the edges and the labels of a file that ``crossgcn hops`` wrote.

    Rows are read one row group at a time into one matrix.

    Raises:
        BadInput: The file is not as ``crossgcn hops`` wrote it, or memory is too small for it.
    """
    with path.open("rb") as content:
        with reporting_damage(str(path)):
            parquet = pq.ParquetFile(content, page_checksum_verification=True)
        file = _read_description(path, parquet)
        _check_memory(path, parquet, file)
        return _read_rows(path, parquet, file)


def _read_description(path: Path, parquet: pq.ParquetFile) -> HopFile:
    """Return what the schema says; refuse a file that lacks a column or rows."""
    found = parquet.schema_arrow
    if KEY not in (found.metadata or {}):
        raise BadInput(f"{path}: holds no columns of crossgcn hops; {_REMEDY}")
    try:
        file = HopFile.of_schema(found.metadata)
        wanted = file.schema
        read_encoding(file.preprocess)
    except Exception as error:  # a text that was made up can raise any error
        raise BadInput(f"{path}: the text on its columns is damaged ({error}); {_REMEDY}") from None
    for place, pair in enumerate(zip_longest(wanted, found), start=1):
        if any(each is None for each in pair) or not pair[0].equals(pair[1]):
            was, now = ("none" if each is None else f"{each.name!r}, {each.type}," for each in pair)
            raise BadInput(
                f"{path}: column {place} was {was} and is {now} so a column was removed, added or "
                f"changed; {_REMEDY}"
            )
    num_rows = parquet.metadata.num_rows
    if num_rows != file.num_nodes:
        raise BadInput(
            f"{path}: has {num_rows:,} rows where {file.num_nodes:,} were written; {_REMEDY}"
        )
    return file


def _check_memory(path: Path, parquet: pq.ParquetFile, file: HopFile) -> None:
    """Refuse a file whose columns and edges need more than the machine's memory."""
    if not hasattr(os, "sysconf"):
        return
    lists = parquet.schema_arrow.names.index(_NEIGHBOURS)
    groups = range(parquet.num_row_groups)
    entries = sum(parquet.metadata.row_group(each).column(lists).num_values for each in groups)
    needed = 4 * file.num_nodes * file.plan.num_columns + 16 * entries
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise BadInput(
            f"{path}: its columns and edges take {needed / 2**30:.1f} GiB, and this machine has "
            f"{there / 2**30:.1f} GiB of memory; use another, or write fewer columns (crossgcn "
            "hops --hops 1, --ignore COLUMN)"
        )


def _read_rows(path: Path, parquet: pq.ParquetFile, file: HopFile) -> HopTable:
    columns = torch.empty(file.num_nodes, file.plan.num_columns)
    named: list[list[pa.Array]] = []
    lists: list[list[pa.Array]] = []
    first, num_lists = 0, 1 + file.weighted
    for group in range(parquet.num_row_groups):
        with reporting_damage(str(path)):
            batches = parquet.read_row_group(group).to_batches()
        for batch in batches:
            cells, start = batch.columns, batch.num_columns - columns.size(1) - num_lists
            rows = np.column_stack([each.to_numpy() for each in cells[start:-num_lists]])
            for row, column in np.argwhere(~np.isfinite(rows)):
                name, value = batch.schema.names[start + column], rows[row, column]
                raise BadInput(
                    f"{path}, row {first + row + 1}, column {name}: {value} is not a finite "
                    f"number; {_REMEDY}"
                )
            columns[first : first + len(batch)] = torch.from_numpy(rows)
            named.append(cells[:start])
            lists.append(cells[-num_lists:])
            first += len(batch)
    ids, *others = (pa.concat_arrays(parts) for parts in zip(*named, strict=True))
    near, *weights = (pa.concat_arrays(parts) for parts in zip(*lists, strict=True))
    encoder, plan = read_encoding(file.preprocess)
    classes, names = file.preprocess.classes, iter(others)
    y = torch.full((file.num_nodes,), -1)
    if file.table["target"] is not None:
        y = torch.from_numpy(_codes(next(names), classes))
    roles = None
    if file.table["split_column"] is not None:
        roles = torch.from_numpy((_codes(next(names), _ROLES) + 1).astype(np.int8)).unsqueeze(0)
    data = Data(
        x=columns[:, : file.plan.num_features],
        edge_index=_ends(path, near, file),
        edge_weight=torch.from_numpy(weights[0].flatten().to_numpy().copy()) if weights else None,
        y=y,
        num_classes=len(classes),
        name=str(path),
        roles=roles,
    )
    if file.plan.directed:
        data.directed = True
    found = HopColumns.computed(
        columns, file.plan, file.smoothing, data.edge_index, data.get("edge_weight")
    )
    known = tuple(ids.to_pylist())
    return HopTable(data, known, classes, encoder, plan, (), columns=found, path=path)


def _ends(path: Path, near: pa.Array, file: HopFile) -> torch.Tensor:
    """Return sources and targets of all edges, in the order of a canonical graph."""
    neighbours = near.flatten().to_numpy().astype(np.int64)
    counts = np.diff(near.offsets.to_numpy())
    if len(neighbours) and not 0 <= neighbours.min() <= neighbours.max() < file.num_nodes:
        raise BadInput(f"{path}, column {_NEIGHBOURS}: holds a row that does not exist; {_REMEDY}")
    nodes = np.repeat(np.arange(file.num_nodes), counts)
    ends = (neighbours, nodes) if file.plan.directed else (nodes, neighbours)
    return torch.from_numpy(np.stack(ends))


def _codes(cells: pa.Array, names: tuple[str, ...]) -> NDArray[Any]:
    """Return the codes of classes or roles; numbers stay as they are."""
    if pa.types.is_floating(cells.type):
        return np.array(cells.to_numpy(zero_copy_only=False))
    found = pc.index_in(cells, value_set=pa.array(names, pa.string()), skip_nulls=True)
    codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return np.asarray(codes, np.int64)
