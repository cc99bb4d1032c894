"""The graph of an estimator: features and edges as users of scikit-learn give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.graph import canonical_graph
from crossgcn.errors import BadInput

Array = NDArray[Any]


def read_edges(
    edge_index: Any, edge_weight: Any, node_index: Any, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Return edges between positions of rows, ``[2, edges]``, and their weights, if any.

    Args:
        edge_index: Integers ``[2, edges]``, an array or a tensor; or a SciPy sparse adjacency,
            whose values are weights unless all are 1; or ``None`` for no edges.
        edge_weight: One weight per edge of an array.
        node_index: The node of ``edge_index`` that each row is, if not its position. Edges to
            other nodes are left out.
        num_nodes: The number of rows.
    """
    names = None if node_index is None else _read_names(node_index, num_nodes)
    if edge_index is None:
        if edge_weight is not None:
            raise BadInput("edge_weight is given without edge_index; give both or neither")
        return torch.empty(2, 0, dtype=torch.int64), None
    if sp.issparse(edge_index):
        if edge_weight is not None:
            raise BadInput(
                "edge_weight goes with edges [2, edges]; a sparse adjacency holds its weights "
                "as values"
            )
        edges, weights = _read_adjacency(edge_index, names, num_nodes)
    else:
        edges = _read_array(edge_index)
        weights = None if edge_weight is None else _read_weights(edge_weight, edges.shape[1])
    if names is not None:
        edges = pd.Index(names).get_indexer(pd.Index(edges.ravel())).reshape(edges.shape)
        kept = (edges >= 0).all(axis=0)
        edges, weights = edges[:, kept], None if weights is None else weights[kept]
    _check_ends(edges, num_nodes)
    return torch.from_numpy(edges), None if weights is None else torch.from_numpy(weights)


def _array(values: Any) -> Array:
    return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)


def _read_array(edge_index: Any) -> Array:
    edges = _array(edge_index)
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
    adjacency: Any, names: Array | None, num_nodes: int
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
        source = names[source]
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


def _read_names(node_index: Any, num_nodes: int) -> Array:
    names = _array(node_index)
    if names.shape != (num_nodes,) or names.dtype.kind not in "iu":
        raise BadInput(
            f"node_index is {names.dtype} {list(names.shape)}; give integers [{num_nodes}], the "
            "number of each row of X in edge_index"
        )
    values, first, counts = np.unique(names, return_index=True, return_counts=True)
    if len(values) < num_nodes:
        repeated = int(np.argmax(counts > 1))
        raise BadInput(
            f"node_index has {values[repeated]} {counts[repeated]} times, first in row "
            f"{first[repeated]}; give every row of X a number of its own"
        )
    return names.astype(np.int64)


def _check_ends(edges: Array, num_nodes: int) -> None:
    bad = np.argwhere(((edges < 0) | (edges >= num_nodes)).T)
    if len(bad):
        edge, end = bad[0]
        raise BadInput(
            f"edge_index[{end}, {edge}] is {edges[end, edge]}, but X has {num_nodes} rows; use 0 "
            f"to {num_nodes - 1}, or say with node_index which node each row of X is, as in "
            "cross-validation: edges to other nodes are then left out"
        )


def read_graph(x: Any, edge_index: Any, edge_weight: Any, node_index: Any) -> Data:
    """Return features and edges, which are made undirected and unique.

    Features are 32-bit floats, dense or SciPy CSR, which stays sparse; for edges see
    :func:`read_edges`.
    """
    rows = x.shape[0]
    edges, weights = read_edges(edge_index, edge_weight, node_index, rows)
    no_labels = torch.full((rows,), -1)
    data = Data(x=_tensor(x), edge_index=edges, edge_weight=weights, y=no_labels, num_nodes=rows)
    return canonical_graph(data, "X")


def _tensor(x: Any) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))
    # Dropout would treat a stored zero, or one entry in two parts, unlike other entries.
    canonical = x.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return csr_tensor(canonical.indptr, canonical.indices, canonical.data, canonical.shape)
