"""The Parquet file of ``crossgcn hops``: the columns of every node and its neighbourhood, by name.

A row is a node: its id, target and split, its columns, and the rows of its neighbours. The schema
says how the tables were encoded, so a model that is trained on the file scores new rows of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.engines.connect import Location
from crossgcn.data.engines.tables import load_engine_tables
from crossgcn.data.features import Preprocess
from crossgcn.data.files import replacing
from crossgcn.data.graph import ROLE_NAMES
from crossgcn.data.tables.graph import TableGraph, describe_encoding, read_encoding
from crossgcn.data.tables.plan import TableChoices
from crossgcn.data.tables.read import PARQUET, reporting_damage
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.neighbourhood import Smoothing

KEY, CHECKSUM = b"crossgcn", b"crossgcn sha256"
"""Where the schema of a file says what the columns are."""

GROUP_BYTES = 64 << 20
"""Columns that are copied at once: a row group of the file."""

_VERSION, _NEIGHBOURS, _WEIGHTS = 3, "rows of neighbours", "weights of neighbours"
_REMEDY = "write it again: crossgcn hops NODES EDGES --out FILE.parquet"


@dataclass(frozen=True, kw_only=True)
class HopTable(TableGraph):
    """The graph of a file, with its columns.

    Attributes:
        columns: As they are in the file.
        path: Of the file.
    """

    columns: HopColumns
    path: Path


def write_hops(
    nodes: str,
    edges: str,
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    hops: int = 2,
    directed: bool = False,
    memory_limit: int = 4 << 30,
    threads: int = 1,
    scratch: Path | str | None = None,
    show: Callable[[str], None] = lambda stage: None,
) -> HopTable:
    """Read tables of DuckDB or Spark, and write the columns of every node and its neighbourhood.

    Args:
        nodes: A table file, a folder of Parquet, ``file.duckdb::table``, or
            ``spark://host:7077::table``.
        edges: Likewise, in the same engine.
        out: The Parquet file to write, with ids, target, split, columns and neighbours.
        choices: What the columns of the tables are; inferred where not given.
        hops: How far neighbourhoods reach.
        directed: Keep in-neighbours and out-neighbours apart.
        memory_limit: Bytes that DuckDB may take; more is done on disk.
        threads: Of DuckDB.
        scratch: Folder for temporary files; by default that of ``out``. Workers of Spark must see
            it under the same path.
        show: Called with each stage of the work.

    Raises:
        BadInput: A table or its engine is not there, or cannot be used; names the remedy.
        WorkFailed: The engine failed, or the disk is full.
    """
    out, choices = Path(out), choices or TableChoices()
    if choices.name_column is not None:
        raise BadInput(
            f"name_column is {choices.name_column!r}, but the file of columns keeps no names, "
            "only ids; leave it out"
        )
    locations = [Location.parse(nodes), Location.parse(edges)]
    _check_out(out, locations)
    folder = Path(out.absolute().parent if scratch is None else scratch)
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder for temporary files; make it, or give --scratch")
    name = f".{out.name}.{zlib.crc32(os.fsencode(out.resolve())):08x}.hops"
    temporary = folder.resolve() / name
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
    temporary.mkdir()
    try:
        graph = load_engine_tables(
            locations,
            choices,
            temporary,
            directed=directed,
            memory_limit=memory_limit,
            threads=threads,
            show=show,
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    show("means over neighbours")
    data = graph.data
    columns = HopColumns(data.x, data.edge_index, data.edge_weight, hops=hops, directed=directed)
    show(f"writing {out}")
    table = HopTable(**vars(graph), columns=columns, path=out)
    write_hop_file(table)
    return table


def _check_out(out: Path, locations: Sequence[Location]) -> None:
    """Refuse a name that is no Parquet file, and the file of a table."""
    if not out.name.lower().endswith(PARQUET) or out.is_dir():
        raise BadInput(f"{out}: give the Parquet file to write, such as --out columns.parquet")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out}: its folder does not exist; make {out.parent} first")
    for location in locations:
        path = None if location.path is None else Path(location.path).resolve()
        if path in (out.resolve(), *out.resolve().parents):
            raise BadInput(f"{out} is where the table {location.text} is: give another --out")


def write_hop_file(table: HopTable) -> None:
    """Write the file at ``table.path``; a whole file replaces an earlier one, or none does."""
    parts = _rows_to_write(table)
    first = next(parts)
    plan, smoothing = table.columns.plan, table.columns.smoothing
    content = {
        "version": _VERSION,
        "nodes": len(table.ids),
        "names": first.schema.names,
        "hops": plan.hops,
        "directed": plan.directed,
        **{name: each.tolist() for name, each in smoothing._asdict().items()},
        "preprocess": describe_encoding(table).to_json(),
    }
    text = json.dumps(content).encode()
    schema = first.schema.with_metadata({KEY: text, CHECKSUM: hashlib.sha256(text).hexdigest()})
    try:
        with (
            replacing(table.path) as out,
            pq.ParquetWriter(out, schema, write_page_checksum=True) as to,
        ):
            for part in chain([first], parts):
                to.write_batch(part.replace_schema_metadata(schema.metadata))
    except OSError as error:
        raise WorkFailed(
            f"{table.path}: could not be written ({error.strerror or error})"
        ) from error


def _rows_to_write(table: HopTable) -> Iterator[pa.RecordBatch]:
    """Yield some nodes at a time, with a list of the rows of each node's neighbours."""
    data, columns, about = table.data, table.columns, table.plan
    values, edge_weight = columns.without_labels, data.get("edge_weight")
    assert isinstance(values, Tensor)
    names = columns.plan.name_columns(table.encoder.space.names, relation=about.relation)
    # Edges are sorted by the end whose neighbour the other end is.
    near, nodes = data.edge_index.numpy()[:: 1 if columns.plan.directed else -1]
    at_once = max(1, GROUP_BYTES // (4 * len(names)))
    for first in range(0, len(table.ids), at_once):
        rows = slice(first, min(first + at_once, len(table.ids)))
        cells: list[tuple[str, Any]] = [(about.id_column, pa.array(table.ids[rows]))]
        if about.target is not None:
            cells.append((about.target, _name(data.y[rows].numpy(), table.classes)))
        if about.split_column is not None:
            roles = data.roles[0, rows].numpy()
            cells.append((about.split_column, _name(roles - 1, ROLE_NAMES[1:])))
        cells += zip(names, map(pa.array, values[rows].numpy().T), strict=True)
        starts = np.searchsorted(nodes, np.arange(rows.start, rows.stop + 1))
        edges, starts = slice(starts[0], starts[-1]), (starts - starts[0]).astype(np.int32)
        lists = {_NEIGHBOURS: near[edges].astype(np.int32)}
        if edge_weight is not None:
            lists[_WEIGHTS] = edge_weight[edges].numpy()
        cells += [(name, pa.ListArray.from_arrays(starts, each)) for name, each in lists.items()]
        yield pa.record_batch([each for _, each in cells], [name for name, _ in cells])


def is_hop_file(path: str | Path | None) -> bool:
    """Whether a file is one that ``crossgcn hops`` wrote."""
    if path is None or not str(path).lower().endswith(PARQUET) or not Path(path).is_file():
        return False
    with reporting_damage(str(path)), Path(path).open("rb") as file:
        return KEY in (pq.ParquetFile(file).schema_arrow.metadata or {})


def read_hop_file(path: Path) -> HopTable:
    """Read the columns, the edges and the labels of a file that ``crossgcn hops`` wrote.

    Rows are read one row group at a time into one matrix.

    Raises:
        BadInput: The file is not as ``crossgcn hops`` wrote it.
    """
    with reporting_damage(str(path)), path.open("rb") as content:
        parquet = pq.ParquetFile(content, page_checksum_verification=True)
        about = _read_description(path, parquet)
        preprocess = Preprocess.from_json(about["preprocess"])
        encoder, table = read_encoding(preprocess)
        plan = HopPlan(len(encoder.space), about["hops"], directed=about["directed"])
        smoothing = Smoothing(*(torch.tensor(about[name]) for name in Smoothing._fields))
        columns, cells = _read_rows(path, parquet, plan.num_columns)
    neighbours = cells[_NEIGHBOURS]
    near = neighbours.flatten().to_numpy().astype(np.int64)
    if len(near) and not 0 <= near.min() <= near.max() < len(columns):
        raise BadInput(f"{path}, column {_NEIGHBOURS}: holds a row that does not exist; {_REMEDY}")
    nodes = np.repeat(np.arange(len(columns)), np.diff(neighbours.offsets.to_numpy()))
    weights = cells.get(_WEIGHTS)
    data = Data(
        x=columns[:, : plan.num_features],
        edge_index=torch.from_numpy(np.stack((near, nodes) if plan.directed else (nodes, near))),
        edge_weight=None if weights is None else torch.tensor(weights.flatten().to_numpy()),
        y=torch.full((len(columns),), -1),
        num_classes=len(preprocess.classes),
        name=str(path),
    )
    if table.target is not None:
        data.y = torch.from_numpy(_codes(cells[table.target], preprocess.classes))
    if table.split_column is not None:
        roles = _codes(cells[table.split_column], ROLE_NAMES[1:]) + 1
        data.roles = torch.from_numpy(roles.astype(np.int8)).unsqueeze(0)
    if plan.directed:
        data.directed = True
    return HopTable(
        data=data,
        ids=tuple(cells[table.id_column].to_pylist()),
        classes=preprocess.classes,
        encoder=encoder,
        plan=table,
        problems=(),
        columns=HopColumns.computed(
            columns, plan, smoothing, data.edge_index, data.get("edge_weight")
        ),
        path=path,
    )


def _read_description(path: Path, parquet: pq.ParquetFile) -> dict[str, Any]:
    """Return what the schema says; refuse a file whose columns or rows are others."""
    schema = parquet.schema_arrow
    said = schema.metadata or {}
    if hashlib.sha256(said.get(KEY, b"")).hexdigest().encode() != said.get(CHECKSUM):
        raise BadInput(f"{path}: what the file says of its columns was changed; {_REMEDY}")
    about: dict[str, Any] = json.loads(said[KEY])
    if about["version"] != _VERSION:
        raise BadInput(f"{path}: was written by another version of crossgcn; {_REMEDY}")
    if schema.names != about["names"] or parquet.metadata.num_rows != about["nodes"]:
        raise BadInput(f"{path}: columns or rows were removed, added or moved; {_REMEDY}")
    return about


def _read_rows(
    path: Path, parquet: pq.ParquetFile, width: int
) -> tuple[Tensor, dict[str, pa.Array]]:
    """Return the columns of all nodes as a matrix, and the other columns of the file."""
    names = parquet.schema_arrow.names
    num_lists = 1 + (names[-1] == _WEIGHTS)
    start, stop = len(names) - width - num_lists, len(names) - num_lists
    others = [*range(start), *range(stop, len(names))]
    columns, first = torch.empty(parquet.metadata.num_rows, width), 0
    cells: dict[str, list[pa.Array]] = {names[at]: [] for at in others}
    for group in range(parquet.num_row_groups):
        for batch in parquet.read_row_group(group).to_batches():
            rows = np.column_stack([each.to_numpy() for each in batch.columns[start:stop]])
            for row, column in np.argwhere(~np.isfinite(rows)):
                raise BadInput(
                    f"{path}, row {first + row + 1}, column {names[start + column]}: "
                    f"{rows[row, column]} is not a finite number; {_REMEDY}"
                )
            columns[first : first + len(rows)] = torch.from_numpy(rows)
            first += len(rows)
            for at in others:
                cells[names[at]].append(batch.column(at))
    return columns, {name: pa.concat_arrays(parts) for name, parts in cells.items()}


def _name(codes: NDArray[Any], names: Sequence[str]) -> pa.Array:
    """Return the name of each code, and none for -1; numbers stay as they are."""
    if codes.dtype.kind == "f":
        return pa.array(codes)
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def _codes(cells: pa.Array, names: Sequence[str]) -> NDArray[Any]:
    """Return the code of each name, and -1 for none; numbers stay as they are."""
    if pa.types.is_floating(cells.type):
        return np.array(cells.to_numpy(zero_copy_only=False))
    found = pc.index_in(cells, value_set=pa.array(names, pa.string()), skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
