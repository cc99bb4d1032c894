"""From a user's tables to a graph to train on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.tables.cells import shorten
from crossgcn.data.tables.checks.check import check_tables
from crossgcn.data.tables.checks.problems import Finding
from crossgcn.data.tables.encode.encoder import TableEncoder
from crossgcn.data.tables.encode.hashing import EncodedHash
from crossgcn.data.tables.find_columns import SPLIT_WORDS
from crossgcn.data.tables.ids import NodeIds, class_of_values, list_ids, name_classes, read_edges
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

__all__ = [
    "TableGraph",
    "as_features",
    "as_matrix",
    "describe_encoding",
    "load_tables",
    "name_classes",
    "read_encoding",
    "read_labels",
    "read_roles",
    "refuse_errors",
    "roles_of_labelled",
]

MOST_ERRORS = 5
"""How many findings a refusal lists, where a command lists the others."""


@dataclass(frozen=True)
class TableGraph:
    """A graph made of tables, and all it takes to make another like it.

    Attributes:
        data: As :func:`~crossgcn.data.graph.canonical_graph` gives it, features sparse. Nodes are
            in the order of their rows, a node without a target has label -1, and ``roles`` is
            there if a column says who trains. Self-loops are left out: they add nothing to
            those that the normalisation gives every node.
        ids: Of the nodes.
        classes: What each label stands for.
        encoder: How columns became features; it names them.
        plan: What each column was taken for.
        findings: What may spoil training.
    """

    data: Data
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    encoder: TableEncoder
    plan: TablePlan
    findings: tuple[Finding, ...]

    @property
    def matrix(self) -> sparse.csr_array:
        """The features as SciPy and scikit-learn take them."""
        return as_matrix(self.data.x)


def load_tables(
    nodes: Path | str | pd.DataFrame,
    edges: Path | str | pd.DataFrame | None = None,
    choices: TableChoices | None = None,
) -> TableGraph:
    """Read tables, decide what their columns are, check them and encode them.

    Args:
        nodes: A row a node: a CSV, TSV or Parquet file, or a DataFrame.
        edges: A row an edge; none for nodes without a graph.
        choices: What the user said about the columns.

    Raises:
        BadInput: What cannot be read, or what the check found wrong, the first few.
    """
    node_table = read_table(nodes, "nodes")
    edge_table = None if edges is None else read_table(edges, "edges")
    choices = choices or TableChoices()
    plan = make_plan(node_table, edge_table, choices)
    node_table = plan.reading(node_table)
    findings = check_tables(node_table, edge_table, plan)
    paths = [table for table in (nodes, edges) if table is not None]
    are_files = not any(isinstance(table, pd.DataFrame) for table in paths)
    command = ["crossgcn", "check", *map(str, paths), *_as_options(choices)]
    refuse_errors(findings, node_table.name, shlex.join(command) if are_files else None)
    ids = list_ids(node_table, plan.id_column)
    encoder = TableEncoder.fit(node_table, plan)
    y, classes = read_labels(node_table, plan.target)
    edge_index, edge_weight = read_edges(
        edge_table, plan, NodeIds(ids), f"add it to {node_table.name}, or delete the edge"
    )
    data = Data(
        x=as_features(encoder.transform(node_table)),
        edge_index=torch.from_numpy(edge_index),
        edge_weight=None if edge_weight is None else torch.from_numpy(edge_weight),
        y=y,
        num_classes=len(classes),
        name=node_table.name,
        roles=roles_of_labelled(node_table, plan.split_column, y),
    )
    return TableGraph(
        data=canonical_graph(data, node_table.name),
        ids=ids,
        classes=classes,
        encoder=encoder,
        plan=plan,
        findings=tuple(findings),
    )


def as_features(matrix: sparse.csr_array) -> Tensor:
    """An encoded table as the sparse tensor that layers take."""
    rows, columns = matrix.shape
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, (rows, columns))


def as_matrix(features: Tensor) -> sparse.csr_array:
    """The same back again."""
    parts = features.values(), features.col_indices(), features.crow_indices()
    rows, columns = features.shape
    return sparse.csr_array(tuple(part.numpy() for part in parts), shape=(rows, columns))


def read_roles(nodes: Table, column: str) -> Tensor:
    """Who trains, validates and tests, as one split: int8 [1, nodes]; none for an empty cell.

    Args:
        nodes: The table.
        column: Says train, validation or test, in any case, or short forms of them.

    Raises:
        BadInput: A cell says something else.
    """
    distinct = nodes.distinct(column)
    words = [value.strip().lower() for value in distinct.values]
    roles = np.array([SPLIT_WORDS.get(word, -1) for word in words], np.int8)
    roles[distinct.missing] = 0
    wrong = np.flatnonzero(roles[distinct.codes] < 0)
    if len(wrong):
        value = distinct.values[distinct.codes[wrong[0]]]
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(wrong[0])}, column {column}: {shorten(value)} is "
            f"no part of a split ({len(wrong)} such in all); write train, validation or test, or "
            "leave the cell empty"
        )
    return torch.from_numpy(roles[distinct.codes][None])


def roles_of_labelled(nodes: Table, column: str | None, y: Tensor) -> Tensor | None:
    """A node without a class takes no part, whatever the column says; the check warns of it.

    Args:
        nodes: The table.
        column: Says who trains; no roles without one.
        y: Class of each node, -1 for none.
    """
    return None if column is None else torch.where(y < 0, 0, read_roles(nodes, column))


def read_labels(nodes: Table, target: str | None) -> tuple[Tensor, tuple[str, ...]]:
    """The class of each node, -1 for none, and what the classes are called.

    Args:
        nodes: The table.
        target: The column to predict; no node has a class without one.
    """
    if target is None:
        return torch.full((len(nodes),), -1), ()
    distinct = nodes.distinct(target)
    classes = name_classes(distinct)
    labels = {name: label for label, name in enumerate(classes)}
    of_value: NDArray[np.int64] = np.array(
        [-1 if name is None else labels[name] for name in class_of_values(distinct)], np.int64
    )
    return torch.from_numpy(of_value[distinct.codes]), classes


def refuse_errors(findings: Sequence[Finding], name: str, command: str | None) -> None:
    """Refuse tables with errors: the first few, and the command that lists all, if one does.

    Args:
        findings: Of the check.
        name: What to call the tables.
        command: Lists all that was found.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    most = len(errors) if command is None else MOST_ERRORS
    lines = [f"{name}: {len(errors)} error(s) in the tables; mend them first:"]
    lines += [f"  {finding.describe()}" for finding in errors[:most]]
    if len(errors) > most:
        lines.append(f"  and {len(errors) - most} more")
    if command is not None:
        lines.append(f"for all that was found: {command}")
    raise BadInput("\n".join(lines))


