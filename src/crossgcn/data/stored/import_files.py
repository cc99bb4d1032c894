"""Files of edges and a table of nodes, imported into a graph folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.building_folder import check_free_space
from crossgcn.data.stored.edge_files import EdgeFile, open_edge_file
from crossgcn.data.stored.find_nodes import NodeFinder, NumberedNodes, find_nodes
from crossgcn.data.stored.graph_writer import GraphWriter, Progress, writing_graph
from crossgcn.data.stored.key_pile import ENTRY_BYTES
from crossgcn.data.tables.check import check_tables
from crossgcn.data.tables.encoder import TableEncoder
from crossgcn.data.tables.find_columns import find_edge_columns
from crossgcn.data.tables.graph import read_labels, refuse_errors, roles_of_labelled
from crossgcn.data.tables.ids import list_ids
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.table import Table, read_table
from crossgcn.errors import BadInput

__all__ = ["import_files"]


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
        roles = roles_of_labelled(self.nodes, self.plan.split_column, labels)
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
