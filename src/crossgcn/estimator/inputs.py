"""The classifier's inputs: edges, features and labels as users of scikit-learn give them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.graph import canonical_graph
from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.models.node_classifier import NodeClassifier

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
        edges, kept = _find_rows(edges, names)
        edges = edges[:, kept]
        weights = None if weights is None else weights[kept]
    _check_ends(edges, num_nodes)
    return torch.from_numpy(edges), None if weights is None else torch.from_numpy(weights)


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
    weights = weights.astype(np.float32)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise BadInput(
            f"edge_weight[{bad[0]}] is {weights[bad[0]]} ({len(bad)} such in all); give weights "
            "that are finite and not negative"
        )
    return weights


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
    weights = values.astype(np.float32)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise BadInput(
            f"the adjacency has {weights[bad[0]]} from node {source[bad[0]]} to node "
            f"{target[bad[0]]} ({len(bad)} such in all); give weights that are finite and not "
            "negative"
        )
    return np.stack([source, target]), weights


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


def _find_rows(edges: Array, names: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the row of each end, and which edges have both ends."""
    order = np.argsort(names)
    places = np.searchsorted(names, edges, sorter=order).clip(max=len(names) - 1)
    rows = order[places]
    kept: NDArray[np.bool_] = (names[rows] == edges).all(axis=0)
    return rows, kept


def _check_ends(edges: Array, num_nodes: int) -> None:
    bad = np.argwhere(((edges < 0) | (edges >= num_nodes)).T)
    if len(bad):
        edge, end = bad[0]
        raise BadInput(
            f"edge_index[{end}, {edge}] is {edges[end, edge]}, but X has {num_nodes} rows; use 0 "
            f"to {num_nodes - 1}, or say with node_index which node each row of X is, as in "
            "cross-validation: edges to other nodes are then left out"
        )


def _array(values: Any) -> Array:
    return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)


def prepare_graph(x: Any, edge_index: Any, edge_weight: Any, node_index: Any) -> PreparedGraph:
    """Return features and adjacency; edges are made undirected and unique.

    Args:
        x: Features ``[rows, features]``, 32-bit floats, dense or SciPy CSR, which stays sparse.
        edge_index: As for :func:`read_edges`, like the others.
        node_index: The node that each row is.
    """
    rows = x.shape[0]
    edges, weights = read_edges(edge_index, edge_weight, node_index, rows)
    no_labels = torch.full((rows,), -1)
    data = Data(x=_tensor(x), edge_index=edges, edge_weight=weights, y=no_labels, num_nodes=rows)
    data = canonical_graph(data, "X")
    return PreparedGraph(data.x, data.edge_index, data.get("edge_weight"))


@torch.no_grad()
def score_rows(model: NodeClassifier, graph: PreparedGraph) -> NDArray[np.float64]:
    """Return the class scores of every row, before any softmax.

    They are computed in 64 bits, so that rounding does not depend on how many rows are scored
    together.
    """
    x = _in_64_bits(graph.x) if isinstance(graph.x, SparseMatrix) else graph.x.double()
    hops = [_in_64_bits(graph.edges(kind)) for kind in model.propagations]
    scores: Tensor = deepcopy(model).double().eval()(x, hops)
    return scores.numpy()


def _tensor(x: Any) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))
    # Dropout would treat a stored zero, or one entry in two parts, unlike other entries.
    canonical = x.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return csr_tensor(canonical.indptr, canonical.indices, canonical.data, canonical.shape)


def _in_64_bits(matrix: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(matrix.row_offsets, matrix.columns, matrix.values.double(), matrix.shape)


Labels = NDArray[Any]

AUTO = "auto"


def encode_labels(y: Labels, unlabelled: object = AUTO) -> tuple[Labels, Tensor]:
    """Return the sorted classes and the number of each row's class, ``-1`` without a label.

    Raises:
        BadInput: If there are fewer than two classes, or labels of several types.
        ValueError: If the labels are not classes, such as the target of a regression.
    """
    labelled = ~find_unlabelled(y, unlabelled)
    if not labelled.any():
        raise BadInput(
            f"y marks all {len(y)} rows as unlabelled; give rows of at least two classes"
        )
    known = tidy_labels(y[labelled])
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(
            f"y has one class, {classes.tolist()[0]!r}, in its {len(known)} labelled rows; "
            "give rows of at least two classes"
        )
    codes = np.full(len(y), -1, dtype=np.int64)
    codes[labelled] = numbers
    return classes, torch.from_numpy(codes)


def find_unlabelled(
    y: Labels, unlabelled: object = AUTO, classes: Labels | None = None
) -> NDArray[np.bool_]:
    """Return which rows have no label.

    Args:
        y: A label per row.
        unlabelled: The value that means no label; ``None`` if every row has one. ``"auto"`` is
            ``-1``, as a number or as text, unless all other labels are ``1``: then ``-1`` and
            ``1`` are the two classes.
        classes: Of a fitted classifier; these values are labels.
    """
    missing = [row for row, label in enumerate(y.tolist()) if label is None]
    if missing:
        raise BadInput(
            f"y row {missing[0]} is None ({len(missing)} such in all); mark rows without a label "
            "by -1"
        )
    if unlabelled is None:
        return np.zeros(len(y), dtype=bool)
    if unlabelled != AUTO:
        return _equal_to(y, unlabelled)
    found = _equal_to(y, -1, "-1")
    if classes is not None:
        return found & (not _equal_to(classes, -1, "-1").any())
    others = y[~found]
    two_classes = len(others) > 0 and _equal_to(others, 1, "1").all()
    return found & (not two_classes)


def tidy_labels(labels: Labels) -> Labels:
    """Convert an array of objects to booleans or numbers; texts are not changed.

    Raises:
        BadInput: If there are labels of several types, which cannot be sorted.
    """
    if labels.dtype != object or all(isinstance(label, str) for label in labels):
        return labels
    kinds = {bool: bool | np.bool_, np.int64: Integral, np.float64: Real}
    for dtype, kind in kinds.items():
        if all(isinstance(label, kind) for label in labels):
            return labels.astype(dtype)
    types = sorted({type(label).__name__ for label in labels})
    raise BadInput(
        f"y has labels of types {' and '.join(types)}; give all as texts, all as numbers or all "
        "as booleans"
    )


def describe_labels(classes: Labels) -> dict[str, Any]:
    """Return the classes and their type, for JSON."""
    return {"dtype": classes.dtype.str, "values": classes.tolist()}


def restore_labels(description: Mapping[str, Any], count: int) -> Labels:
    """Return the classes from :func:`describe_labels`, of which there must be ``count``."""
    try:
        classes: Labels = np.array(description["values"], dtype=np.dtype(description["dtype"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the saved labels cannot be read ({error}); save the model again") from None
    if classes.shape != (count,):
        raise BadInput(f"{classes.size} labels are saved for {count} classes; save the model again")
    return classes


def _equal_to(labels: Labels, *values: object) -> NDArray[np.bool_]:
    """Compare each label without converting it: a number never equals a text."""
    return np.array([label in values for label in labels.tolist()], dtype=bool)