def _as_options(choices: TableChoices) -> list[str]:
    """What the user chose, as the command line takes it."""
    words = []
    for field in fields(choices):
        value = getattr(choices, field.name)
        if value is None or (value == () and field.name != "missing"):
            continue
        option = "ignore" if field.name == "ignored" else field.name.replace("_", "-")
        is_list = isinstance(value, tuple)
        names = value if is_list else (str(value),)
        text = ",".join(name.replace(",", "\\,") if is_list else name for name in names)
        words += [f"--{option}", text]
    return words


def describe_encoding(graph: TableGraph) -> Preprocess:
    """What a model trained on the graph should be saved with."""
    return Preprocess(
        graph.classes,
        graph.encoder.space,
        {"plan": graph.plan.to_json(), "encoder": graph.encoder.to_json()},
    )


def read_encoding(preprocess: Preprocess) -> tuple[TableEncoder, TablePlan]:
    """The encoder and the plan of a saved model.

    Raises:
        BadInput: If the model was not trained on tables, or they do not fit it.
    """
    if preprocess.encoding is None or preprocess.space is None:
        raise BadInput(
            "the model was not trained on tables, so nothing says how one is encoded: train it "
            "with crossgcn train NODES EDGES --target COLUMN"
        )
    try:
        plan = TablePlan.from_json(preprocess.encoding["plan"])
        encoder = TableEncoder.from_json(preprocess.encoding["encoder"])
    except KeyError as error:
        raise BadInput(f"the saved encoding has no {error}: train the model again") from None
    if encoder.space != preprocess.space:
        raise BadInput("the saved encoding names other features than the model: train it again")
    bits = {column.bits for column in encoder.columns if isinstance(column, EncodedHash)}
    if bits - {plan.hash_bits}:
        raise BadInput(
            f"the saved encoding hashes into 2^{max(bits)} features a column, but its plan has "
            f"hash_features {plan.hash_features}: train the model again"
        )
    return encoder, plan
