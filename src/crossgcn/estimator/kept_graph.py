"""The graph of a fit, in which rows that come later are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.errors import BadInput
from crossgcn.estimator.inputs import (
    Array,
    GraphArguments,
    NamedEdges,
    as_tensor,
    check_names,
    read_named_edges,
    read_names,
)
from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops

Places = NDArray[np.int64]

_DISTINCT = 0.95
"""Nodes are found by their features only if this share of them has features of its own."""
_EVIDENCE = np.log(1e6)
"""A column confirms that rows are nodes if other rows had it with at most this probability."""
_TURNS = 2
"""A column that rises and falls no more often is sorted: other rows may well have it."""
_COLUMNS_TRIED = 8
"""How many columns of a sparse matrix are tried, those with most entries first."""
_CHANGED = 0.1
"""At most this share of all rows may be changed throughout."""
_NO_EDGES = NamedEdges(None, np.empty((2, 0), np.int64), None)


@dataclass(frozen=True, eq=False)
class KeptGraph:
    """Nodes with features and edges, and the labels that neighbours see.

    Attributes:
        ids: The name of each node: its ``node_index``, its index in a data frame, or its
            position.
        x: Features ``[nodes, features]``, an array or a SciPy CSR matrix, 32-bit.
        edge_index: Edges between positions, undirected and unique.
        edge_weight: Their weights, if there are any.
        others: Edges to nodes that have no features yet, by name.
        by_index: Whether the index of a data frame names nodes.
        index_name: The name of that index.
        labels: The labels of the training nodes, for a model that reads them.
    """

    ids: pd.Index[Any]
    x: Any
    edge_index: Tensor
    edge_weight: Tensor | None = None
    others: NamedEdges = field(default=_NO_EDGES)
    by_index: bool = False
    index_name: str | None = None
    labels: NeighbourLabels | None = None

    @classmethod
    def read(
        cls, X: Any, edges: GraphArguments, index: pd.Index[Any] | None = None
    ) -> tuple[Self, Places]:
        """Return the graph that users describe, and the node that each row of ``X`` is.

        Args:
            X: Validated features. If ``edges.edge_index`` is a ``Data`` with features, its nodes
                are the graph, and ``X`` are some of them.
            index: The index of ``X``, if it is a data frame.
        """
        given = edges.edge_index
        if isinstance(given, Data) and given.get("x") is not None:
            whole = replace(
                cls._of_rows(features_of(given), edges._replace(node_index=None), None),
                by_index=True,
            )
            return whole, whole._find_all(X, index, edges.node_index)
        return cls._of_rows(X, edges, index), np.arange(X.shape[0])

    @classmethod
    def _of_rows(cls, X: Any, edges: GraphArguments, index: pd.Index[Any] | None) -> Self:
        rows = X.shape[0]
        named = read_named_edges(edges, rows, index)
        ids, ends, weights, others = named.names, named.ends, named.weights, _NO_EDGES
        by_index = index is not None and index.is_unique
        if ids is not None:
            check_names("the index of X", ids)
            by_index = by_index and ids.equals(index)
            ends, weights, inside = named.between(ids)
            if not inside.all():
                outer = None if named.weights is None else named.weights[~inside]
                others = NamedEdges(None, named.ends[:, ~inside], outer)
        elif by_index:
            ids = index
        if ids is None:
            ids = pd.RangeIndex(rows)
        data = Data(
            x=as_tensor(X),
            edge_index=torch.from_numpy(ends),
            edge_weight=None if weights is None else torch.from_numpy(weights),
            y=torch.full((rows,), -1),
            num_nodes=rows,
        )
        data = canonical_graph(data, "X")
        name = (
            str(index.name) if by_index and index is not None and index.name is not None else None
        )
        return cls(ids, X, data.edge_index, data.get("edge_weight"), others, by_index, name)

    @property
    def num_edges(self) -> int:
        """Edges between nodes, each direction counted."""
        return self.edge_index.size(1)

    @cached_property
    def digests(self) -> NDArray[np.uint64]:
        """A hash of the features of each node."""
        return digest_rows(self.x)

    @cached_property
    def _all_ids(self) -> pd.Index[Any]:
        """The names of all nodes; those without features come last."""
        ends = pd.Index(self.others.ends.ravel(), tupleize_cols=False).unique()
        return self.ids.append(ends.difference(self.ids, sort=False))

    def to_data(self) -> Data:
        """Return features and edges as models are trained on them."""
        return Data(
            x=as_tensor(self.x),
            edge_index=self.edge_index,
            edge_weight=self.edge_weight,
            y=torch.full((len(self.ids),), -1),
            num_nodes=len(self.ids),
        )

    def find(self, X: Any, index: pd.Index[Any] | None, node_index: Any = None) -> Places:
        """Return the node that each row is, -1 for rows that are none.

        Rows are found by ``node_index``; by the index of a data frame; by their position, if
        they are as many as the nodes; or by their features. An index of numbers without a name
        and positions are trusted only where the features confirm them (:meth:`_confirm`). So rows
        with changed columns are found as well.

        Nodes that only :attr:`others` name follow after all others.
        """
        if node_index is not None:
            return self._all_ids.get_indexer(read_names(node_index, X.shape[0], unique=False))
        nodes, rows = len(self.ids), X.shape[0]
        places = np.full(rows, -1)
        if index is not None and self.by_index:
            claimed = self._all_ids.get_indexer(index)
            is_name = index.name is not None and str(index.name) == self.index_name
            is_name |= not pd.api.types.is_integer_dtype(self.ids.dtype)
            if is_name and (claimed >= 0).any():
                return claimed
            inside = np.flatnonzero((claimed >= 0) & (claimed < nodes))
            counted = np.array_equal(claimed[inside], np.arange(len(inside)))
            if not len(inside) or self._confirm(claimed[inside], X[inside], counted=counted):
                places = claimed
        if rows == nodes and (places < 0).all() and self._confirm(np.arange(nodes), X):
            return np.arange(nodes)
        lost = np.flatnonzero(places < 0)
        if len(lost) and len(np.unique(self.digests)) >= _DISTINCT * nodes:
            single = pd.Series(np.arange(nodes), index=self.digests)
            single = single[~single.index.duplicated(keep=False)]
            found = single.index.get_indexer(pd.Index(digest_rows(X[lost])))
            places[lost[found >= 0]] = single.to_numpy()[found[found >= 0]]
        return places

    def _find_all(self, X: Any, index: pd.Index[Any] | None, node_index: Any) -> Places:
        if X.shape[1] != self.x.shape[1]:
            raise BadInput(
                f"X has {X.shape[1]} columns, but the features of the graph {self.x.shape[1]}; "
                "give the graph the features that X has, after all preprocessing"
            )
        places = self.find(X, index, node_index)
        lost = np.flatnonzero(places < 0)
        if len(lost):
            raise BadInput(
                f"row {lost[0]} of X is none of the {len(self.ids)} nodes of the graph, or one of "
                f"several with these features ({len(lost)} such rows in all); give the graph the "
                "features that X has, after all preprocessing. Nodes with equal features are told "
                "apart by node_index, or by the index of a data frame such as pd.DataFrame(X)"
            )
        return places

    def _confirm(self, places: Places, X: Any, *, counted: bool = False) -> bool:
        """Whether rows are these nodes: by all their features, a column, or most of the rows.

        Args:
            counted: The rows claim to be the first nodes, as any rows with a new index do.
        """
        if X.shape[1] != self.x.shape[1]:
            return False
        own, nodes = self.x[places], len(self.ids)
        is_changed = np.zeros(len(places), dtype=bool)
        if sp.issparse(own) or sp.issparse(X):
            own, given = sp.csc_array(own), sp.csc_array(X)
            differs: Any = own != given
            row, column = differs.tocoo().coords
            is_changed[row] = True
            filled = np.diff(own.indptr)
            filled[column] = 0
            fullest = np.argsort(-filled, kind="stable")[:_COLUMNS_TRIED]
            columns = sp.csc_array(self.x)[:, fullest[filled[fullest] > 0]].toarray()
        else:
            differs = own != X
            is_changed = differs.any(axis=1)
            columns = self.x[:, ~differs.any(axis=0)]
        if not is_changed.any() and (len(places) == nodes or not counted):
            return True
        if any(_tells_apart(column, places) for column in columns.T):
            return True
        if len(places) < nodes or is_changed.sum() > _CHANGED * nodes:
            return False
        # Rows that have moved to other places have features of other nodes.
        return not np.isin(digest_rows(X[is_changed]), self.digests).any()

    def with_rows(self, X: Any, places: Places) -> tuple[Self, Places]:
        """Return the graph with these rows as features of their nodes, and their positions.

        Rows that are no node are added, without edges unless :attr:`others` names them. No two
        rows may be the same node.
        """
        nodes = len(self.ids)
        is_new = (places < 0) | (places >= nodes)
        added = np.flatnonzero(is_new)
        positions = places.copy()
        positions[added] = nodes + np.arange(len(added))
        order = np.arange(nodes + len(added))
        order[positions] = nodes + np.arange(len(places))
        x: Any
        if sp.issparse(self.x) or sp.issparse(X):
            x = sp.csr_array(sp.vstack([self.x, X], format="csr"))[order]
        else:
            x = np.concatenate([self.x, X])[order]
        graph = replace(self, x=x, ids=pd.RangeIndex(len(order)), others=_NO_EDGES)
        if self.labels is not None:
            values, known, prior = self.labels
            graph = replace(
                graph,
                labels=NeighbourLabels(
                    torch.cat([values, values.new_zeros(len(added), values.size(1))]),
                    torch.cat([known, known.new_zeros(len(added))]),
                    prior,
                ),
            )
        named = added[places[added] >= nodes]
        if len(named):
            names = self.ids.append(self._all_ids[places[named]])
            ends, weights, _ = self.others.between(names)
            ends = np.concatenate([np.arange(nodes), positions[named]])[ends]
            data = graph.to_data()
            data.edge_index = torch.cat([self.edge_index, torch.from_numpy(ends)], dim=1)
            if weights is not None:
                assert self.edge_weight is not None
                data.edge_weight = torch.cat([self.edge_weight, torch.from_numpy(weights)])
            data = canonical_graph(data, "X")
            graph = replace(graph, edge_index=data.edge_index, edge_weight=data.get("edge_weight"))
        return graph, positions

    def shown_labels(self, X: Any, node_index: Any) -> NeighbourLabels:
        """Return the labels of rows that come with edges of their own.

        A row is known again if it has the node and the features of a row of the fit. Rows that
        come without node numbers are known if they are the rows of the fit, in the same order.
        """
        assert self.labels is not None
        digests = digest_rows(X)
        if node_index is None:
            same = np.array_equal(digests, self.digests)
            places = np.arange(len(digests)) if same else np.full(len(digests), -1)
        else:
            places = self.ids.get_indexer(pd.Index(np.asarray(node_index)))
            found = np.flatnonzero(places >= 0)
            places[found[self.digests[places[found]] != digests[found]]] = -1
        values = torch.zeros(len(places), self.labels.values.size(1))
        known = torch.zeros(len(places), dtype=torch.bool)
        is_known = torch.from_numpy(places >= 0)
        own = torch.from_numpy(places[places >= 0]).long()
        values[is_known], known[is_known] = self.labels.values[own], self.labels.known[own]
        return NeighbourLabels(values, known, self.labels.prior)

    def to_arrays(self) -> dict[str, Array]:
        """Return the content for an ``.npz`` file."""
        arrays = {"edge_index": self.edge_index.numpy(), "by_index": np.array(self.by_index)}
        if self.index_name is not None:
            arrays["index_name"] = np.array(self.index_name)
        for name, names in (("ids", self.ids), ("other_edges", self.others.ends)):
            arrays[name] = _plain_names(np.asarray(names))
        x: Any = self.x
        is_sparse = sp.issparse(x)
        if is_sparse:
            arrays |= {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data}
            arrays["x_shape"] = np.array(x.shape)
        else:
            arrays["x"] = x
        if self.edge_weight is not None:
            arrays["edge_weight"] = self.edge_weight.numpy()
        if self.others.weights is not None:
            arrays["other_weight"] = self.others.weights
        if self.labels is not None:
            assert self.labels.prior is not None
            arrays |= {"labels": self.labels.values.numpy(), "known": self.labels.known.numpy()}
            arrays["prior"] = self.labels.prior.numpy()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Read what :meth:`to_arrays` returned."""
        if "x" in arrays:
            x: Any = arrays["x"]
        else:
            parts = tuple(arrays[f"x_{part}"] for part in ("data", "indices", "indptr"))
            x = sp.csr_array(parts, shape=tuple(arrays["x_shape"].tolist()))
        labels = None
        if "labels" in arrays:
            labels = NeighbourLabels(
                *(torch.from_numpy(arrays[name]) for name in ("labels", "known", "prior"))
            )
        weight, ends = arrays.get("edge_weight"), _as_names(arrays["other_edges"])
        return cls(
            pd.Index(_as_names(arrays["ids"]), tupleize_cols=False),
            x,
            torch.from_numpy(arrays["edge_index"]),
            None if weight is None else torch.from_numpy(weight),
            NamedEdges(None, ends, arrays.get("other_weight")),
            bool(arrays["by_index"]),
            str(arrays["index_name"]) if "index_name" in arrays else None,
            labels,
        )


