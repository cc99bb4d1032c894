"""Files of edges and a table of nodes, imported into a graph folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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
from crossgcn.data.stored.edge_files import EdgeFile, open_edge_file
from crossgcn.data.stored.external_sort import ENTRY_BYTES
from crossgcn.data.stored.format import check_free_space, check_target
from crossgcn.data.stored.id_lookup import NodeFinder, NumberedNodes, find_nodes
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.data.stored.write import MEMORY_LIMIT, GraphWriter, Progress, writing_graph
from crossgcn.data.tables.checks import check_tables
from crossgcn.data.tables.columns import find_edge_columns
from crossgcn.data.tables.encode.encoder import TableEncoder
from crossgcn.data.tables.graph import as_matrix, read_labels, read_roles, refuse_errors
from crossgcn.data.tables.graph_parts import list_ids
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput


def import_files(
    edges: Sequence[Path | str],
    nodes: Path | str | pd.DataFrame | None,
    out: Path,
    choices: TableChoices,
    num_nodes: int | None,
    *,
    directed: bool,
    memory_limit: int,
    progress: Progress | None,
    on_warning: Callable[[str], None] | None = None,
) -> None:
    """Read everything, a piece of the edges at a time, and write the folder.

    Args:
        edges: Files with the same headers.
        nodes: A table, a row a node; none where ends are numbers.
        out: The folder to make.
        choices: What the user said about the columns.
        num_nodes: How many nodes there are, where no table says so.
        directed: An edge counts for its second end alone.
        memory_limit: Bytes that sorting may take.
        progress: Told how far it is.
        on_warning: Told what does not stop the work and may be wrong.
    """
    files = [open_edge_file(path) for path in edges]
    for file in files:
        if file.warning is not None and on_warning is not None:
            on_warning(file.warning)
    if nodes is None:
        columns = _find_ends(files[0], choices)
        finder: NodeFinder = NumberedNodes(num_nodes)
        described = None
    else:
        if num_nodes is not None:
            raise BadInput(f"num_nodes is {num_nodes:,}, but the table of nodes says how many")
        described = _read_nodes(read_table(nodes, "nodes"), files[0], choices)
        columns, num_nodes = described.ends, len(described.ids)
        whole = all(file.whole_numbers(header) for file in files for header in columns.ends)
        remedy = f"add it to {described.nodes.name}, or delete the edge"
        finder = find_nodes(described.ids, whole, remedy)
    weighted = columns.weight is not None
    rows = [file.num_rows for file in files]
    total = None if None in rows else sum(row or 0 for row in rows)
    check_free_space(out, _space_for(total or 0, num_nodes or 0, directed, weighted, memory_limit))
    with writing_graph(
        out,
        num_nodes=num_nodes,
        directed=directed,
        weighted=weighted,
        keep_self_loops=False,
        memory_limit=memory_limit,
        progress=progress,
    ) as writer:
        if described is not None:
            described.write(writer)
        _read_edges(files, columns, finder, writer, total, progress)


@dataclass(frozen=True)
class _EdgeColumns:
    source: str
    destination: str
    weight: str | None

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.destination


@dataclass(frozen=True)
class _Nodes:
    """A table of nodes, and what its columns are taken for."""

    nodes: Table
    plan: TablePlan
    ids: tuple[str, ...]
    ends: _EdgeColumns

    def write(self, writer: GraphWriter) -> None:
        encoder = TableEncoder.fit(self.nodes, self.plan)
        labels, classes = read_labels(self.nodes, self.plan.target)
        roles = read_roles(self.nodes, self.plan.split_column, labels)
        writer.set_ids(self.ids)
        writer.add_sparse_features(encoder.transform(self.nodes))
        if self.plan.target is not None:
            writer.set_labels(labels.numpy(), len(classes))
        if roles is not None:
            writer.set_roles(roles.numpy())
        encoding = {"plan": self.plan.to_json(), "encoder": encoder.to_json()}
        writer.set_preprocess(Preprocess(classes, encoder.space, encoding))


def _read_nodes(nodes: Table, edges: EdgeFile, choices: TableChoices) -> _Nodes:
    plan = make_plan(nodes, _sample(edges), choices)
    nodes = plan.reading(nodes)
    refuse_errors(check_tables(nodes, None, plan), nodes.name, None)
    assert plan.source_column is not None and plan.destination_column is not None
    ends = _EdgeColumns(plan.source_column, plan.destination_column, plan.weight_column)
    return _Nodes(nodes, plan, list_ids(nodes, plan.id_column), ends)


def _find_ends(edges: EdgeFile, choices: TableChoices) -> _EdgeColumns:
    """The columns of both ends where there is no table of nodes to compare them with."""
    of_nodes = replace(choices, source_column=None, destination_column=None, weight_column=None)
    if of_nodes != TableChoices():
        raise BadInput("columns of nodes are chosen, but there is no table of nodes; give one")
    sample = _sample(edges)
    chosen = (choices.source_column, choices.destination_column, choices.weight_column)
    for header in chosen:
        if header is not None:
            sample.require(header)
    numbered = {value for name in sample.columns for value in _whole_values(sample, name)}
    source, destination, weight, _ = find_edge_columns(
        sample, numbered, source=chosen[0], destination=chosen[1], weight=chosen[2]
    )
    return _EdgeColumns(source, destination, weight)


def _whole_values(table: Table, name: str) -> set[str]:
    """What might be the number of a node."""
    return {value for value in table.distinct(name).values if value.strip().isdecimal()}


def _sample(edges: EdgeFile) -> Table:
    """The first rows as a table, under the file's own name."""
    frame = edges.sample()
    if frame.empty:
        raise BadInput(f"{edges.name}: there are no rows of edges; add at least one row")
    return replace(read_table(frame, "edges"), name=edges.name)


