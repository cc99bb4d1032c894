"""The graph of an estimator: features and edges as users of scikit-learn give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.edge_index import EdgeIndex

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput

Array = NDArray[Any]


class GraphArguments(NamedTuple):
    """The graph as users give it to ``fit`` and ``predict``."""

    edge_index: Any = None
    edge_weight: Any = None
    node_index: Any = None


class NamedEdges(NamedTuple):
    """Edges between nodes that have names, or between positions of rows.

    Attributes:
        names: The node that each row is; ``None`` for its position.
        ends: The two nodes of each edge, ``[2, edges]``.
        weights: One per edge, if there are any.
    """

    names: pd.Index[Any] | None
    ends: Array
    weights: Array | None

    def between(self, names: pd.Index[Any]) -> tuple[Array, Array | None, Array]:
        """Return edges between positions of names, their weights, and which edges these are."""
        given: pd.Index[Any] = pd.Index(self.ends.ravel(), tupleize_cols=False)
        ends = names.get_indexer(given).reshape(self.ends.shape)
        kept = np.all(ends >= 0, axis=0)
        return ends[:, kept], None if self.weights is None else self.weights[kept], kept


def read_named_edges(
    edges: GraphArguments, num_nodes: int, index: pd.Index[Any] | None = None
) -> NamedEdges:
    """Read edges in any form that :meth:`CrossGCNClassifier.fit` takes.

    Args:
        num_nodes: The number of rows of ``X``.
        index: Names of the rows, if ``X`` is a data frame.
    """
    edge_index, edge_weight, node_index = edges
    names = None if node_index is None else read_names(node_index, num_nodes)
    if edge_index is None:
        if edge_weight is not None:
            raise BadInput("edge_weight is given without edge_index; give both or neither")
        return NamedEdges(names, np.empty((2, 0), np.int64), None)
    if (isinstance(edge_index, Data) or _is_labelled(edge_index)) and edge_weight is not None:
        raise BadInput(
            f"edge_weight goes with edges [2, edges]; a {type(edge_index).__name__} holds its own "
            "weights"
        )
    if isinstance(edge_index, HeteroData):
        raise BadInput(
            "edge_index is a HeteroData, with several kinds of nodes or edges; give one Data, such "
            "as .to_homogeneous(), or the edges of one kind"
        )
    size: int | None = None
    if isinstance(edge_index, Data):
        edge_weight, size = edge_index.get("edge_weight"), edge_index.get("num_nodes")
        edge_index = edge_index.edge_index
        if edge_index is None:
            raise BadInput("edge_index is a Data without edge_index; add it")
    if isinstance(edge_index, EdgeIndex) and size is None:
        size = next((each for each in edge_index.sparse_size() if each is not None), None)
    if names is None and size not in (None, num_nodes):
        raise BadInput(
            f"edge_index has {size} nodes, but X has {num_nodes} rows; say with node_index which "
            "node each row is"
        )
    if _is_labelled(edge_index):
        if names is None:
            names = _names_of(edge_index, num_nodes, index)
        return _read_labelled(edge_index, names, num_nodes)
    if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        entries = torch.Tensor.to_sparse(edge_index.detach().cpu()).coalesce()
        numbers: Any = entries.values().numpy(), entries.indices().numpy()
        edge_index = sp.coo_array(numbers, tuple(entries.shape))
    if sp.issparse(edge_index):
        if edge_weight is not None:
            raise BadInput(
                "edge_weight goes with edges [2, edges]; a sparse adjacency holds its weights "
                "as values"
            )
        ends, weights = _read_adjacency(edge_index, names, num_nodes)
    else:
        ends = _read_array(edge_index)
        weights = None if edge_weight is None else _read_weights(edge_weight, ends.shape[1])
    if names is None:
        _check_ends(ends, num_nodes)
    return NamedEdges(names, ends, weights)


def _is_labelled(edges: Any) -> bool:
    """Whether edges lie between names of nodes: a data frame or a graph of networkx."""
    return isinstance(edges, pd.DataFrame) or hasattr(edges, "adjacency")


def _names_of(edges: Any, num_nodes: int, index: pd.Index[Any] | None) -> pd.Index[Any] | None:
    """Return the names of the rows: their index, or the nodes of networkx in their order."""
    if index is not None:
        return index
    if isinstance(edges, pd.DataFrame) or set(edges) <= set(range(num_nodes)):
        return None
    if len(edges) != num_nodes:
        raise BadInput(
            f"edge_index has {len(edges)} nodes, but X has {num_nodes} rows; say with node_index, "
            "or by the index of a data frame X, which node each row is"
        )
    names: pd.Index[Any] = pd.Index(list(edges), tupleize_cols=False)
    return names


def _read_labelled(edges: Any, names: pd.Index[Any] | None, num_nodes: int) -> NamedEdges:
    if isinstance(edges, pd.DataFrame):
        if edges.shape[1] not in (2, 3):
            raise BadInput(
                f"edge_index is a data frame with columns {', '.join(map(str, edges.columns))}; "
                "give two columns of nodes, and a third one if edges have weights"
            )
        counted = np.array_equal(edges.index, np.arange(len(edges)))
        if len(edges) == num_nodes and not counted:
            raise BadInput(
                f"edge_index is a data frame of {num_nodes} edges for as many rows of X, with gaps "
                "in its index: cross-validation cuts whatever is as long as X. Give it to the "
                "estimator, graph=edges; or reset_index(drop=True), if nothing is missing"
            )
        columns = [edges.iloc[:, place].to_numpy() for place in range(edges.shape[1])]
        missing = np.flatnonzero(pd.isna(edges.iloc[:, :2]).any(axis=1))
        if len(missing):
            raise BadInput(
                f"edge_index has no node at one end of row {missing[0]} ({len(missing)} such rows "
                "in all); leave these edges out"
            )
    else:
        triples = list(edges.edges(data="weight"))
        columns = [_objects([triple[place] for triple in triples]) for place in range(3)]
        if all(weight is None for weight in columns[2]):
            del columns[2]
        else:
            columns[2] = np.array([1.0 if w is None else w for w in columns[2]])
    sources, targets = columns[:2]
    weights = _read_weights(columns[2], len(sources)) if len(columns) > 2 else None
    if names is None:
        pairs = np.stack([sources, targets])
        if pairs.size and pd.api.types.infer_dtype(pairs.ravel()) != "integer":
            raise BadInput(
                f"edge_index has a node {pairs.flat[0]!r}, but X has no names of rows; give X as "
                "a data frame whose index is the nodes, or node_index"
            )
        ends = pairs.astype(np.int64)
        _check_ends(ends, num_nodes)
        return NamedEdges(None, ends, weights)
    return NamedEdges(names, np.stack([_objects(sources), _objects(targets)]), weights)


def _objects(values: Any) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _array(values: Any) -> Array:
    if isinstance(values, Tensor):
        return values.detach().as_subclass(Tensor).numpy(force=True)  # EdgeIndex is a subclass
    return np.asarray(values)


def _read_array(edge_index: Any) -> Array:
    try:
        edges = _array(edge_index)
    except ValueError:
        raise BadInput(
            f"edge_index is a {type(edge_index).__name__} of unequal parts; give integers "
            "[2, edges]. (Cross-validation cuts whatever is as long as X, such as a networkx graph "
            "of all rows: give that to the estimator, graph=...)"
        ) from None
    if edges.ndim != 2 or edges.shape[0] != 2 or not (edges.dtype.kind in "iu" or edges.size == 0):
        turned = edges.ndim == 2 and edges.shape[1] == 2
        hint = ", such as edge_index.T of this one" if turned else ""
        raise BadInput(
            f"edge_index is {edges.dtype} {list(edges.shape)}; give integers [2, edges]{hint}, "
            "or a SciPy sparse adjacency [rows, rows]"
        )
    return edges.astype(np.int64)


def _read_weights(edge_weight: Any, num_edges: int) -> Array:
    weights = _array(edge_weight)
    if weights.shape != (num_edges,) or weights.dtype.kind not in "iuf":
        raise BadInput(
            f"edge_weight is {weights.dtype} {list(weights.shape)}; give numbers [{num_edges}], "
            "one per edge. (Cross-validation cuts whatever is as long as X: where there happen to "
            "be as many edges as rows, give a SciPy sparse adjacency instead)"
        )
    return _check_weights(weights, lambda edge, weight: f"edge_weight[{edge}] is {weight}")


def _read_adjacency(
    adjacency: Any, names: pd.Index[Any] | None, num_nodes: int
) -> tuple[Array, Array | None]:
    """Return edges between nodes of ``node_index``, and weights."""
    entries = sp.coo_array(adjacency)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    rows, columns = entries.shape
    source, target = (ends.astype(np.int64) for ends in entries.coords)
    if rows != columns:
        # Cross-validation took the rows of a fold, but left all columns.
        if names is None or rows != num_nodes:
            raise BadInput(
                f"edge_index is a sparse adjacency [{rows}, {columns}] for {num_nodes} rows; give "
                "a square one; with cross-validation give node_index=np.arange(len(X)) as well"
            )
        source = np.asarray(names[source])
    elif names is None and rows != num_nodes:
        raise BadInput(
            f"edge_index is a sparse adjacency [{rows}, {columns}], but X has {num_nodes} rows; "
            f"give [{num_nodes}, {num_nodes}], or node_index to say which node each row of X is"
        )
    values = entries.data
    if values.dtype.kind == "b" or bool((values == 1).all()):
        return np.stack([source, target]), None

    def describe(edge: int, weight: float) -> str:
        return f"the adjacency has {weight} from node {source[edge]} to node {target[edge]}"

    return np.stack([source, target]), _check_weights(values, describe)


def _check_weights(values: Array, describe: Callable[[int, float], str]) -> Array:
    weights = values.astype(np.float32)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise BadInput(
            f"{describe(bad[0], weights[bad[0]])} ({len(bad)} such in all); give weights that "
            "are finite and not negative"
        )
    return weights


def read_names(node_index: Any, num_nodes: int, *, unique: bool = True) -> pd.Index[Any]:
    """Return the node that each row is, checked."""
    values = node_index if isinstance(node_index, pd.Index) else _array(node_index)
    if values.shape != (num_nodes,) or values.dtype.kind in "fcb":
        raise BadInput(
            f"node_index is {values.dtype} {list(values.shape)}; give integers [{num_nodes}], the "
            "number of each row of X in edge_index, or names"
        )
    names = pd.Index(values, tupleize_cols=False)
    if unique:
        check_names("node_index", names)
    return names


def check_names(what: str, names: pd.Index[Any]) -> None:
    """Refuse names that several rows have."""
    if names.is_unique:
        return
    repeated = names[names.duplicated()][0]
    rows = np.flatnonzero(names == repeated)
    raise BadInput(
        f"{what} has {repeated} {len(rows)} times, first in row {rows[0]}; give every row of X a "
        "number of its own"
    )


def _check_ends(edges: Array, num_nodes: int) -> None:
    bad = np.argwhere(((edges < 0) | (edges >= num_nodes)).T)
    if len(bad):
        edge, end = bad[0]
        raise BadInput(
            f"edge_index[{end}, {edge}] is {edges[end, edge]}, but X has {num_nodes} rows; use 0 "
            f"to {num_nodes - 1}, or say with node_index which node each row of X is, as in "
            "cross-validation: edges to other nodes are then left out"
        )


def as_tensor(x: Any) -> Tensor:
    """Return features as layers take them: dense, or sparse if they are a SciPy matrix."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))
    # Dropout would treat a stored zero, or one entry in two parts, unlike other entries.
    canonical = x.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return csr_tensor(canonical.indptr, canonical.indices, canonical.data, canonical.shape)
