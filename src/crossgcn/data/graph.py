"""Check graphs, convert them to the canonical form, and read and write graph files.

A graph file is one ``.npz`` with these arrays:

================  ==========================  =======================================
array             kind                        meaning
================  ==========================  =======================================
``x``             numbers [N, D]              dense features, or instead of it the four
``x_indptr``      integers [N + 1]            ... of a CSR matrix: where rows start
``x_indices``     integers [nnz]              ... column of each value
``x_data``        numbers [nnz]               ... the values
``x_shape``       integers [2]                ... N and D
``edge_index``    integers [2, E]             ends of each edge; one direction is enough
``edge_weight``   numbers [E], optional       weight of each edge, not negative; default 1
``directed``      one boolean, optional       true if edges lead from the first to the
                                              second end
``y``             integers or floats [N]      class of each node, -1 if unlabelled; or
                                              number to predict, NaN if unknown
``num_classes``   one integer, optional       needed if a class has no labelled node
``roles``         integers [S, N], optional   one row per split: 0 none, 1 train,
                                              2 validation, 3 test
``train_mask``    booleans [N] or [N, S],     with ``val_mask`` and ``test_mask``,
                  optional                    instead of ``roles``
``node_time``     numbers [N], optional       time of each node, NaN if unknown
``relations``     texts [R], optional         names of several relations, whose edges are in
                                              ``edge_index_0``, ``edge_weight_0``,
                                              ``directed_0``, ``edge_index_1`` and so on
================  ==========================  =======================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from crossgcn.data.features import csr_tensor
from crossgcn.data.files import Arrays, read_npz, write_npz
from crossgcn.data.relations import (
    Relation,
    join_edges,
    merge_columns,
    read_relations,
    relation_arrays,
    relations_of,
)
from crossgcn.data.tables.cells import MOST_WEIGHT
from crossgcn.errors import BadInput

ROLE_NAMES = ("none", "train", "validation", "test")
"""Meaning of the numbers 0 to 3 in ``roles``."""

MASK_NAMES = ("train_mask", "val_mask", "test_mask")
"""Masks as PyG names them, in the order of the roles 1 to 3."""

MOST_FEATURE = 1e18
"""The largest absolute value of a feature; squares of larger ones overflow 32-bit floats."""

MOST_CLASSES = 1000
"""Maximum number of classes, unless the graph has more nodes."""

_CSR_NAMES = ("x_indptr", "x_indices", "x_data", "x_shape")
_NAMES = ("x", "edge_index", "edge_weight", "y", "roles", "node_time", *MASK_NAMES)


def canonical_graph(data: Data, where: str = "data", *, joined: bool = True) -> Data:
    """Check a graph and return its canonical form.

    Edges become undirected, unique and sorted; with ``directed=True`` they keep their direction.
    Self-loops are kept. Repeated edges get the mean of their weights. Features and weights become
    32-bit floats. PyG's masks (``train_mask``, ``val_mask``, ``test_mask``) become ``roles``, one
    row per split. Missing ``name`` and ``num_classes`` are added. Float labels are numbers to
    predict, with ``num_classes=1``. A graph in canonical form does not change.

    Of several relations, ``edge_index`` holds the edges of all, undirected and without weights.

    Args:
        data: At least ``x``, ``y``, and ``edge_index`` or ``relations``, a tuple of
            :class:`~crossgcn.data.relations.Relation`; it is not changed. Weights
            are ``edge_weight [E]``; ``edge_attr`` is ignored.
        where: What to call the graph in messages, and its name if it has none.
        joined: Whether ``edge_index`` of several relations is needed; otherwise it is empty, which
            saves memory.

    Raises:
        BadInput: If a tensor is invalid; the message names position, value and remedy.
    """
    x = _features(data.x, where)
    num_nodes = x.shape[0]
    y, num_classes = _labels(data, num_nodes, where)
    relations = tuple(_canonical(each, num_nodes, where) for each in relations_of(data))
    is_one = len(relations) == 1
    edges = join_edges(relations if joined or is_one else (), num_nodes)
    times = data.get("node_time")
    if times is not None:
        fits = isinstance(times, Tensor) and times.shape == (num_nodes,)
        _require(fits, "node_time", times, f"numbers [{num_nodes}]", where)
        times = times.double()
    return Data(
        x=x,
        edge_index=edges.edge_index,
        edge_weight=edges.edge_weight,
        y=y,
        name=data.get("name", where),
        num_classes=num_classes,
        num_nodes=num_nodes,
        directed=edges.directed or None,
        roles=_roles(data, num_nodes, where),
        relations=None if is_one and relations[0].is_plain else relations,
        node_time=times,
    )


def is_labelled(y: Tensor) -> Tensor:
    """Return which nodes have a label: a class from 0 up, or a number that is not NaN."""
    return ~y.isnan() if y.is_floating_point() else y >= 0


def _require(fits: bool, name: str, value: object, wanted: str, where: str) -> None:
    """Raise an error that describes ``value`` and what is wanted, unless it fits."""
    if fits:
        return
    found = "missing" if value is None else f"of type {type(value).__name__}"
    if isinstance(value, Tensor):
        layout = "" if value.layout == torch.strided else f" in layout {value.layout}"
        found = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}{layout}"
    raise BadInput(f"{where}: {name} is {found}; it must be {wanted}")


def _refuse(wrong: Tensor, name: str, values: Tensor, remedy: str, where: str) -> None:
    """Raise an error that names the first wrong element, if there is one."""
    places = torch.nonzero(wrong)
    if len(places):
        place = places[0].tolist()
        value = values[tuple(place)].item()
        shown = f"{value:g}" if isinstance(value, float) else value
        raise BadInput(f"{where}: {name}{place} is {shown} ({len(places):,} such in all); {remedy}")


def _features(x: Any, where: str) -> Tensor:
    fits = isinstance(x, Tensor) and x.dim() == 2 and x.layout in (torch.strided, torch.sparse_csr)
    wanted = "float [nodes, features], dense or x.to_sparse_csr(), with at least one of each"
    _require(fits and min(x.shape) > 0, "x", x, wanted, where)
    is_sparse = x.layout == torch.sparse_csr
    values = (x.values() if is_sparse else x).float()
    if not is_sparse:
        x = values
    elif x.dtype != torch.float32:
        x = csr_tensor(x.crow_indices(), x.col_indices(), values, tuple(x.shape))
    bad = ~(values.abs() <= MOST_FEATURE)
    if bad.any():
        places = x.to_sparse_coo().indices().t()[bad] if is_sparse else bad.nonzero()
        row, column = places[0].tolist()
        raise BadInput(
            f"{where}: x row {row}, column {column} is {float(values[bad][0]):g} "
            f"({len(places)} such in all); replace missing values by finite numbers, and scale "
            f"features beyond {MOST_FEATURE:g}, whose products overflow 32-bit floats"
        )
    features: Tensor = x
    return features


def _labels(data: Data, num_nodes: int, where: str) -> tuple[Tensor, int]:
    """Return the labels and the number of classes, which is 1 for numbers to predict."""
    y, num_classes = data.y, data.get("num_classes")
    fits = isinstance(y, Tensor) and (y.dtype == torch.int64 or y.is_floating_point())
    wanted = f"int64 [{num_nodes}], -1 for unlabelled; or float, NaN for unlabelled"
    _require(fits and y.shape == (num_nodes,), "y", y, wanted, where)
    if y.is_floating_point():
        if num_classes not in (None, 1):
            raise BadInput(
                f"{where}: y holds numbers, but num_classes is {num_classes}; write classes as "
                "integers, or leave num_classes out"
            )
        _refuse(y.isinf(), "y", y, "give a finite number, or NaN where it is unknown", where)
        return y, 1
    num_classes = int(y.max()) + 1 if num_classes is None else num_classes
    if num_classes > max(num_nodes, MOST_CLASSES):
        raise BadInput(
            f"{where}: there are {num_classes:,} classes but {num_nodes:,} nodes; number the "
            "classes 0, 1, 2, ... without gaps"
        )
    remedy = (
        f"labels are 0, 1, 2, ..., and -1 for unlabelled, and num_classes is {num_classes}: raise "
        "it, or use labels below it"
    )
    _refuse((y < -1) | (y >= num_classes), "y", y, remedy, where)
    return y, num_classes


def _canonical(relation: Relation, num_nodes: int, where: str) -> Relation:
    """Return unique edges and their weights; those of a directed graph are sorted by target."""
    ends, weight, directed = relation[1:4]
    num_targets = num_nodes if relation.things is None else len(relation.things)
    fits = isinstance(ends, Tensor) and ends.dim() == 2 and ends.shape[0] == 2
    _require(fits and ends.dtype == torch.int64, "edge_index", ends, "int64 [2, edges]", where)
    limits = torch.tensor([[num_nodes], [num_targets]])
    remedy = f"the graph has {num_nodes} nodes: use 0 to {num_nodes - 1}, or add rows to x"
    _refuse((ends < 0) | (ends >= limits), "edge_index", ends, remedy, where)
    if relation.things is not None:
        return relation._replace(edge_index=coalesce(ends, num_nodes=max(num_nodes, num_targets)))
    if weight is not None:
        merged, weight = _merge_weights(ends, weight, num_nodes, directed, where)
    elif directed:
        merged = coalesce(ends, num_nodes=num_nodes, sort_by_row=False)
    else:
        merged = _both_ways(ends, num_nodes)
    if relation.edge_attr is not None:
        relation = relation._replace(edge_attr=merge_columns(relation, merged, num_nodes))
    return relation._replace(edge_index=merged, edge_weight=weight)


def _both_ways(ends: Tensor, num_nodes: int) -> Tensor:
    """Return unique edges in both directions, sorted: PyG's ``to_undirected`` in less memory."""
    first, second = ends.numpy()
    keys = np.concatenate([first * num_nodes + second, second * num_nodes + first])
    keys.sort()
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
    both = np.empty((2, len(keys)), np.int64)
    np.floor_divide(keys, num_nodes, out=both[0])
    np.remainder(keys, num_nodes, out=both[1])
    return torch.from_numpy(both)


