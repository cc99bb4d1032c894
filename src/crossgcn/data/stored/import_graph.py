"""Import files of edges and a table of nodes, arrays, or a PyG graph into a graph folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.edge_files import EdgeFile, IdLookup, NumberLookup, no_edges
from crossgcn.data.stored.external_sort import ENTRY_BYTES
from crossgcn.data.stored.format import check_free_space, check_target
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.data.stored.write import MEMORY_LIMIT, GraphWriter, Progress, writing_graph
from crossgcn.data.tables.cells import MOST_WEIGHT
from crossgcn.data.tables.checks import check_tables
from crossgcn.data.tables.columns import find_edge_columns
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import as_matrix, as_preprocess, refuse_errors
from crossgcn.data.tables.labels import read_labels, read_roles
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.read import read_batches, read_table
from crossgcn.data.tables.table import Batch, CellKind, Table
from crossgcn.errors import BadInput

Chunk = Sequence[NDArray[Any]]
"""Sources, targets and, if there are any, weights of some edges."""

CHUNK = 1 << 18

EdgeColumns = tuple[str, str, str | None]
"""Headers of the source, the target and the weight."""

NodeTable = tuple[Table, TablePlan, tuple[str, ...]]
"""A table of nodes, what its columns are, and the id of each node."""

Warn = Callable[[str], None]


def build_graph(
    edges: Path | str | Sequence[Path | str] | NDArray[Any] | Iterable[Chunk],
    nodes: Path | str | pd.DataFrame | None = None,
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    num_nodes: int | None = None,
    directed: bool = False,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    on_warning: Warn | None = None,
) -> StoredGraph:
    """Create a graph folder in memory that does not grow with the number of edges.

    Edges become undirected and unique, unless ``directed``; a repeated edge gets the mean of
    its weights. Self-loops are dropped from files, as everywhere with tables, and kept from
    arrays, as in ``.npz`` files. The folder appears only when it is complete.

    A table of nodes is read as a whole and encoded as for training on tables.

    Args:
        edges: A CSV, TSV (also ``.gz``), Parquet or XLSX file with a row per edge; several with
            the same headers; an array ``[2, edges]``; or an iterable of ``(sources, targets)`` or
            ``(sources, targets, weights)``.
        nodes: A table with a row per node. Without one, ends of edges are numbers from 0.
        out: The folder, new or empty.
        choices: What the columns of the tables are; inferred where not given.
        num_nodes: By default one more than the highest end; only without ``nodes``.
        directed: Each edge counts for its target alone.
        memory_limit: Bytes that sorting may take, though never less than about 32 MiB; the
            rest is sorted on disk.
        on_warning: Called with each problem that does not stop the import, such as those
            of ``crossgcn check``; by default they are Python warnings.

    Raises:
        BadInput: A file cannot be read, or an end is no node; names file, row, value, remedy.
        WorkFailed: The disk is too small, or became full.
    """
    out = Path(out)
    check_target(out)
    if choices is not None:
        choices.check_for_folder()
    writing = partial(
        writing_graph, out, directed=directed, memory_limit=memory_limit, progress=progress
    )
    if isinstance(edges, str | Path):
        edges = [edges]
    if isinstance(edges, list | tuple) and edges and isinstance(edges[0], str | Path):
        warn = on_warning or (lambda words: warnings.warn(words, stacklevel=3))
        files = [EdgeFile.open(path) for path in edges]
        for file in files:
            if file.warning is not None:
                warn(file.warning)
        columns, lookup, described = _match_tables(
            files[0].sample(), nodes, choices or TableChoices(), num_nodes, warn
        )
        num_nodes = num_nodes if described is None else len(described[2])
        weighted = columns[2] is not None
        rows = [file.num_rows for file in files]
        num_rows = None if None in rows else sum(row or 0 for row in rows)
        space = space_for(num_rows or 0, num_nodes or 0, directed, weighted, memory_limit)
        check_free_space(out, space)
        with writing(num_nodes=num_nodes, weighted=weighted, keep_self_loops=False) as writer:
            if described is not None:
                _write_nodes(writer, *described)
            _read_edges(files, columns, lookup, writer, num_rows, progress)
        return open_graph(out)
    if nodes is not None or choices is not None:
        raise BadInput("tables of nodes go with files of edges: give the edges as a file as well")
    chunks = iter(_as_chunks(edges))
    first = next(chunks, None)
    with writing(num_nodes=num_nodes, weighted=first is not None and len(first) == 3) as writer:
        for chunk in chain([] if first is None else [first], chunks):
            writer.add_edges(*chunk)
    return open_graph(out)


def store_graph(
    data: Data,
    out: Path | str,
    *,
    preprocess: Preprocess | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> StoredGraph:
    """Write a graph to a folder; ``to_data`` returns its canonical form.

    Args:
        data: A graph that :func:`~crossgcn.data.canonical_graph` accepts.
        out: The folder, new or empty.
        preprocess: Names of classes and features, where they have any.
    """
    out = Path(out)
    check_target(out)
    data = canonical_graph(data, "the graph to store")
    weight = data.get("edge_weight")
    source, target = data.edge_index.numpy(force=True)
    directed = data.get("directed") is True
    once = slice(None) if directed else source <= target
    weights = () if weight is None else (weight.numpy(force=True)[once],)
    with writing_graph(
        out,
        num_nodes=data.num_nodes,
        directed=directed,
        weighted=weight is not None,
        memory_limit=memory_limit,
    ) as writer:
        writer.add_edges(source[once], target[once], *weights)
        if data.x.layout == torch.sparse_csr:
            writer.add_sparse_features(as_matrix(data.x))
        else:
            writer.add_features(data.x.numpy(force=True))
        writer.set_labels(data.y.numpy(force=True), data.num_classes)
        if "roles" in data:
            writer.set_roles(data.roles.numpy(force=True))
        if preprocess is not None:
            writer.set_preprocess(preprocess)
    return open_graph(out)


def _as_chunks(edges: Any) -> Iterable[Chunk]:
    if not isinstance(edges, np.ndarray):
        return edges  # type: ignore[no-any-return]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise BadInput(
            f"edges are {edges.dtype} {list(edges.shape)}; they must be integers [2, edges]"
        )
    starts = range(0, edges.shape[1], CHUNK)
    return ((edges[0, at : at + CHUNK], edges[1, at : at + CHUNK]) for at in starts)


def _match_tables(
    sample: Table,
    nodes: Path | str | pd.DataFrame | None,
    choices: TableChoices,
    num_nodes: int | None,
    warn: Warn,
) -> tuple[EdgeColumns, NumberLookup | IdLookup, NodeTable | None]:
    """Find the columns of the edges, and the nodes that their ends name."""
    if nodes is None:
        return _find_edge_columns(sample, choices), NumberLookup(num_nodes), None
    if num_nodes is not None:
        raise BadInput(f"num_nodes is {num_nodes:,}, but the table of nodes says how many")
    table = read_table(nodes, "nodes")
    plan = make_plan(table, sample, choices)
    table = plan.with_missing_words(table)
    problems = check_tables(table, None, plan)
    refuse_errors(problems, table.name, None)
    for problem in problems:
        warn(problem.describe())
    ids = tuple(table.frame[plan.id_column].tolist())
    lookup = IdLookup(ids, f"add it to {table.name}, or delete the edge")
    assert plan.source_column is not None and plan.destination_column is not None
    columns = plan.source_column, plan.destination_column, plan.weight_column
    return columns, lookup, (table, plan, ids)


def _find_edge_columns(sample: Table, choices: TableChoices) -> EdgeColumns:
    """Find the columns of edges where there is no table of nodes to compare them with."""
    of_nodes = replace(choices, source_column=None, destination_column=None, weight_column=None)
    if of_nodes != TableChoices():
        raise BadInput("columns of nodes are chosen, but there is no table of nodes; give one")
    chosen = (choices.source_column, choices.destination_column, choices.weight_column)
    for header in filter(None, chosen):
        sample.require(header)
    values = {value for header in sample.columns for value in sample.distinct(header).values}
    numbers = {value for value in values if value.strip().isdecimal()}
    source, destination, weight = chosen
    return find_edge_columns(
        sample, numbers, source=source, destination=destination, weight=weight
    )[:3]


def _write_nodes(writer: GraphWriter, nodes: Table, plan: TablePlan, ids: Sequence[str]) -> None:
    encoder = TableEncoder.fit(nodes, plan)
    labels = read_labels(nodes, plan)
    roles = read_roles(nodes, plan.split_column, labels)
    writer.set_ids(ids)
    writer.add_sparse_features(encoder.transform(nodes))
    if plan.target is not None:
        writer.set_labels(labels.values, len(labels.names))
    if roles is not None:
        writer.set_roles(roles)
    writer.set_preprocess(as_preprocess(labels.names, encoder, plan))


def _read_edges(
    files: Sequence[EdgeFile],
    columns: EdgeColumns,
    lookup: NumberLookup | IdLookup,
    writer: GraphWriter,
    total: int | None,
    progress: Progress | None,
) -> None:
    *ends, weight = columns
    done = 0
    for file in files:
        kinds: dict[str, CellKind] = {
            header: file.kind_of_ids(header) if isinstance(lookup, IdLookup) else "integer"
            for header in ends
            if header is not None
        }
        for batch in read_batches(
            file.path, kinds | ({} if weight is None else {weight: "number"}), lookup.batch_rows
        ):
            source, target = (lookup.find(batch, header) for header in kinds)
            writer.add_edges(source, target, None if weight is None else _weights(batch, weight))
            done += len(source)
            if progress is not None:
                progress("reading", done, None if total is None else max(total, done))
    if done == 0:
        raise no_edges(files[0].path)


def _weights(batch: Batch, header: str) -> NDArray[np.float32]:
    numbers: NDArray[np.float64] = (
        batch.columns[header].to_numpy(zero_copy_only=False).astype(np.float64)
    )
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= MOST_WEIGHT)))
    if len(wrong):
        remedy = f"write a number from 0 to {MOST_WEIGHT:g}"
        raise batch.error(header, int(wrong[0]), "is no weight", remedy)
    return numbers.astype(np.float32)


def space_for(
    num_edges: int, num_nodes: int, directed: bool, weighted: bool, memory_limit: int
) -> int:
    """Estimate the bytes of disk that an import takes at most."""
    num_entries = num_edges * (1 if directed else 2)
    entry_bytes = 8 if weighted else 4
    # An entry that is sorted on disk takes 4 bytes more there than in the graph.
    sorted_on_disk = num_entries * ENTRY_BYTES[weighted] > memory_limit
    scratch = num_entries * (entry_bytes + 4) if sorted_on_disk else 0
    return num_entries * entry_bytes + scratch + 8 * num_nodes
