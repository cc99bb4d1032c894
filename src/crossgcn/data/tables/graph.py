"""Load tables as a graph to train on, and tables of new nodes for a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import Preprocess, csr_tensor, read_saved
from crossgcn.data.graph import canonical_graph
from crossgcn.data.tables.checks import NEW_NODES, RULES, Rule, check_tables
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.labels import read_roles
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.problems import CheckedTables, Problem
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

MAX_ERRORS_SHOWN = 5

AnyTable = Path | str | pd.DataFrame | Table


@dataclass(frozen=True)
class TableGraph:
    """A graph made from tables, and the encoder and plan to encode other tables in the same way.

    Attributes:
        data: As returned by :func:`~crossgcn.data.graph.canonical_graph`, with sparse features.
            Nodes are in the order of their rows, unlabelled nodes have label -1 (NaN if the
            target is a number), and ``roles`` exists if there is a split column. Self-loops are
            left out: the normalisation adds one to every node.
        classes: Names of the classes; if the target is a number, the name of its column.
        problems: The warnings of the check.
        names: Names of the nodes, if a column holds them.
    """

    data: Data
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    encoder: TableEncoder
    plan: TablePlan
    problems: tuple[Problem, ...]
    names: tuple[str, ...] | None = None


def load_tables(
    nodes: AnyTable, edges: AnyTable | None = None, choices: TableChoices | None = None
) -> TableGraph:
    """Read tables, infer the kinds of their columns, check them and encode them as a graph.

    Tables are CSV, TSV, Parquet or XLSX files, or DataFrames, with one row per node and one row
    per edge. Without ``edges`` the nodes have no graph.

    Raises:
        BadInput: If a table cannot be read, or the check finds errors.
    """
    return encode_tables(open_tables(nodes, edges, choices or TableChoices()))


def open_tables(nodes: AnyTable, edges: AnyTable | None, choices: TableChoices) -> CheckedTables:
    """Read tables and infer the kinds of their columns, without checking them."""
    node_table = read_table(nodes, "nodes")
    edge_table = None if edges is None else read_table(edges, "edges")
    return CheckedTables(node_table, edge_table, make_plan(node_table, edge_table, choices))


def encode_tables(tables: CheckedTables) -> TableGraph:
    """Check tables and encode them as a graph."""
    refuse_errors(tables)
    return encode_graph(tables, *tables.usable_edges())


def encode_graph(
    tables: CheckedTables,
    edge_index: NDArray[np.int64],
    edge_weight: NDArray[np.float32] | None,
    *,
    directed: bool = False,
) -> TableGraph:
    """Encode a checked table of nodes, and edges between its rows, as a graph."""
    nodes, plan, encoder, labels = tables.nodes, tables.plan, tables.encoder, tables.labels
    roles = read_roles(nodes, plan.split_column, labels)
    data = Data(
        x=as_features(encoder.transform(nodes)),
        edge_index=torch.from_numpy(edge_index),
        edge_weight=None if edge_weight is None else torch.from_numpy(edge_weight),
        y=torch.from_numpy(labels.values),
        num_classes=len(labels.names),
        name=nodes.name,
        roles=None if roles is None else torch.from_numpy(roles),
        directed=directed,
    )
    data = canonical_graph(data, nodes.name)
    ids = tuple(nodes.frame[plan.id_column])
    names = None if plan.name_column is None else tuple(nodes.frame[plan.name_column])
    return TableGraph(data, ids, labels.names, encoder, plan, tuple(tables.problems), names)


def as_features(matrix: sparse.csr_array) -> Tensor:
    """Convert an encoded table to the sparse tensor that layers take."""
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)


def as_matrix(features: Tensor) -> sparse.csr_array:
    """Convert a tensor of features to a SciPy matrix."""
    if features.layout == torch.strided:
        return sparse.csr_array(features.numpy())
    parts = features.values(), features.col_indices(), features.crow_indices()
    return sparse.csr_array(
        tuple(part.numpy() for part in parts), shape=(len(features), features.shape[1])
    )


def refuse_errors(tables: CheckedTables, rules: Sequence[Rule] = RULES) -> None:
    """Check tables, and raise an error that lists the first errors, if there are any."""
    problems = check_tables(tables, rules)
    errors = [problem.describe() for problem in problems if problem.severity == "error"]
    if errors:
        lines = [f"{tables.nodes.name}: {len(errors)} error(s) in the tables; correct them first:"]
        lines += [f"  {error}" for error in errors[:MAX_ERRORS_SHOWN]]
        if len(errors) > MAX_ERRORS_SHOWN:
            more = len(errors) - MAX_ERRORS_SHOWN
            lines.append(f"  and {more} more: crossgcn check, with the same options, lists all")
        raise BadInput("\n".join(lines))


class Encoding(BaseModel):
    """The encoding of tables in ``preprocess.json``."""

    plan: TablePlan
    encoder: TableEncoder


def describe_encoding(graph: TableGraph) -> Preprocess:
    """Return the content of ``preprocess.json`` for models trained on the graph."""
    encoding = Encoding(plan=graph.plan, encoder=graph.encoder).model_dump(mode="json")
    return Preprocess(graph.classes, graph.encoder.space, encoding)


def read_encoding(preprocess: Preprocess) -> tuple[TableEncoder, TablePlan]:
    """Return the encoder and the plan of a saved model; refuse a contradiction between them."""
    if preprocess.encoding is None or preprocess.space is None:
        raise BadInput(
            "the model was not trained on tables, so it cannot encode one: train it with crossgcn "
            "train NODES EDGES --target COLUMN"
        )
    saved = read_saved(Encoding, preprocess.encoding, "the encoding of the tables")
    if saved.encoder.space != preprocess.space:
        raise BadInput("the saved encoding and the model name different features: train it again")
    return saved.encoder, saved.plan


@dataclass(frozen=True)
class NewNodes:
    """Nodes that a trained model has not seen.

    Attributes:
        x: Features, float32 ``[new nodes, features]``.
        edges: Edges without self-loops, int64 ``[2, edges]``. Known nodes come first: the first
            new node is ``len(known_ids)``.
        table: The rows as given, with the training's words for a missing value.
        unused: Columns that the model was not trained with.
        unseen: Values that are not in the training table; they are encoded like rare values.
        num_dropped: Number of edges left out because an end is not a node.
    """

    x: sparse.csr_array
    ids: tuple[str, ...]
    edges: NDArray[np.int64]
    edge_weight: NDArray[np.float32] | None
    table: Table
    unused: tuple[str, ...]
    unseen: tuple[Unseen, ...] = ()
    num_dropped: int = 0


def load_new_tables(
    nodes: AnyTable,
    edges: AnyTable | None,
    encoder: TableEncoder,
    plan: TablePlan,
    known_ids: Sequence[str],
) -> NewNodes:
    """Encode tables of new nodes for a trained model; columns are found by their headers.

    Edges connect new nodes, or new and known ones. ``known_ids`` are the ids of the nodes trained
    on, in order.
    """
    node_table = read_table(nodes, "nodes")
    node_table.require(plan.id_column)
    edge_table = None if edges is None else read_table(edges, "edges")
    if edge_table is not None and plan.source_column is None:
        raise BadInput(
            f"{edge_table.name}: the model was trained without edges and cannot use them; leave "
            "them out, or train it with a table of edges"
        )
    x = encoder.transform(node_table)
    tables = CheckedTables(node_table, edge_table, plan, encoder, known_ids)
    refuse_errors(tables, NEW_NODES)
    ends, edge_weight = tables.usable_edges()
    planned = {INDEX_COLUMN, *(column.name for column in plan.columns)}
    return NewNodes(
        x=x,
        ids=tuple(node_table.frame[plan.id_column]),
        edges=ends,
        edge_weight=edge_weight,
        table=tables.nodes,
        unused=tuple(name for name in node_table.columns if name not in planned),
        unseen=encoder.find_unseen(node_table),
        num_dropped=int((tables.ends < 0).any(axis=0).sum()),
    )