def _merge_weights(
    ends: Tensor, weight: Any, num_nodes: int, directed: bool, where: str
) -> tuple[Tensor, Tensor]:
    """Return unique edges, and the mean weight of each."""
    fits = isinstance(weight, Tensor) and weight.shape == ends.shape[1:]
    _require(fits, "edge_weight", weight, f"float [{ends.shape[1]}], one per edge", where)
    weight = weight.float()
    remedy = (
        f"weights must be finite, not negative and at most {MOST_WEIGHT:g}, because adjacencies "
        "are normalised by the root of their sums; divide all weights by the largest if needed"
    )
    _refuse(~((weight >= 0) & (weight <= MOST_WEIGHT)), "edge_weight", weight, remedy, where)
    # Average one direction only, so that both directions get identical weights.
    ends = ends if directed else ends.sort(dim=0).values
    ends, weight = coalesce(
        ends, weight.double(), num_nodes, reduce="mean", sort_by_row=not directed
    )
    if not directed:
        ends, weight = to_undirected(ends, weight, num_nodes, reduce="mean")
    return ends, weight.float()


def _roles(data: Data, num_nodes: int, where: str) -> Tensor | None:
    """Return the splits of a graph, ``[S, N]`` in int8, from ``roles`` or from its masks."""
    roles, masks = data.get("roles"), {name: data.get(name) for name in MASK_NAMES}
    given = [name for name in masks if masks[name] is not None]
    if given and roles is not None:
        raise BadInput(f"{where}: has both roles and {given[0]}; keep one of the two")
    if given:
        return _roles_of_masks(masks, num_nodes, where)
    if roles is None:
        return None
    fits = isinstance(roles, Tensor) and roles.dim() == 2 and roles.shape[1] == num_nodes
    fits = fits and len(roles) > 0 and roles.dtype != torch.bool and not roles.is_floating_point()
    _require(fits, "roles", roles, f"integers [splits, {num_nodes}]", where)
    wrong = (roles < 0) | (roles >= len(ROLE_NAMES))
    _refuse(wrong, "roles", roles, "use 0 none, 1 train, 2 validation, 3 test", where)
    narrow: Tensor = roles.to(torch.int8)
    return narrow


