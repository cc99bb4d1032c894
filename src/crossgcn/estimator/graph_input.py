"""The graph of an estimator: edges as users give them, and which node each row is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from crossgcn.data.features import csr_tensor
from crossgcn.data.graph import canonical_graph, is_labelled
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.graph.sparse_matrix import SparseMatrix

Array = NDArray[Any]
Names = pd.Index

HOW_TO_NAME_ROWS = (
    "say which node each row is: give X as a data frame with the index of the fit, which needs a "
    "name if it is just 0, 1, 2, ... (X.rename_axis('node'); in a Pipeline, "
    "set_output(transform='pandas')), or give node_index; give edge_index for new rows"
)


class GraphArguments(NamedTuple):
    """The graph as users give it to ``fit`` and ``predict``."""

    edge_index: Any = None
    edge_weight: Any = None
    node_index: Any = None


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
        cls, X: Any, given: GraphArguments, index: Names[Any] | None
    ) -> tuple[Self, NDArray[np.int64]]:
        """Return the graph that users give with rows, and the node that each row is.

        Args:
            index: The index of ``X``, if it is a data frame.
        """
        data = given.edge_index
        if not isinstance(data, Data) or data.get("x") is None:
            return cls._of_rows(X, given, index), np.arange(X.shape[0])
        x = features_of(data)
        if x.shape[1] != X.shape[1]:
            raise BadInput(
                f"X has {X.shape[1]} columns, but the features of the graph {x.shape[1]}; "
                "give the graph the features that X has, after all preprocessing"
            )
        names = index if index is not None and len(index) == x.shape[0] else None
        graph = cls._of_rows(x, given._replace(node_index=None), names)
        places = graph.find(X, index, given.node_index)
        differs = np.flatnonzero(_differing(graph.x[places], X).any(axis=1))
        if len(differs):
            raise BadInput(
                f"row {differs[0]} of X has other features than its node of the graph "
                f"({len(differs)} such in all); give the graph the features that X has, after "
                "all preprocessing"
            )
        return graph, places

    @classmethod
    def _of_rows(cls, X: Any, given: GraphArguments, index: Names[Any] | None) -> Self:
        """Make every row a node, named by ``node_index`` or by the index of a data frame."""
        rows, ids = X.shape[0], None
        if given.node_index is not None:
            ids = _read_names(given.node_index, rows)
            if not ids.is_unique:
                repeated = ids[ids.duplicated()][0]
                found = np.flatnonzero(ids == repeated)
                raise BadInput(
                    f"node_index has {repeated} {len(found)} times, first in row {found[0]}; give "
                    "every row of X a node of its own"
                )
        ends, weights = _read_edges(given, rows, ids)
        if ids is None:
            ids = index if index is not None and index.is_unique else pd.RangeIndex(rows)
        graph = cls(ids, X, torch.from_numpy(ends), weights)
        data = canonical_graph(graph.to_data(), "X")
        return replace(graph, edge_index=data.edge_index, edge_weight=data.get("edge_weight"))

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
        elif index is not None and (
            index.name is not None or not index.equals(pd.RangeIndex(rows))
        ):
            names = index
        else:
            fits = rows == nodes if index is None else rows <= nodes
            if fits and not _differing(self.x[:rows], X).any():
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
        """Return the graph with these rows as features of their nodes, no two of the same."""
        if hasattr(self.x, "toarray"):
            order = np.arange(len(self.ids))
            order[places] = len(self.ids) + np.arange(len(places))
            return replace(self, x=sp.csr_array(sp.vstack([self.x, sp.csr_array(X)]))[order])
        x = self.x.copy()
        x[places] = _dense(X)
        return replace(self, x=x)

    def showing(self, y: Tensor, num_classes: int) -> Self:
        """Return the graph with targets of training nodes that neighbours see."""
        labels = neighbour_labels(y, is_labelled(y).nonzero().flatten(), num_classes)
        prior = labels.values[labels.known].double().mean(dim=0)
        return replace(self, y=y, labels=labels._replace(prior=prior))

    def shown_labels(self, other: FittedGraph, *, named: bool) -> NeighbourLabels:
        """Return the labels that another graph's neighbours see: those of training nodes.

        These have the name and the features of a node of the fit. Without names, the nodes have
        to be the first ones of the fit.
        """
        assert self.labels is not None
        places = self.ids.get_indexer(other.ids)
        found = np.flatnonzero(places >= 0)
        differs = _differing(self.x[places[found]], other.x[found]).any(axis=1)
        places[found[differs]] = -1
        if not named and (places < 0).any():
            places[:] = -1
        known = torch.from_numpy(places >= 0)
        return NeighbourLabels(
            self.labels.values[places],  # those of unknown nodes are ignored
            self.labels.known[places] & known,
            self.labels.prior,
        )


def row_names(X: Any) -> Names[Any] | None:
    """Return the index of a data frame."""
    if not isinstance(X, pd.DataFrame):
        return None
    return X.index.to_flat_index() if isinstance(X.index, pd.MultiIndex) else X.index


def _read_names(node_index: Any, rows: int) -> Names[Any]:
    """Return the node that each row is, checked."""
    values = node_index if isinstance(node_index, pd.Index) else _array(node_index)
    if values.shape != (rows,) or values.dtype.kind in "fcb":
        raise BadInput(
            f"node_index is {values.dtype} {list(values.shape)}; give integers [{rows}], the "
            "number of each row of X in edge_index, or names"
        )
    return pd.Index(values, tupleize_cols=False)


def _read_edges(
    given: GraphArguments, rows: int, names: Names[Any] | None
) -> tuple[Array, Tensor | None]:
    """Return edges between rows ``[2, edges]`` and their weights.

    Args:
        names: The node that each row is, if not its position; edges to other nodes are left out.
    """
    edges, edge_weight, _ = given
    if edges is None:
        if edge_weight is not None:
            raise BadInput("edge_weight is given without edge_index; give both or neither")
        return np.empty((2, 0), np.int64), None
    size = None
    if isinstance(edges, Data | HeteroData):
        if isinstance(edges, HeteroData) or edges.edge_index is None or edge_weight is not None:
            raise BadInput(
                "a graph is one PyG Data with edge_index, and edge_weight if edges have weights; "
                "give no edge_weight beside it, and .to_homogeneous() of several kinds of nodes"
            )
        size, edge_weight = edges.get("num_nodes"), edges.get("edge_weight")
        edges = edges.edge_index
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        entries = torch.Tensor.to_sparse(edges.detach().cpu()).coalesce()
        parts: Any = entries.values().numpy(), entries.indices().numpy()
        edges = sp.coo_array(parts, tuple(entries.shape))
    if sp.issparse(edges):
        edges = sp.coo_array(edges)  # type: ignore[call-overload]
        if edge_weight is not None or edges.shape[0] != edges.shape[1]:
            raise BadInput(
                f"edge_index is a sparse adjacency {list(edges.shape)}; give a square one whose "
                "values are the weights, without edge_weight. (Cross-validation cuts whatever is "
                "as long as X: give the estimator graph=Data(x=..., edge_index=...) instead)"
            )
        edges.sum_duplicates()
        edges.eliminate_zeros()
        size, ends = edges.shape[0], np.stack(edges.coords).astype(np.int64)
        edge_weight = None if (edges.data == 1).all() else edges.data
    else:
        ends = _read_ends(edges)
    weights = None
    if edge_weight is not None:
        weights = torch.from_numpy(_array(edge_weight).astype(np.float32))
        if weights.shape != (ends.shape[1],):
            raise BadInput(
                f"edge_weight has shape {list(weights.shape)}; give one number per edge, "
                f"[{ends.shape[1]}]"
            )
    if names is not None:
        ends = names.get_indexer(pd.Index(ends.ravel())).reshape(ends.shape)
        kept = (ends >= 0).all(axis=0)
        return ends[:, kept], None if weights is None else weights[torch.from_numpy(kept)]
    if size not in (None, rows):
        raise BadInput(
            f"edge_index has {size} nodes, but X has {rows} rows; say with node_index which "
            "node each row is, or give the features of all nodes: Data(x=..., edge_index=...)"
        )
    bad = np.argwhere(((ends < 0) | (ends >= rows)).T)
    if len(bad):
        edge, end = bad[0]
        raise BadInput(
            f"edge_index[{end}, {edge}] is {ends[end, edge]}, but X has {rows} rows; use 0 "
            f"to {rows - 1}, or say with node_index which node each row of X is: edges to "
            "other nodes are then left out"
        )
    return ends, weights


def _read_ends(edges: Any) -> Array:
    try:
        ends = _array(edges)
    except (ValueError, TypeError):
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


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else x


def _differing(own: Any, given: Any) -> Any:
    """Return where features differ, an array of booleans."""
    return _dense(own != given)


def _as_tensor(x: Any) -> Tensor:
    """Return features as layers take them: dense, or sparse if they are a SciPy matrix."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))
    # Dropout would treat a stored zero, or one entry in two parts, unlike other entries.
    canonical = x.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return csr_tensor(canonical.indptr, canonical.indices, canonical.data, canonical.shape)


def features_of(data: Data) -> Any:
    """Return the features of a graph as an array or a SciPy CSR matrix, 32-bit."""
    x = data.x
    if x.layout != torch.strided:
        matrix: Any = SparseMatrix.from_torch(x.to_sparse_csr()).to_scipy()
        return sp.csr_array(matrix).astype(np.float32)
    return x.detach().cpu().numpy().astype(np.float32)