def _read_edges(
    files: Sequence[EdgeFile],
    columns: _EdgeColumns,
    finder: NodeFinder,
    writer: GraphWriter,
    total: int | None,
    progress: Progress | None,
) -> None:
    kinds = dict.fromkeys(columns.ends, finder.kind)
    if columns.weight is not None:
        kinds[columns.weight] = "number"
    done = 0
    for file in files:
        for piece in file.pieces(kinds, finder.piece_rows):
            source, target = (finder.find(piece, header) for header in columns.ends)
            weight = None if columns.weight is None else piece.weights(columns.weight)
            writer.add_edges(source, target, weight)
            done += len(source)
            if progress is not None:
                progress("reading", done, None if total is None else max(total, done))
    if done == 0:
        raise BadInput(f"{files[0].name}: there are no rows of edges; add at least one row")


def _space_for(
    num_edges: int, num_nodes: int, directed: bool, weighted: bool, memory_limit: int
) -> int:
    """Bytes of disk that a graph takes while it is made, about."""
    entries = num_edges * (1 if directed else 2)
    of_entry = 8 if weighted else 4
    # Sorted on disk, an entry is there as a key of 8 bytes before it is one of the graph.
    scratch = 0 if entries * ENTRY_BYTES[weighted] <= memory_limit else entries * (of_entry + 4)
    return entries * of_entry + scratch + 8 * num_nodes


Chunk = Sequence[NDArray[Any]]
"""Sources, targets and, if there are any, weights of some edges."""

CHUNK = 1 << 18


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
    on_warning: Callable[[str], None] | None = None,
) -> StoredGraph:
    """Make a graph folder, in memory that does not grow with the number of edges.

    Edges become undirected and unique, unless ``directed``; one given more than once weighs
    the mean of its weights. From files, self-loops are left out, as everywhere with tables;
    from arrays they are kept, as in ``.npz`` files. The folder is there when all is done and
    not at all otherwise.

    A table of nodes is encoded as for training on tables, and for that it is read as a whole.

    Args:
        edges: A file, CSV or TSV (also ``.gz``) or Parquet, a row an edge; several with the
            same headers; an array ``[2, edges]``; or pieces ``(sources, targets)`` or
            ``(sources, targets, weights)``, read once.
        nodes: A table, a row a node. Without one, ends of edges are numbers from 0.
        out: The folder to make, new or empty.
        choices: What the columns of the tables are; found by looking where not said.
        num_nodes: How many nodes there are, where no table says so; one more than the highest
            end if left out.
        directed: An edge counts for its second end alone.
        memory_limit: Bytes that sorting may take, though never less than about 32 MiB; the
            rest is done on disk.
        progress: Told what is being done, how much of it is done, and of how much.
        on_warning: Told what may be wrong with a file, though it can be read.

    Raises:
        BadInput: What cannot be read, or an end that is no node: file, row, value, remedy.
        WorkFailed: The disk is too small, or got full.
    """
    out = Path(out)
    options: dict[str, Any] = {
        "directed": directed,
        "memory_limit": memory_limit,
        "progress": progress,
    }
    check_target(out)
    files = _as_files(edges)
    if files is not None:
        options["on_warning"] = on_warning
        import_files(files, nodes, out, choices or TableChoices(), num_nodes, **options)
        return open_graph(out)
    if nodes is not None or choices is not None:
        raise BadInput("tables of nodes go with files of edges: give the edges as a file as well")
    chunks = iter(_as_chunks(edges))
    first = next(chunks, None)
    weighted = first is not None and len(first) == 3
    with writing_graph(out, num_nodes=num_nodes, weighted=weighted, **options) as writer:
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
    """Write a graph to a folder; ``to_data`` gives it back as adopted.

    Args:
        data: What :func:`~crossgcn.data.canonical_graph` accepts.
        out: The folder to make, new or empty.
        preprocess: Names of classes and features, where they have any.
        memory_limit: Bytes that sorting may take.
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


def _as_files(edges: object) -> list[Path | str] | None:
    """The files, if it is files that were given."""
    if isinstance(edges, str | Path):
        return [edges]
    if isinstance(edges, list | tuple) and edges and isinstance(edges[0], str | Path):
        return list(edges)
    return None


def _as_chunks(edges: Any) -> Iterable[Chunk]:
    if not isinstance(edges, np.ndarray):
        return edges  # type: ignore[no-any-return]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise BadInput(
            f"edges are {edges.dtype} {list(edges.shape)}; they must be integers [2, edges]"
        )
    starts = range(0, edges.shape[1], CHUNK)
    return ((edges[0, at : at + CHUNK], edges[1, at : at + CHUNK]) for at in starts)