def _roles_of_masks(masks: dict[str, Any], num_nodes: int, where: str) -> Tensor:
    """Convert masks to roles; ``[N, S]`` has one column per split, ``[N]`` is for all splits."""
    matrices = [m for m in masks.values() if isinstance(m, Tensor) and m.dim() == 2]
    num_splits = max((matrix.shape[1] for matrix in matrices), default=1)
    wanted = f"booleans [{num_nodes}] or [{num_nodes}, {num_splits}], as all of {', '.join(masks)}"
    rows = []
    for name, mask in masks.items():
        fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() > 0
        fits = fits and len(mask) == num_nodes and mask[0].numel() in (1, num_splits)
        _require(fits, name, mask, wanted, where)
        rows.append(mask.reshape(num_nodes, -1).t().expand(num_splits, num_nodes))
    stacked = torch.stack(rows)
    for split, node in torch.nonzero(stacked.sum(0) > 1)[:1].tolist():
        first, second = (MASK_NAMES[at] for at in torch.nonzero(stacked[:, split, node])[:2, 0])
        raise BadInput(
            f"{where}: split {split}, node {node} is in {first} and in {second}; a node has one "
            "role: remove it from one of the two"
        )
    return (stacked * torch.tensor([1, 2, 3]).view(3, 1, 1)).sum(0).to(torch.int8)


