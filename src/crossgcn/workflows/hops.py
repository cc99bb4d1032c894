"""Columns of neighbourhoods of tables in DuckDB, in Parquet or in Spark, stored for training."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from crossgcn.data.engines.connect import Engine, Location, open_engine
from crossgcn.data.engines.tables import (
    edge_batches,
    encoded_batches,
    fit_encoder,
    number_edges,
    read_nodes,
    sample_rows,
)
from crossgcn.data.files import temporary_folder
from crossgcn.data.stored.format import check_target
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.data.stored.write import MEMORY_LIMIT, writing_graph
from crossgcn.data.tables.graph import as_preprocess
from crossgcn.data.tables.labels import read_roles
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.graph.engine_hops import ColumnMeans, compute_hops
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.kept_columns import columns_beside
from crossgcn.workflows.hop_columns import write_hop_file

ENGINE_MEMORY = 4 << 30
"""Default for the bytes that DuckDB may take."""


def store_hops(
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
    parquet: Path | None = None,
    show: Callable[[str], None] = lambda stage: None,
) -> StoredGraph:
    """Compute the columns of every node and its neighbourhood where the tables are.

    The folder is a graph folder, as :func:`~crossgcn.data.build_graph` writes it, with the columns
    beside the graph. Training a model of hops on it computes no column anew.

    Args:
        nodes: A Parquet or CSV file, a folder of Parquet, ``file.duckdb::table``, or
            ``spark://host:7077::table``.
        edges: Likewise, in the same engine.
        out: The folder, new or empty.
        choices: What the columns of the tables are; inferred where not given.
        hops: How far neighbourhoods reach.
        directed: Keep in-neighbours and out-neighbours apart.
        memory_limit: Bytes that DuckDB may take; more is done on disk.
        threads: Of DuckDB.
        scratch: Folder for temporary files; by default that of ``out``. Workers of Spark must see
            it under the same path.
        parquet: Also write the columns to this file, with their names, ids, target, split and
            neighbours; ``crossgcn train`` takes it in place of the folder.
        show: Called with each stage of the work.

    Raises:
        BadInput: A table or its engine is not there, or cannot be used; names the remedy.
        WorkFailed: The engine failed, or the disk is full.
    """
    out, choices = Path(out), choices or TableChoices()
    choices.check_for_folder()
    locations = [Location.parse(nodes), Location.parse(edges)]
    if parquet is not None and (parquet.is_dir() or not parquet.parent.is_dir()):
        raise BadInput(f"{parquet}: give the name of a file in an existing folder as --parquet")
    folder = Path(out.absolute().parent if scratch is None else scratch)
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder for temporary files; make it, or give --scratch")
    name = f".{out.name}.{zlib.crc32(os.fsencode(out.resolve())):08x}.hops"
    with temporary_folder(folder.resolve() / name, out) as temporary:
        check_target(out)
        with open_engine(locations, temporary, memory_limit, threads) as engine:
            _store_graph(engine, locations, out, choices, hops, directed, parquet, show)
    return open_graph(out)


def _store_graph(
    engine: Engine,
    locations: list[Location],
    out: Path,
    choices: TableChoices,
    hops: int,
    directed: bool,
    parquet: Path | None,
    show: Callable[[str], None],
) -> None:
    """Write the graph folder with its columns, which appears as a whole."""
    of_nodes, of_edges = (engine.table(location) for location in locations)
    node_name, edge_name = (location.text for location in locations)
    show("reading the nodes")
    sample = sample_rows(engine, of_edges, edge_name, "edges")
    table, plan = read_nodes(engine, of_nodes, node_name, sample, choices)
    show("encoding the nodes")
    encoder, labels = fit_encoder(table, plan)
    means, weighted = ColumnMeans(len(encoder.space)), plan.weight_column is not None
    with writing_graph(
        out,
        num_nodes=len(table),
        directed=directed,
        weighted=weighted,
        keep_self_loops=False,
        memory_limit=MEMORY_LIMIT,
    ) as writer:

        def encode() -> Iterator[str]:
            for ids, features in encoded_batches(engine, table, plan, encoder):
                means.add(features)
                writer.add_sparse_features(features)
                yield from ids

        writer.set_ids(encode())
        if plan.target is not None:
            writer.set_labels(labels.values, len(labels.names))
        roles = read_roles(table, plan.split_column, labels)
        if roles is not None:
            writer.set_roles(roles)
        writer.set_preprocess(as_preprocess(labels.names, encoder, plan))
        show("reading the edges")
        numbered = number_edges(engine, of_edges, edge_name, plan, directed=directed)
        for source, target, weight in edge_batches(engine):
            writer.add_edges(source, target, weight if weighted else None)
        hop_plan = HopPlan(len(encoder.space), hops, directed=directed)
        computed = compute_hops(engine, numbered, hop_plan, means.prior, show)

        def store_columns(graph: StoredGraph) -> None:
            show("storing the columns")
            kept = columns_beside(graph, hop_plan)
            page = kept.write(computed.fill)
            if parquet is not None:
                show(f"writing {parquet}")
                write_hop_file(parquet, graph, kept.map(), page)

        writer.write_beside = store_columns
