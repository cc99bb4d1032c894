"""The Parquet file of ``crossgcn hops``: the columns of every node and its neighbourhood, by name.

Each row is a node: its id, target, split and columns, and the row numbers of its neighbours. Any
program can read the columns. ``crossgcn train`` reads own columns and neighbours, and recomputes
the other columns. The schema holds the encoding of the tables, so a model that is trained on the
file can score new rows of the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.engines import load_engine_tables
from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.files import replacing
from crossgcn.data.graph import ROLE_NAMES
from crossgcn.data.relations import Relation, join_edges, relations_of
from crossgcn.data.tables.graph import (
    TableGraph,
    describe_encoding,
    read_edge_encoders,
    read_encoding,
)
from crossgcn.data.tables.plan import TableChoices
from crossgcn.data.tables.read import PARQUET, reporting_damage
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hops import HopColumns, HopPlan, named

KEY, CHECKSUM = b"crossgcn", b"crossgcn sha256"
"""Keys of the schema's metadata: the description of the columns, and its SHA-256."""

GROUP_BYTES = 64 << 20
"""Size of a row group, which is copied at once."""

_VERSION, _LISTS = 4, ("rows of ", "weights of ", "edges of ")
_REMEDY = "write it again: crossgcn hops NODES EDGES --out FILE.parquet"


@dataclass(frozen=True, kw_only=True)
class HopTable(TableGraph):
    """The graph of a file.

    Attributes:
        hops: Number of hops of the neighbourhoods.
        path: Path of the file.
    """

    hops: int
    path: Path

    @property
    def columns(self) -> HopPlan:
        """The columns of each node in the file."""
        return HopPlan.of(len(self.encoder.space), self.hops, relations_of(self.data))


def write_hops(
    nodes: str,
    edges: str | Mapping[str, str],
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    through: Mapping[str, str] | None = None,
    hops: int = 2,
    memory_limit: int = 4 << 30,
    threads: int = 1,
    scratch: Path | str | None = None,
    show: Callable[[str], None] = lambda stage: None,
) -> HopTable:
    """Read tables of DuckDB or Spark, and write the columns of every node and its neighbourhood.

    Args:
        out: The Parquet file to write. Only an earlier file of ``crossgcn hops`` is overwritten.
        hops: Number of hops of the neighbourhoods.
        scratch: By default the folder of ``out``. This and the other arguments are those of
            :func:`~crossgcn.data.engines.load_engine_tables`.

    Raises:
        BadInput: If a table or its engine is missing or cannot be used.
        WorkFailed: If the engine fails or the disk is full.
    """
    out = Path(out)
    if not out.name.lower().endswith(PARQUET) or out.is_dir():
        raise BadInput(f"{out}: give the Parquet file to write, such as --out columns.parquet")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out}: its folder does not exist; make {out.parent} first")
    if out.exists() and not is_hop_file(out):
        raise BadInput(f"{out} exists and is not a file of crossgcn hops: give another --out")
    graph = load_engine_tables(
        nodes,
        edges,
        choices or TableChoices(),
        through,
        memory_limit=memory_limit,
        threads=threads,
        scratch=out.absolute().parent if scratch is None else Path(scratch),
        show=show,
    )
    table = HopTable(**vars(graph), hops=hops, path=out)
    show("means over neighbours")
    data = graph.data
    columns = HopColumns(data.x, relations_of(data), hops=hops)
    show(f"writing {out}")
    _write_file(table, columns.without_labels)
    return table