def read_graph(path: Path | str) -> Data:
    """Read a graph file, whose arrays :mod:`crossgcn.data.graph` lists.

    The graph has the canonical form (:func:`~crossgcn.data.canonical_graph`) and the name of the
    file. Features are not normalised.
    """
    path = Path(path)
    arrays = read_npz(path)
    parts: dict[str, Any] = {
        name: _as_tensor(arrays[name], name, path) for name in _NAMES if name in arrays
    }
    if "x" not in arrays:
        parts["x"] = _sparse_features(arrays, path)
    try:
        parts["relations"] = read_relations(arrays)
    except (TypeError, ValueError, KeyError) as error:
        raise BadInput(f"{path}: the arrays of its relations do not fit ({error})") from None
    for name, kinds, wanted in (("num_classes", "iu", "integer"), ("directed", "b", "boolean")):
        if name in arrays:
            if arrays[name].dtype.kind not in kinds or arrays[name].size != 1:
                raise _wrong(arrays[name], name, path, f"one {wanted}")
            parts[name] = arrays[name].item()
    return canonical_graph(Data(**parts, name=path.stem), str(path))


def save_graph(path: Path | str, data: Data) -> None:
    """Write the canonical form of a graph to an ``.npz`` file; equal graphs give equal bytes."""
    data = canonical_graph(data, "the graph to save")
    x: Tensor = data.x
    if x.layout == torch.sparse_csr:
        index = np.int32 if max(x.shape[1], len(x.values())) < 2**31 else np.int64
        arrays: Arrays = {
            "x_indptr": x.crow_indices().numpy(force=True).astype(index),
            "x_indices": x.col_indices().numpy(force=True).astype(index),
            "x_data": x.values().numpy(force=True),
            "x_shape": np.array(x.shape, np.int64),
        }
    else:
        arrays = {"x": x.numpy(force=True)}
    names = ["edge_index", "edge_weight", "directed", "y", "num_classes", "roles", "node_time"]
    if data.get("relations") is not None:
        arrays |= relation_arrays(data.relations)
        names = names[3:]
    given = {name: data.get(name) for name in names if data.get(name) is not None}
    arrays |= {name: torch.as_tensor(given[name]).numpy(force=True) for name in given}
    write_npz(Path(path), arrays)


def _as_tensor(array: NDArray[Any], name: str, path: Path) -> Tensor:
    """Convert an array to a tensor of booleans, int64, float32 or float64."""
    floats = np.float32 if array.dtype.itemsize <= 4 else np.float64
    kinds = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": floats}
    if array.dtype.kind not in kinds:
        raise _wrong(array, name, path, "numbers or booleans")
    return torch.from_numpy(array.astype(kinds[array.dtype.kind], copy=False))


def _wrong(array: NDArray[Any], name: str, path: Path, wanted: str) -> BadInput:
    return BadInput(f"{path}: {name} is {array.dtype} {list(array.shape)}; it must be {wanted}")


def _sparse_features(arrays: Arrays, path: Path) -> Tensor:
    missing = [name for name in _CSR_NAMES if name not in arrays]
    if missing:
        raise BadInput(
            f"{path}: no features: add x, or all of {', '.join(_CSR_NAMES)} "
            f"({', '.join(missing)} missing; it has {', '.join(arrays) or 'no array'})"
        )
    indptr, indices, values, shape = (_as_tensor(arrays[n], n, path) for n in _CSR_NAMES)
    try:
        if any(part.dtype != torch.int64 for part in (indptr, indices, shape)):
            raise ValueError("row starts, columns and shape are integers")
        num_rows, num_columns = shape.tolist()
        return csr_tensor(indptr, indices, values.float(), (num_rows, num_columns))
    except (RuntimeError, ValueError, TypeError) as error:
        raise BadInput(
            f"{path}: {', '.join(_CSR_NAMES)} of shape {shape.tolist()} are not a CSR matrix "
            f"({str(error).splitlines()[0]}); write those of a scipy.sparse.csr_array after its "
            "sum_duplicates()"
        ) from None