def unknown_labels(model: CrossHops, num_rows: int) -> NeighbourLabels:
    """Return labels of which none is known, for a model without its training labels.

    In place of the mean label, the mean over nodes of their neighbours' labels is shown.
    """
    plan = model.plan
    first = plan.num_columns - plan.label_hops * (plan.num_labels + 1) * (1 + plan.directed)
    return NeighbourLabels(
        torch.zeros(num_rows, plan.num_labels),
        torch.zeros(num_rows, dtype=torch.bool),
        model.center[first : first + plan.num_labels].double(),
    )


def digest_rows(X: Any) -> NDArray[np.uint64]:
    """Return a hash of each row, the same for dense and sparse features."""
    rows = sp.csr_array(X, dtype=np.float32, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns = rows.indices.astype(np.int64)
    digests = [
        hashlib.blake2b(columns[a:b].tobytes() + rows.data[a:b].tobytes(), digest_size=8).digest()
        for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)
    ]
    return np.frombuffer(b"".join(digests), np.dtype("<u8"))


def _tells_apart(column: Array, places: Places) -> bool:
    """Whether rows that agree with nodes in this column hardly do so by chance."""
    _, number, counts = np.unique(column, return_inverse=True, return_counts=True)
    chance = np.log(counts / len(column))[number[places]].sum()
    steps = np.diff(column)
    turns = np.count_nonzero(np.diff(np.sign(steps[steps != 0])))
    # A column that repeats has its first half again, further on: other rows may well repeat it.
    whole, half = number.tobytes(), number[: len(number) // 2].tobytes()
    return bool(-chance >= _EVIDENCE and turns > _TURNS and whole.find(half, 1) < 0)


def features_of(data: Data) -> Any:
    """Return the features of a graph as an array or a SciPy CSR matrix, 32-bit."""
    x = data.x
    if x.layout != torch.strided:
        return sp.csr_array(SparseMatrix.from_torch(x.to_sparse_csr()).to_scipy())
    return x.detach().cpu().numpy().astype(np.float32)


def _plain_names(names: Array) -> Array:
    if names.dtype.kind in "iuU":
        return names
    if names.size and all(isinstance(name, str) for name in names.flat):
        return names.astype(str)
    if all(isinstance(name, int | np.integer) for name in names.flat):
        return names.astype(np.int64)
    raise BadInput("nodes are named by neither numbers nor texts, so the graph cannot be saved")


def _as_names(names: Array) -> Array:
    return names.astype(object) if names.dtype.kind == "U" else names