def _write_file(table: HopTable, columns: Tensor) -> None:
    """Write the file at ``table.path``, atomically."""
    relations = [named(each, features=True) for each in relations_of(table.data)]
    names = table.columns.name_columns(table.encoder.space.names, relations=relations)
    before, after = _describe_nodes(table), _list_neighbours(table)
    header = [*before.column_names, *names, *after.column_names]
    for name in header:
        if header.count(name) > 1:
            raise BadInput(
                f"two columns of {table.path} would be called {name!r}: rename the column of the "
                "tables, or give another --relation"
            )
    content = {
        "version": _VERSION,
        "nodes": len(table.ids),
        "hops": table.hops,
        "relations": [
            {"name": each.name, "directed": each.directed, "things": each.things}
            for each in relations_of(table.data)
        ],
        "preprocess": describe_encoding(table).to_json(),
    }
    text = json.dumps(content).encode()
    schema = pa.schema(
        [*before.schema, *(pa.field(name, pa.float32()) for name in names), *after.schema],
        {KEY: text, CHECKSUM: hashlib.sha256(text).hexdigest()},
    )
    group_rows = max(1, GROUP_BYTES // (4 * len(names)))
    try:
        with (
            replacing(table.path) as out,
            pq.ParquetWriter(out, schema, write_page_checksum=True) as writer,
        ):
            for nodes in torch.split(torch.arange(len(table.ids)), group_rows):
                first, size = int(nodes[0]), len(nodes)
                cells = [
                    *before.slice(first, size).columns,
                    *(pa.array(column) for column in columns[nodes].numpy().T),
                    *after.slice(first, size).columns,
                ]
                writer.write_table(pa.table(cells, schema=schema))
    except OSError as error:
        raise WorkFailed(
            f"{table.path}: could not be written ({error.strerror or error})"
        ) from error


def _describe_nodes(table: HopTable) -> pa.Table:
    """Return each node's id, and its name, target and split if there are any."""
    data, plan = table.data, table.plan
    cells = {plan.id_column: pa.array(table.ids)}
    if plan.name_column is not None:
        cells[plan.name_column] = pa.array(table.names)
    if plan.target is not None:
        cells[plan.target] = _to_names(data.y.numpy(), table.classes)
    if plan.split_column is not None:
        cells[plan.split_column] = _to_names(data.roles[0].numpy() - 1, ROLE_NAMES[1:])
    return pa.table(cells)


def _list_neighbours(table: HopTable) -> pa.Table:
    """Return the rows of each node's neighbours, and weights and columns of their edges."""
    lists = dict[str, pa.Array]()
    for each in relations_of(table.data):
        # Directed edges are sorted by target, others by source.
        near, nodes = each.edge_index.numpy()[:: 1 if each.directed else -1]
        starts = np.searchsorted(nodes, np.arange(len(table.ids) + 1))
        cells = {f"rows of {each.name}": near.astype(np.int32)}
        if each.edge_weight is not None:
            cells[f"weights of {each.name}"] = each.edge_weight.numpy()
        for place, name in enumerate(each.space.names):
            cells[f"edges of {each.name}: {name}"] = each.edge_attr[:, [place]].toarray()[:, 0]
        for name, values in cells.items():
            lists[name] = pa.LargeListArray.from_arrays(starts, values)
    return pa.table(lists)


def is_hop_file(path: str | Path | None) -> bool:
    """Return whether ``crossgcn hops`` wrote a file."""
    if path is None or not str(path).lower().endswith(PARQUET) or not Path(path).is_file():
        return False
    with reporting_damage(str(path)), Path(path).open("rb") as file:
        return KEY in (pq.ParquetFile(file).schema_arrow.metadata or {})


def read_hop_file(path: Path) -> HopTable:
    """Read the graph of a file that ``crossgcn hops`` wrote.

    Raises:
        BadInput: If the file was damaged or changed.
    """
    with reporting_damage(str(path)), path.open("rb") as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        metadata = parquet.schema_arrow.metadata
        if hashlib.sha256(metadata[KEY]).hexdigest().encode() != metadata.get(CHECKSUM):
            raise BadInput(f"{path}: the description of the columns was changed; {_REMEDY}")
        content = json.loads(metadata[KEY])
        if content["version"] != _VERSION:
            raise BadInput(f"{path}: was written by another version of crossgcn; {_REMEDY}")
        if parquet.metadata.num_rows != content["nodes"]:
            raise BadInput(f"{path}: rows were removed or added; {_REMEDY}")
        preprocess = Preprocess.from_json(content["preprocess"])
        encoder, plan = read_encoding(preprocess)
        features = encoder.space.names
        others = (plan.id_column, plan.name_column, plan.target, plan.split_column)
        listed = [name for name in parquet.schema_arrow.names if name.startswith(_LISTS)]
        cells = parquet.read(columns=[*features, *filter(None, others), *listed])
        x = np.column_stack([cells[name].to_numpy() for name in features])
    for row, column in np.argwhere(~np.isfinite(x))[:1]:
        raise BadInput(
            f"{path}, row {row + 1}, column {features[column]}: {x[row, column]} is not a finite "
            f"number; {_REMEDY}"
        )
    encoders = read_edge_encoders(preprocess)
    relations = []
    for described, columns in zip(content["relations"], plan.relations, strict=True):
        of_edges = encoders.get(columns.name)
        space = FeatureSpace((), ()) if of_edges is None else of_edges.space_of_edges
        relations.append(_read_relation(path, cells, described, space))
    is_plain = len(relations) == 1 and relations[0].is_plain
    edges = join_edges(relations, len(x))
    data = Data(
        x=torch.from_numpy(x),
        edge_index=edges.edge_index,
        edge_weight=edges.edge_weight,
        y=torch.full((len(x),), -1),
        num_classes=len(preprocess.classes),
        name=str(path),
        directed=edges.directed or None,
        relations=None if is_plain else tuple(relations),
    )
    if plan.target is not None:
        data.y = torch.from_numpy(_to_codes(cells[plan.target], preprocess.classes))
    if plan.split_column is not None:
        roles = _to_codes(cells[plan.split_column], ROLE_NAMES[1:]) + 1
        data.roles = torch.from_numpy(roles.astype(np.int8)).unsqueeze(0)
    return HopTable(
        data=data,
        ids=tuple(cells[plan.id_column].to_pylist()),
        names=None if plan.name_column is None else tuple(cells[plan.name_column].to_pylist()),
        classes=preprocess.classes,
        encoder=encoder,
        plan=plan,
        problems=(),
        edge_encoders=encoders,
        hops=content["hops"],
        path=path,
    )


def _read_relation(
    path: Path, cells: pa.Table, described: dict[str, Any], space: FeatureSpace
) -> Relation:
    """Return the edges of a relation, as :func:`_list_neighbours` listed them."""
    name, things = described["name"], described["things"]
    near, starts = _flatten(cells[f"rows of {name}"])
    if len(near) and not 0 <= near.min() <= near.max() < len(things or cells):
        raise BadInput(f"{path}, column rows of {name}: holds a row that does not exist; {_REMEDY}")
    edges = near.astype(np.int64), np.repeat(np.arange(len(cells)), np.diff(starts))
    weights, attributes = None, None
    if f"weights of {name}" in cells.column_names:
        weights = torch.from_numpy(_flatten(cells[f"weights of {name}"])[0])
    if len(space):
        values = [_flatten(cells[f"edges of {name}: {each}"])[0] for each in space.names]
        attributes = sparse.csr_array(np.column_stack(values))
    return Relation(
        name,
        torch.from_numpy(np.stack(edges if described["directed"] else edges[::-1])),
        weights,
        described["directed"],
        attributes,
        space,
        None if things is None else tuple(things),
    )


def _flatten(lists: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values of all lists, and where each list starts."""
    together = lists.combine_chunks()
    return np.array(together.flatten()), np.array(together.offsets)


def _to_names(codes: NDArray[Any], names: Sequence[str]) -> pa.Array:
    """Return the name of each code, null for -1; numbers stay as they are."""
    if codes.dtype.kind == "f":
        return pa.array(codes)
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def _to_codes(cells: pa.ChunkedArray, names: Sequence[str]) -> NDArray[Any]:
    """Return the code of each name, -1 for null; numbers stay as they are."""
    if pa.types.is_floating(cells.type):
        return np.array(cells.to_numpy())
    found = pc.index_in(cells, value_set=pa.array(names, pa.string()), skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1), np.int64)
