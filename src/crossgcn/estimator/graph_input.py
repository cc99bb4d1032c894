"""The graph of an estimator: edges as users give them, and which node each row is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from crossgcn.data.graph import canonical_graph, is_labelled
from crossgcn.data.relations import NEIGHBOURS, Relation, has_edges, relations_of
from crossgcn.data.tables.graph import as_features, as_matrix
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels

Names = pd.Index
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowGraph:
    """A graph whose nodes are rows.

    Attributes:
        names: The name of each node: its ``node_index``, its index in a data frame, or its number.
        data: The graph in canonical form. After a fit its ``y`` are the targets of the rows that
            were trained on, unknown for all others.
    """

    names: Names[Any]
    data: Data

    @property
    def x(self) -> Any:
        """Features ``[nodes, features]``, an array or a SciPy CSR matrix."""
        x: Tensor = self.data.x
        return x.numpy() if x.layout == torch.strided else as_matrix(x)

    @property
    def has_edges(self) -> bool:
        """Whether any two nodes are neighbours."""
        return has_edges(self.data)

    @property
    def labels(self) -> NeighbourLabels:
        """What neighbours see of the labels of training rows."""
        y = self.data.y
        labels = neighbour_labels(y, is_labelled(y).nonzero().flatten(), self.data.num_classes)
        return labels._replace(prior=labels.values[labels.known].double().mean(dim=0))

    def labels_in(self, other: RowGraph) -> NeighbourLabels:
        """Return the labels of those nodes of another graph that are training rows of this one.

        Such a node has the name and the features of one here. Without names, all nodes have to be
        the first ones here.
        """
        places, labels = self._places_of(other.x, other.names), self.labels
        shared = np.flatnonzero(places >= 0)
        places[shared[_differing_rows(self.x[places[shared]], other.x[shared])]] = -1
        known = labels.known[places] & torch.from_numpy(places >= 0)
        return NeighbourLabels(labels.values[places], known, labels.prior)

    def find(self, X: Any, names: Names[Any] | None) -> Places:
        """Return the node that each row is; refuse rows that are not known."""
        places = self._places_of(X, names)
        lost = np.flatnonzero(places < 0)
        if not len(lost):
            return places
        found = f"the {len(lost)} rows of X are not known among the nodes of the fit"
        if names is not None and _are_telling(names):
            (name,), (known,) = names[lost[:1]].tolist(), self.names[:1].tolist()
            found = (
                f"row {lost[0]} of X is {name!r}, which is none of the {len(self.names)} nodes of "
                f"the fit, such as {known!r} ({len(lost)} such rows in all)"
            )
        raise BadInput(
            f"{found}; say which node each row is: give X as a data frame with the index of the "
            "fit, which needs a name if it is just 0, 1, 2, ... (X.rename_axis('node'); in a "
            "Pipeline, set_output(transform='pandas')), or give node_index; give edge_index for "
            "new rows"
        )

    def _places_of(self, X: Any, names: Names[Any] | None) -> Places:
        """Return the node that each row is, ``-1`` for a row that is not known.

        Rows are known by their names. An array has none, and the index 0, 1, 2, ... tells
        nothing: such rows are nodes in order only if they are the same to the last bit: all nodes,
        or with such an index the first ones.
        """
        if names is not None and _are_telling(names):
            return np.asarray(self.names.get_indexer(names))
        rows, nodes = X.shape[0], len(self.names)
        fits = rows == nodes if names is None else rows <= nodes
        if fits and not len(_differing_rows(self.x[:rows], X)):
            return np.arange(rows)
        return np.full(rows, -1)

    def with_rows(self, X: Any, places: Places) -> RowGraph:
        """Return the graph with these rows as features of their nodes."""
        x = self.x
        order = np.arange(len(self.names))
        order[places] = len(order) + np.arange(len(places))
        stack: Any = (
            np.vstack if isinstance(x, np.ndarray) and isinstance(X, np.ndarray) else sp.vstack
        )
        data = copy(self.data)
        data.x = _as_tensor(stack([x, X])[order])
        changed = RowGraph(self.names, data)
        differing = _differing_rows(changed.x[places], X)
        if len(differing):
            raise BadInput(
                f"row {differing[0]} of X is node {self.names[places[differing[0]]]!r}, as another "
                "row with other features is; predict them one after another"
            )
        return changed


def read_names(X: Any, node_index: Any) -> Names[Any] | None:
    """Return the names of rows: ``node_index``, or the index of a data frame."""
    if node_index is None:
        return X.index if isinstance(X, pd.DataFrame) else None
    values = node_index if isinstance(node_index, pd.Index) else _as_array(node_index)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if values.shape != (rows,) or values.dtype.kind in "fcb":
        raise BadInput(
            f"node_index is {values.dtype} {list(values.shape)}; give integers [{rows}], the "
            "number of each row of X in edge_index, or names"
        )
    return pd.Index(values, tupleize_cols=False, name="node_index")


def _are_telling(names: Names[Any]) -> bool:
    """Return whether names tell which node a row is.

    pandas gives any rows the index 0, 1, 2, ...: it tells nothing unless it has a name itself.
    """
    return names.name is not None or not names.equals(pd.RangeIndex(len(names)))


def graph_of_rows(
    X: Any, names: Names[Any] | None, edges: Any, *, names_in_edges: bool
) -> tuple[RowGraph, Places]:
    """Return the graph that a user gives with rows, and the node that each row is.

    Args:
        X: A 32-bit array or SciPy CSR matrix.
        names: What :func:`read_names` returned.
        edges: Argument ``edge_index`` of the estimator, in any form.
        names_in_edges: The edges hold the names of rows, not their positions.
    """
    rows = X.shape[0]
    is_hetero = isinstance(edges, HeteroData) and len(edges.node_types) == 1
    nodes = edges.node_stores[0] if is_hetero else edges if isinstance(edges, Data) else {}
    x = nodes.get("x")
    if x is not None:
        return _read_whole_graph(X, names, edges, x)
    if names is not None and not names.is_unique:
        if names_in_edges:
            raise BadInput(
                f"node_index has {names[names.duplicated()][0]} more than once; give every row of "
                "X a node of its own"
            )
        names = None
    graph = _read_edges(edges, _as_tensor(X), names if names_in_edges else None)
    return RowGraph(pd.RangeIndex(rows) if names is None else names, graph), np.arange(rows)


def _read_whole_graph(
    X: Any, names: Names[Any] | None, given: Any, x: Tensor
) -> tuple[RowGraph, Places]:
    """Read a graph with the features of all nodes, of which the rows of ``X`` are some."""
    x = x.detach().cpu()
    graph = RowGraph(pd.RangeIndex(len(x)), _read_edges(given, x, None))
    remedy = "give the graph the features that X has, after all preprocessing"
    if x.shape[1] != X.shape[1]:
        raise BadInput(
            f"X has {X.shape[1]} columns, but the features of the graph {x.shape[1]}; {remedy}"
        )
    places = graph.find(X, names)
    differing = _differing_rows(graph.x[places], X)
    if len(differing):
        raise BadInput(
            f"row {differing[0]} of X has other features than its node of the graph "
            f"({len(differing)} such in all); {remedy}"
        )
    return graph, places


def _read_edges(edges: Any, x: Tensor, names: Names[Any] | None) -> Data:
    """Return the graph of nodes with features ``x``, in canonical form and without labels.

    Args:
        names: The node that each row is, if not its position; edges to other nodes are left out.
    """
    relations = []
    for name, ends, weights, num_nodes in _list_relations(edges):
        ends = _read_ends(ends)
        if names is not None:
            ends = names.get_indexer(pd.Index(ends.ravel())).reshape(ends.shape)
            kept = (ends >= 0).all(axis=0)
            ends = ends[:, kept]
            weights = None if weights is None else weights[torch.from_numpy(kept)]
        needed = ends.max(initial=-1) + 1
        if names is None and (num_nodes not in (None, len(x)) or needed > len(x)):
            raise BadInput(
                f"edge_index has {max(num_nodes or 0, needed)} nodes, but X has {len(x)} rows; say "
                "with node_index which node each row is, or give the features of all nodes: "
                "graph=Data(x=..., edge_index=...)"
            )
        relations.append(Relation(name, torch.from_numpy(ends), weights))
    unknown = torch.full((len(x),), -1)
    return canonical_graph(Data(x, relations=tuple(relations), y=unknown), "X")


def _list_relations(edges: Any) -> Iterator[tuple[str, Any, Any, int | None]]:
    """Yield name, ends, weights and number of nodes of each relation that a user gives."""
    if isinstance(edges, HeteroData):
        (nodes,) = edges.node_stores if len(edges.node_types) == 1 else [None]
        if nodes is None:
            raise BadInput(
                f"the graph has {len(edges.node_types)} types of nodes; give one type, whose nodes "
                "are the rows of X, and any number of types of edges"
            )
        edges = {
            name: Data(edge_index=store.edge_index, edge_weight=store.get("edge_weight"))
            for (_, name, _), store in edges.edge_items()
        }
    if not isinstance(edges, Mapping):
        edges = {NEIGHBOURS: np.empty((2, 0), np.int64) if edges is None else edges}
    for name, each in edges.items():
        if isinstance(each, Data):
            num_nodes = each.num_nodes if "num_nodes" in each or "x" in each else None
            yield str(name), each.edge_index, each.get("edge_weight"), num_nodes
        else:
            yield str(name), each, None, None


def match_relations(graph: RowGraph, fitted: RowGraph) -> None:
    """Put the relations of a graph in the order of those of the fit; refuse others."""
    found = {each.name: each for each in relations_of(graph.data)}
    wanted = [each.name for each in relations_of(fitted.data)]
    if {*found} != {*wanted}:
        raise BadInput(
            f"the model was fitted with the relations {', '.join(wanted)}, but the edges are "
            f"{', '.join(found)}; give all of them, by name"
        )
    if len(wanted) > 1:
        graph.data.relations = tuple(found[name] for name in wanted)


def _read_ends(edges: Any) -> NDArray[np.int64]:
    """Return integers ``[2, edges]``; refuse anything else."""
    try:
        ends = _as_array(edges)
    except (ValueError, TypeError, RuntimeError):
        ends = np.empty(0)
    if ends.ndim != 2 or ends.shape[0] != 2 or not (ends.dtype.kind in "iu" or ends.size == 0):
        raise BadInput(
            f"edge_index is a {type(edges).__name__} of {ends.dtype} {list(ends.shape)}; give "
            "integers [2, edges], which is edge_index.T of a list of pairs, or a PyG Data"
        )
    return ends.astype(np.int64)


def _as_array(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):
        return values.detach().as_subclass(Tensor).numpy(force=True)  # EdgeIndex is a subclass
    return np.asarray(values)


def _as_tensor(x: Any) -> Tensor:
    """Return features as layers take them: dense, or sparse if they are a SciPy matrix."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(x))
    return as_features(sp.csr_array(x))


def _differing_rows(own: Any, given: Any) -> NDArray[np.int64]:
    """Return the positions of the rows that have other features."""
    return np.flatnonzero(np.asarray((own != given).sum(axis=1)))
