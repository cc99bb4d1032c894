"""Load tables as a graph to train on, and tables of new nodes for a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import Preprocess, csr_tensor
from crossgcn.data.graph import canonical_graph
from crossgcn.data.tables.checks import NEW_NODES, check_tables
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.labels import read_labels, read_roles
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.problems import CheckedTables, Problem
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

MAX_ERRORS_SHOWN = 5

AnyTable = Path | str | pd.DataFrame | Table


@dataclass(frozen=True)
class TableGraph:
    """A graph made of tables, and everything needed to encode other tables in the same way.

    Attributes:
        data: As returned by :func:`~crossgcn.data.graph.canonical_graph`, with sparse features.
            Nodes are in the order of their rows, unlabelled nodes have label -1 (NaN if the
            target is a number), and ``roles`` exists if there is a split column. Self-loops are
            left out: the normalisation adds one to every node.
        classes: Names of the labels; if the target is a number, its name alone.
        problems: The warnings of the check.
        names: What nodes are called, if a column has names.
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
    """Read tables, infer what their columns are, check them and encode them as a graph.

    Tables are CSV, TSV, Parquet or XLSX files, or DataFrames, with one row per node and one row
    per edge. Without ``edges`` the nodes have no graph.

    Raises:
        BadInput: If a table cannot be read, or the check finds errors.
    """
    node_table = read_table(nodes, "nodes")
    edge_table = None if edges is None else read_table(edges, "edges")
    plan = make_plan(node_table, edge_table, choices or TableChoices())
    tables = CheckedTables(node_table, edge_table, plan)
    problems = check_tables(tables)
    refuse_errors(problems, node_table.name)
    return encode_graph(tables, problems, *tables.usable_edges())


def encode_graph(
    tables: CheckedTables,
    problems: Sequence[Problem],
    edge_index: NDArray[np.int64],
    edge_weight: NDArray[np.float32] | None,
    *,
    directed: bool = False,
) -> TableGraph:
    """Encode a table of nodes that was checked, and edges between its rows, as a graph."""
    nodes, plan, encoder = tables.nodes, tables.plan, tables.encoder
    labels = read_labels(nodes, plan)
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
    return TableGraph(data, ids, labels.names, encoder, plan, tuple(problems), names)


def as_features(matrix: sparse.csr_array) -> Tensor:
    """Convert an encoded table to the sparse tensor that layers take."""
    rows, columns = matrix.shape
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, (rows, columns))


def as_matrix(features: Tensor) -> sparse.csr_array:
    """Convert a tensor of features to a SciPy matrix."""
    if features.layout == torch.strided:
        return sparse.csr_array(features.numpy())
    parts = features.values(), features.col_indices(), features.crow_indices()
    rows, columns = features.shape
    return sparse.csr_array(tuple(part.numpy() for part in parts), shape=(rows, columns))


def refuse_errors(problems: Sequence[Problem], name: str) -> None:
    """Raise an error that lists the first errors among the problems, if there are any."""
    errors = [problem.describe() for problem in problems if problem.severity == "error"]
    if errors:
        lines = [f"{name}: {len(errors)} error(s) in the tables; correct them first:"]
        lines += [f"  {error}" for error in errors[:MAX_ERRORS_SHOWN]]
        if len(errors) > MAX_ERRORS_SHOWN:
            more = len(errors) - MAX_ERRORS_SHOWN
            lines.append(f"  and {more} more: crossgcn check, with the same options, lists all")
        raise BadInput("\n".join(lines))


class Encoding(BaseModel):
    """What ``preprocess.json`` says of the tables that a model was trained on."""

    plan: TablePlan
    encoder: TableEncoder


def describe_encoding(graph: TableGraph) -> Preprocess:
    """Return what is saved with a model trained on the graph."""
    encoding = Encoding(plan=graph.plan, encoder=graph.encoder).model_dump(mode="json")
    return Preprocess(graph.classes, graph.encoder.space, encoding)


def read_encoding(preprocess: Preprocess) -> tuple[TableEncoder, TablePlan]:
    """Return the encoder and the plan of a saved model; refuse what contradicts itself."""
    if preprocess.encoding is None or preprocess.space is None:
        raise BadInput(
            "the model was not trained on tables, so nothing says how one is encoded: train it "
            "with crossgcn train NODES EDGES --target COLUMN"
        )
    try:
        saved = Encoding.model_validate(preprocess.encoding)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise BadInput(
            f"the encoding of the tables is damaged at {where} ({first['msg']}); train again"
        ) from None
    if saved.encoder.space != preprocess.space:
        raise BadInput("the saved encoding names other features than the model: train it again")
    return saved.encoder, saved.plan


@dataclass(frozen=True)
class NewNodes:
    """Nodes that a trained model has not seen.

    Attributes:
        table: Their rows as written.
        x: Features, float32 ``[new nodes, features]``.
        edges: Without self-loops, int64 ``[2, edges]``. Known nodes come first: the first new
            node is ``len(known_ids)``.
        unused: Columns that the model was not trained with.
        unseen: Values that the training table did not have; they are encoded like rare ones.
        num_dropped: Edges that were left out, since an end is no node.
    """

    table: Table
    x: sparse.csr_array
    ids: tuple[str, ...]
    edges: NDArray[np.int64]
    edge_weight: NDArray[np.float32] | None
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

    Edges connect new nodes, or new and known ones. ``known_ids`` are the nodes trained on, in
    their order.
    """
    node_table = read_table(nodes, "nodes")
    node_table.require(plan.id_column)
    edge_table = None if edges is None else read_table(edges, "edges")
    if edge_table is not None and plan.source_column is None:
        raise BadInput(
            f"{edge_table.name}: the model was trained without edges and has no use for any; "
            "leave them out, or train it with a table of edges"
        )
    x = encoder.transform(node_table)
    tables = CheckedTables(node_table, edge_table, plan, encoder, known_ids)
    refuse_errors(check_tables(tables, NEW_NODES), node_table.name)
    ends, edge_weight = tables.usable_edges()
    planned = {INDEX_COLUMN, *(column.name for column in plan.columns)}
    return NewNodes(
        table=node_table,
        x=x,
        ids=tuple(node_table.frame[plan.id_column]),
        edges=ends,
        edge_weight=edge_weight,
        unused=tuple(name for name in node_table.columns if name not in planned),
        unseen=encoder.find_unseen(node_table),
        num_dropped=int((tables.ends < 0).any(axis=0).sum()),
    )
