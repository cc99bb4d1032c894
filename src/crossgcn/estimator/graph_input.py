"""The graph of an estimator: edges as users give them, and which node each row is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph, is_labelled
from crossgcn.data.tables.graph import as_features, as_matrix
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels

Array = NDArray[Any]
Names = pd.Index

HOW_TO_NAME_ROWS = (
    "say which node each row is: give X as a data frame with the index of the fit, which needs a "
    "name if it is just 0, 1, 2, ... (X.rename_axis('node'); in a Pipeline, "
    "set_output(transform='pandas')), or give node_index; give edge_index for new rows"
)


@dataclass(frozen=True, eq=False)
class FittedGraph:
    """Nodes with features and edges, and the labels that neighbours see.

    Attributes:
        ids: The name of each node: its ``node_index``, its index in a data frame, or its number.
        x: Features ``[nodes, features]``, an array or a SciPy CSR matrix, 32-bit.
        edge_index: Edges between positions, undirected and unique.
        edge_weight: Their weights, if there are any.
        y: Targets of the training nodes, unknown for others, if neighbours see them.
        labels: The same as neighbours see it.
    """

    ids: Names[Any]
    x: Any
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    labels: NeighbourLabels | None = None

    @classmethod
    def read(
        cls, X: Any, index: Names[Any] | None, edges: Any, node_index: Any
    ) -> tuple[Self, NDArray[np.int64]]:
        """Return the graph that users give with rows, and the node that each row is.

        Args:
            index: The index of ``X``, if it is a data frame.
            edges: Argument ``edge_index`` of the estimator, in any form.
        """
        if not isinstance(edges, Data) or edges.get("x") is None:
            return cls._of_rows(X, index, edges, node_index), np.arange(X.shape[0])
        x = features_of(edges)
        if x.shape[1] != X.shape[1]:
            raise BadInput(
                f"X has {X.shape[1]} columns, but the features of the graph {x.shape[1]}; "
                "give the graph the features that X has, after all preprocessing"
            )
        names = index if index is not None and len(index) == x.shape[0] else None
        graph = cls._of_rows(x, names, edges)
        places = graph.find(X, index, node_index)
        differs = np.flatnonzero(_differs(graph.x[places], X))
        if len(differs):
            raise BadInput(
                f"row {differs[0]} of X has other features than its node of the graph "
                f"({len(differs)} such in all); give the graph the features that X has, after "
                "all preprocessing"
            )
        return graph, places

    @classmethod
    def _of_rows(cls, X: Any, index: Names[Any] | None, edges: Any, node_index: Any = None) -> Self:
        """Make every row a node, named by ``node_index`` or by the index of a data frame."""
        ids, rows = None, X.shape[0]
        if node_index is not None:
            ids = _read_names(node_index, rows)
            if not ids.is_unique:
                raise BadInput(
                    f"node_index has {ids[ids.duplicated()][0]} more than once; give every row of "
                    "X a node of its own"
                )
        ends, weights = _read_edges(edges, rows, ids)
        if ids is None:
            ids = index if index is not None and index.is_unique else pd.RangeIndex(rows)
        graph = cls(ids, X, torch.from_numpy(ends), weights)
        data = canonical_graph(graph.to_data(), "X")
        return replace(graph, edge_index=data.edge_index, edge_weight=data.get("edge_weight"))

    @property
    def has_edges(self) -> bool:
        """Whether any two nodes are neighbours."""
        return self.edge_index.numel() > 0

    def to_data(self, y: Tensor | None = None, num_classes: int | None = None) -> Data:
        """Return features and edges as models are trained on them."""
        return Data(
            x=_as_tensor(self.x),
            edge_index=self.edge_index,
            edge_weight=self.edge_weight,
            y=torch.full((len(self.ids),), -1) if y is None else y,
            num_nodes=len(self.ids),
            num_classes=num_classes,
            name="X",
        )

    def find(self, X: Any, index: Names[Any] | None, node_index: Any = None) -> NDArray[np.int64]:
        """Return the node that each row is: by ``node_index``, by its index, or all in order.

        An index 0, 1, 2, ... is what pandas gives any rows, and arrays have none. Such rows are
        nodes in order only if they are the same to the last bit: all nodes, or with such an index
        the first ones.
        """
        rows, nodes = X.shape[0], len(self.ids)
        if node_index is not None:
            names = _read_names(node_index, rows)
        elif index is not None and not _is_unnamed(index):
            names = index
        else:
            fits = rows == nodes if index is None else rows <= nodes
            if fits and not _differs(self.x[:rows], X).any():
                return np.arange(rows)
            raise BadInput(
                f"the {rows} rows of X are not known among the {nodes} nodes of the fit; "
                f"{HOW_TO_NAME_ROWS}"
            )
        places: NDArray[np.int64] = self.ids.get_indexer(names)
        lost = np.flatnonzero(places < 0)
        if len(lost):
            (name,) = names[lost[:1]].tolist()
            raise BadInput(
                f"row {lost[0]} of X is {name!r}, which is none of the {nodes} nodes of "
                f"the fit ({len(lost)} such rows in all); {HOW_TO_NAME_ROWS}"
            )
        return places

    def with_rows(self, X: Any, places: NDArray[np.int64]) -> Self:
        """Return the graph with these rows as features of their nodes."""
        x: Any = self.x
        if isinstance(x, np.ndarray):
            x = x.copy()
            x[places] = X if isinstance(X, np.ndarray) else X.toarray()
        else:
            order = np.arange(len(self.ids))
            order[places] = len(self.ids) + np.arange(len(places))
            x = sp.csr_array(sp.vstack([x, sp.csr_array(X)]))[order]
        differs = np.flatnonzero(_differs(x[places], X))
        if len(differs):
            raise BadInput(
                f"row {differs[0]} of X is node {self.ids[places[differs[0]]]!r}, as another row "
                "with other features is; predict them one after another"
            )
        return replace(self, x=x)

    def showing(self, y: Tensor, num_classes: int) -> Self:
        """Return the graph with targets of training nodes that neighbours see."""
        labels = neighbour_labels(y, is_labelled(y).nonzero().flatten(), num_classes)
        prior = labels.values[labels.known].double().mean(dim=0)
        return replace(self, y=y, labels=labels._replace(prior=prior))

    def showing_labels_of(self, fitted: FittedGraph, *, named: bool) -> Self:
        """Return the graph with the targets of those of its nodes that a fit was trained on.

        Such a node has the name and the features of one of the fit. Without names, all nodes have
        to be the first ones of the fit.
        """
        assert fitted.labels is not None and fitted.y is not None
        places = fitted.ids.get_indexer(self.ids)
        same = places >= 0
        same[same] = ~_differs(fitted.x[places[same]], self.x[same])
        known = fitted.labels.known[places] & torch.from_numpy(same & (named or same.all()))
        unknown = torch.nan if fitted.y.is_floating_point() else -1
        y = torch.where(known, fitted.y[places], unknown)
        labels = NeighbourLabels(fitted.labels.values[places], known, fitted.labels.prior)
        return replace(self, y=y, labels=labels)


def _is_unnamed(index: Names[Any]) -> bool:
    """Return whether an index is the one that pandas gives any rows."""
    return index.name is None and index.equals(pd.RangeIndex(len(index)))


def _read_names(node_index: Any, rows: int) -> Names[Any]:
    """Return the node that each row is, checked."""
    values = node_index if isinstance(node_index, pd.Index) else _array(node_index)
    if values.shape != (rows,) or values.dtype.kind in "fcb":
        raise BadInput(
            f"node_index is {values.dtype} {list(values.shape)}; give integers [{rows}], the "
            "number of each row of X in edge_index, or names"
        )
    return pd.Index(values, tupleize_cols=False)


def _read_edges(edges: Any, rows: int, names: Names[Any] | None) -> tuple[Array, Tensor | None]:
    """Return edges between rows ``[2, edges]`` and their weights.

    Args:
        names: The node that each row is, if not its position; edges to other nodes are left out.
    """
    num_nodes, weights = None, None
    if edges is None:
        return np.empty((2, 0), np.int64), None
    if isinstance(edges, Data):
        num_nodes, weights = edges.get("num_nodes"), edges.get("edge_weight")
        edges = edges.edge_index
    elif sp.issparse(edges):
        matrix = sp.coo_array(edges)  # type: ignore[call-overload]
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        num_nodes, edges = max(matrix.shape), np.stack(matrix.coords)
        weights = None if (matrix.data == 1).all() else torch.from_numpy(matrix.data)
    ends = _read_ends(edges)
    if names is not None:
        ends = names.get_indexer(pd.Index(ends.ravel())).reshape(ends.shape)
        kept = (ends >= 0).all(axis=0)
        return ends[:, kept], None if weights is None else weights[torch.from_numpy(kept)]
    needed = ends.max(initial=-1) + 1
    if num_nodes not in (None, rows) or needed > rows:
        raise BadInput(
            f"edge_index has {max(num_nodes or 0, needed)} nodes, but X has {rows} rows; say with "
            "node_index which node each row is, or give the features of all nodes: "
            "graph=Data(x=..., edge_index=...)"
        )
    return ends, weights


def _read_ends(edges: Any) -> Array:
    try:
        ends = _array(edges)
    except (ValueError, TypeError, RuntimeError):
        ends = np.empty(0)
    if ends.ndim != 2 or ends.shape[0] != 2 or not (ends.dtype.kind in "iu" or ends.size == 0):
        turned = ends.ndim == 2 and ends.shape[1] == 2
        hint = ", such as edge_index.T of this one" if turned else ""
        raise BadInput(
            f"edge_index is a {type(edges).__name__} of {ends.dtype} {list(ends.shape)}; give "
            f"integers [2, edges]{hint}, a sparse adjacency [rows, rows], or a PyG Data"
        )
    return ends.astype(np.int64)


def _array(values: Any) -> Array:
    if isinstance(values, Tensor):
        return values.detach().as_subclass(Tensor).numpy(force=True)  # EdgeIndex is a subclass
    return np.asarray(values)


def _differs(own: Any, given: Any) -> NDArray[np.bool_]:
    """Return which rows have other features."""
    return np.asarray((own != given).sum(axis=1)).ravel() > 0


def _as_tensor(x: Any) -> Tensor:
    """Return features as layers take them: dense, or sparse if they are a SciPy matrix."""
    return (
        torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else as_features(x)
    )


def features_of(data: Data) -> Any:
    """Return the features of a graph as an array or a SciPy CSR matrix, 32-bit."""
    x: Tensor = data.x.detach().cpu()
    if x.layout == torch.strided:
        return x.numpy().astype(np.float32)
    return as_matrix(x.to_sparse_csr()).astype(np.float32)
