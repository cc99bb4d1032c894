"""Load tables as a graph to train on, and tables of new nodes for a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
from crossgcn.data.relations import Relation, as_relation
from crossgcn.data.tables.checks import NEW_NODES, RULES, Rule, check_tables
from crossgcn.data.tables.edges import join_relations
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.labels import read_roles, read_times
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.problems import CheckedTables, Problem
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

MAX_ERRORS_SHOWN = 5

AnyTable = Path | str | pd.DataFrame | Table
AnyEdges = AnyTable | Mapping[str, AnyTable] | None
"""One table of edges, or several by the name of their relation."""


@dataclass(frozen=True)
class TableGraph:
    """A graph made from tables, and the encoder and plan to encode other tables in the same way.

    Attributes:
        data: As returned by :func:`~crossgcn.data.graph.canonical_graph`, with sparse features.
            Nodes are in the order of their rows, unlabelled nodes have label -1 (NaN if the
            target is a number). ``roles`` exists if there is a split column, and ``node_time``,
            float64 and NaN where unknown, if there is a time column. Self-loops are left out: the
            normalisation adds one to every node.
        classes: Names of the classes; if the target is a number, the name of its column.
        problems: The warnings of the check.
        names: Names of the nodes, if a column holds them.
        edge_encoders: The encoders of the columns of edges, by the name of the relation.
    """

    data: Data
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    encoder: TableEncoder
    plan: TablePlan
    problems: tuple[Problem, ...]
    names: tuple[str, ...] | None = None
    edge_encoders: Mapping[str, TableEncoder] = field(default_factory=dict)


def load_tables(
    nodes: AnyTable,
    edges: AnyEdges = None,
    choices: TableChoices | None = None,
    *,
    through: Mapping[str, AnyTable] | None = None,
) -> TableGraph:
    """Read tables, infer the kinds of their columns, check them and encode them as a graph.

    Tables are CSV, TSV, Parquet or XLSX files, or DataFrames, with one row per node and one row
    per edge. Without ``edges`` the nodes have no graph.

    Args:
        edges: One table; or several by name, ``{"borders": ..., "ties": ...}``.
        through: Tables of nodes and things, by name: nodes that share a thing are neighbours.

    Raises:
        BadInput: If a table cannot be read, or the check finds errors.
    """
    return encode_tables(open_tables(nodes, edges, choices or TableChoices(), through))


def open_tables(
    nodes: AnyTable,
    edges: AnyEdges,
    choices: TableChoices,
    through: Mapping[str, AnyTable] | None = None,
) -> CheckedTables:
    """Read tables and infer the kinds of their columns, without checking them."""
    node_table = read_table(nodes, "nodes")
    tables = join_relations(_read_edges(edges, choices.relation.strip()), _read_edges(through, ""))
    plan = make_plan(node_table, tables, choices, through or ())
    return CheckedTables(node_table, tables, plan)


def _read_edges(edges: AnyEdges, relation: str) -> dict[str, Table]:
    """Read tables of edges, by the names of their relations."""
    if edges is None:
        return {}
    if not isinstance(edges, Mapping):
        return {relation: read_table(edges, "edges")}
    return {name: read_table(table, name) for name, table in edges.items()}


def encode_tables(tables: CheckedTables) -> TableGraph:
    """Check tables and encode them as a graph."""
    refuse_errors(tables)
    return encode_graph(tables, [each.relation() for each in tables.relations])


def encode_graph(
    tables: CheckedTables, relations: Sequence[Relation], *, joined: bool = True
) -> TableGraph:
    """Encode a checked table of nodes, and relations between its rows, as a graph.

    ``joined`` is that of :func:`~crossgcn.data.graph.canonical_graph`.
    """
    nodes, plan, encoder, labels = tables.nodes, tables.plan, tables.encoder, tables.labels
    roles, times = None, None
    if plan.split_column is not None:
        own = read_roles(nodes.distinct(plan.split_column))
        roles = torch.from_numpy(np.where(labels.known, own, np.int8(0)))[None]
    if plan.time_column is not None:
        times = torch.from_numpy(read_times(nodes.distinct(plan.time_column)))
    data = Data(
        x=as_features(encoder.transform(nodes)),
        relations=tuple(relations) or (as_relation(_NO_EDGES),),
        y=torch.from_numpy(labels.values),
        num_classes=len(labels.names),
        name=nodes.name,
        roles=roles,
        node_time=times,
    )
    data = canonical_graph(data, nodes.name, joined=joined)
    ids = tuple(nodes.frame[plan.id_column])
    names = None if plan.name_column is None else tuple(nodes.frame[plan.name_column])
    of_edges = {each.plan.name: each.encoder for each in tables.relations if each.encoder}
    problems = tuple(tables.problems)
    return TableGraph(data, ids, labels.names, encoder, plan, problems, names, of_edges)


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
        more = len(errors) - MAX_ERRORS_SHOWN
        if more > 0:
            lines.append(f"  and {more} more: crossgcn check, with the same options, lists all")
        raise BadInput("\n".join(lines))


class Encoding(BaseModel):
    """The encoding of tables in ``preprocess.json``."""

    plan: TablePlan
    encoder: TableEncoder
    edges: dict[str, TableEncoder] = {}


def describe_encoding(graph: TableGraph) -> Preprocess:
    """Return the content of ``preprocess.json`` for models trained on the graph."""
    edges = dict(graph.edge_encoders)
    encoding = Encoding(plan=graph.plan, encoder=graph.encoder, edges=edges)
    return Preprocess(graph.classes, graph.encoder.space, encoding.model_dump(mode="json"))


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


def read_edge_encoders(preprocess: Preprocess) -> dict[str, TableEncoder]:
    """Return the encoders of the columns of edges of a saved model, by relation."""
    return read_saved(Encoding, preprocess.encoding, "the encoding of the tables").edges


@dataclass(frozen=True)
class NewNodes:
    """Nodes that a trained model has not seen.

    Attributes:
        x: Features, float32 ``[new nodes, features]``.
        relations: Their edges without self-loops, in the order of the training's relations. Known
            nodes come first: the first new node is ``len(known_ids)``.
        table: The rows as given, with the training's words for a missing value.
        unused: Columns that the model was not trained with.
        unseen: Values that are not in the training table; they are encoded like rare values.
        num_dropped: Number of edges left out because an end is not a node.
        missing: Relations of the training of which no table is given.
        times: Time of each node, infinite where unknown.
    """

    x: sparse.csr_array
    ids: tuple[str, ...]
    relations: tuple[Relation, ...]
    table: Table
    unused: tuple[str, ...]
    unseen: tuple[Unseen, ...] = ()
    num_dropped: int = 0
    missing: tuple[str, ...] = ()
    times: NDArray[np.float64] | None = None


def load_new_tables(
    nodes: AnyTable,
    edges: AnyEdges,
    encoder: TableEncoder,
    plan: TablePlan,
    known_ids: Sequence[str],
    known: Sequence[Relation] = (),
    edge_encoders: Mapping[str, TableEncoder] | None = None,
) -> NewNodes:
    """Encode tables of new nodes for a trained model; columns are found by their headers.

    Edges connect new nodes, or new and known ones.

    Args:
        known_ids: The ids of the nodes trained on, in order.
        known: The relations trained on.
        edge_encoders: The encoders of columns of edges, by relation.
    """
    node_table = read_table(nodes, "nodes")
    node_table.require(plan.id_column)
    names = [each.name for each in plan.relations]
    given = _read_edges(edges, names[0] if len(names) == 1 else plan.relation)
    for name, table in given.items():
        if not names:
            raise BadInput(
                f"{table.name}: the model was trained without edges and cannot use them; leave "
                "them out, or train it with a table of edges"
            )
        if name not in names:
            shown = " ".join(f"{each}=FILE" for each in names)
            raise BadInput(
                f"{table.name}: the model was trained on the relations {', '.join(names)}; say "
                f"which of these it is: {shown}"
            )
    x = encoder.transform(node_table)
    things = {name: each.things or () for name, each in zip(names, known, strict=False)}
    tables = CheckedTables(node_table, given, plan, encoder, known_ids, edge_encoders or {}, things)
    refuse_errors(tables, NEW_NODES)
    found = {each.plan.name: each for each in tables.relations}
    times = np.full(len(node_table), np.inf)
    if plan.time_column in node_table.columns:
        read = read_times(node_table.distinct(str(plan.time_column)))
        times = np.where(np.isnan(read), np.inf, read)
    planned = {INDEX_COLUMN, *(column.name for column in plan.columns)}
    unseen = [encoder.find_unseen(node_table)]
    unseen += [each.encoder.find_unseen(each.table) for each in found.values() if each.encoder]
    return NewNodes(
        x=x,
        ids=tuple(node_table.frame[plan.id_column]),
        relations=tuple(
            found[name].relation() if name in found else as_relation(_NO_EDGES) for name in names
        ),
        table=tables.nodes,
        unused=tuple(name for name in node_table.columns if name not in planned),
        unseen=tuple(chain.from_iterable(unseen)),
        num_dropped=sum(int((each.ends < 0).any(axis=0).sum()) for each in found.values()),
        missing=tuple(name for name in names if name not in found),
        times=times,
    )


_NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
