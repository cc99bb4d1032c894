"""Columns of neighbourhoods of tables in DuckDB, in Parquet or in Spark, written for training."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from crossgcn.data.engines.connect import Engine, Location, open_engine
from crossgcn.data.engines.tables import (
    encoded_batches,
    fit_encoder,
    number_edges,
    read_nodes,
    sample_rows,
)
from crossgcn.data.files import temporary_folder
from crossgcn.data.tables.graph import as_preprocess
from crossgcn.data.tables.labels import read_roles
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.graph.engine_hops import ColumnMeans, compute_hops
from crossgcn.graph.hop_file import HopFile, named_classes, named_roles, write_hop_file
from crossgcn.graph.hops import HopPlan

ENGINE_MEMORY = 4 << 30
"""Default for the bytes that DuckDB may take."""


def write_hops(
    nodes: str,
    edges: str,
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    hops: int = 2,
    directed: bool = False,
    memory_limit: int = ENGINE_MEMORY,
    threads: int = 1,
    scratch: Path | str | None = None,
    show: Callable[[str], None] = lambda stage: None,
) -> HopFile:
    """Compute the columns of every node and its neighbourhood where the tables are.

    Args:
        nodes: A Parquet or CSV file, a folder of Parquet, ``file.duckdb::table``, or
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
    with (
        temporary_folder(folder.resolve() / name, out) as temporary,
        open_engine(locations, temporary, memory_limit, threads) as engine,
    ):
        return _write(engine, locations, out, choices, hops, directed, show)


def _check_out(out: Path, locations: list[Location]) -> None:
    """Refuse a name that is no Parquet file, and the file of a table."""
    if not out.name.lower().endswith((".parquet", ".pq")) or out.is_dir():
        raise BadInput(f"{out}: give the Parquet file to write, such as --out columns.parquet")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out}: its folder does not exist; make {out.parent} first")
    for location in locations:
        if location.place is None:
            continue
        if Path(location.place).resolve() in (out.resolve(), *out.resolve().parents):
            raise BadInput(f"{out} is where the table {location.text} is: give another --out")


def _write(
    engine: Engine,
    locations: list[Location],
    out: Path,
    choices: TableChoices,
    hops: int,
    directed: bool,
    show: Callable[[str], None],
) -> HopFile:
    of_nodes, of_edges = (engine.table(location) for location in locations)
    node_name, edge_name = (location.text for location in locations)
    show("reading the nodes")
    sample = sample_rows(engine, of_edges, edge_name, "edges")
    table, plan = read_nodes(engine, of_nodes, node_name, sample, choices)
    show("encoding the nodes")
    encoder, labels = fit_encoder(table, plan)
    roles = read_roles(table, plan.split_column, labels)
    num_nodes, means = len(table), ColumnMeans(len(encoder.space))
    for features in encoded_batches(engine, table, plan, encoder):
        means.add(features)
    del table
    show("reading the edges")
    numbered = number_edges(engine, of_edges, edge_name, plan, directed=directed)
    hop_plan = HopPlan(len(encoder.space), hops, directed=directed)
    computed = compute_hops(engine, numbered, hop_plan, means.prior, show)
    weighted = plan.weight_column is not None
    preprocess = as_preprocess(labels.names, encoder, plan)
    file = HopFile(num_nodes, hop_plan, computed.smoothing, preprocess, weighted)

    def rows() -> Iterator[list[pa.Array]]:
        first = 0
        for ids, columns, (near, weights) in computed.rows():
            here = slice(first, first + len(ids))
            row: list[pa.Array] = [ids]
            if plan.target is not None:
                row.append(named_classes(labels.values[here], labels.names))
            if roles is not None:
                row.append(named_roles(roles[0, here]))
            row += [*map(pa.array, columns), near]
            yield [*row, weights] if weighted else row
            first = here.stop

    show(f"writing {out}")
    write_hop_file(out, file, rows())
    return file
