"""Check a PyG graph, and bring it to the canonical form that the package works with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from crossgcn.data.features import csr_tensor
from crossgcn.data.tables.cells import MOST_WEIGHT
from crossgcn.errors import BadInput

ROLE_NAMES = ("none", "train", "validation", "test")
"""Meaning of the numbers 0 to 3 in ``roles``."""

MASK_NAMES = ("train_mask", "val_mask", "test_mask")
"""Masks as PyG names them, in the order of the roles 1 to 3."""

_WANTED = {
    "x": "float [nodes, features]",
    "edge_index": "int64 [2, edges]",
    "y": "int64 [nodes], -1 for unlabelled; or float, NaN for unlabelled",
}


def canonical_graph(data: Data, where: str = "data") -> Data:
    """Check a graph and return its canonical form.

    Edges are undirected, unique and sorted, and self-loops stay; with ``directed=True`` they
    keep their direction. An edge given several times gets the mean of its weights. Features and
    weights are 32-bit floats. PyG's masks (``train_mask``, ``val_mask``, ``test_mask``) become
    ``roles``, one row per split, and missing ``name`` and ``num_classes`` are added. The
    canonical form of a canonical graph is the same graph. Float labels are numbers to predict;
    ``num_classes`` is then 1.

    Args:
        data: At least ``x``, ``edge_index`` and ``y``; it is not changed. Weights
            are ``edge_weight [E]``; ``edge_attr`` is ignored.
        where: What to call the graph in messages, and its name if it has none.

    Raises:
        BadInput: Names the tensor, the position, the value and the remedy.
    """
    edge_weight = getattr(data, "edge_weight", None)
    graph = Data(
        x=_float_features(data.x, where),
        edge_index=data.edge_index,
        edge_weight=edge_weight.float() if isinstance(edge_weight, Tensor) else edge_weight,
        y=data.y,
        name=getattr(data, "name", where),
        num_classes=getattr(data, "num_classes", None),
    )
    for name, wanted in _WANTED.items():
        if not isinstance(graph.get(name), Tensor):
            raise BadInput(f"{where}: {name} is missing; give it as {wanted}")
    _check_features(graph.x, where)
    graph.num_nodes = graph.x.shape[0]
    _check_edges(graph.edge_index, graph.get("edge_weight"), graph.num_nodes, where)
    _check_labels(graph.y, graph.num_nodes, graph.get("num_classes"), where)
    if getattr(data, "directed", None) is True:
        graph.directed = True
    graph.edge_index, graph.edge_weight = _unique_edges(graph, "directed" in graph)
    if "num_classes" not in graph:
        graph.num_classes = 1 if graph.y.is_floating_point() else int(graph.y.max()) + 1
    graph.roles = _gather_roles(data, graph.num_nodes, where)
    return graph


MOST_FEATURE = 1e18
"""The largest absolute value of a feature: squares of larger ones exceed 32-bit floats."""

FEWEST_CLASSES_LIMIT = 1000
"""So many classes are allowed even in a graph of fewer nodes."""


def _float_features(x: Tensor | None, where: str) -> Tensor | None:
    if not isinstance(x, Tensor) or (x.dtype == torch.float32 and x.layout != torch.sparse_coo):
        return x
    if x.layout == torch.strided:
        return x.float()
    if x.layout == torch.sparse_csr:
        rows, columns = x.shape
        return csr_tensor(x.crow_indices(), x.col_indices(), x.values().float(), (rows, columns))
    raise BadInput(f"{where}: x has layout {x.layout}; give it dense or as x.to_sparse_csr()")


def _first(mask: Tensor) -> list[int]:
    """Return the position of the first true element, or an empty list."""
    found: list[list[int]] = torch.nonzero(mask)[:1].tolist()
    return found[0] if found else []


def _describe(value: object) -> str:
    """Return the element type and shape of a tensor, or the type of anything else."""
    if not isinstance(value, Tensor):
        return f"of type {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _check_features(x: Tensor, where: str) -> None:
    if x.dim() != 2:
        raise BadInput(f"{where}: x is {_describe(x)}; it must be {_WANTED['x']}")
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise BadInput(
            f"{where}: x is {_describe(x)}; a graph needs at least one node and one feature"
        )
    values = x.values() if x.layout == torch.sparse_csr else x
    bad = ~torch.isfinite(values)
    if at := _first(bad):
        value, position = float(values[tuple(at)]), at
        if x.layout == torch.sparse_csr:
            row = int(torch.searchsorted(x.crow_indices(), at[0], right=True)) - 1
            position = [row, int(x.col_indices()[at[0]])]
        raise BadInput(
            f"{where}: x row {position[0]}, column {position[1]} is {value} ({int(bad.sum())} such "
            "in all); replace missing values, and any that no 32-bit float can hold, by finite "
            "numbers"
        )
    largest = float(values.abs().max()) if values.numel() else 0.0
    if largest > MOST_FEATURE:
        raise BadInput(
            f"{where}: x goes up to {largest:g}, whose products no 32-bit float can hold; scale "
            "the features, for example to mean 0 and deviation 1"
        )


def _check_edges(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, where: str
) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise BadInput(
            f"{where}: edge_index is {_describe(edge_index)}; it must be {_WANTED['edge_index']}"
        )
    if at := _first(((edge_index < 0) | (edge_index >= num_nodes)).t()):
        column, end = at
        raise BadInput(
            f"{where}: edge_index[{end}, {column}] is {int(edge_index[end, column])}, but the "
            f"graph has {num_nodes} nodes; use 0 to {num_nodes - 1}, or add the missing rows to x"
        )
    if edge_weight is None:
        return
    num_edges = edge_index.shape[1]
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != (num_edges,):
        raise BadInput(
            f"{where}: edge_weight is {_describe(edge_weight)}; it must be float [{num_edges}], "
            "one per edge"
        )
    bad = ~torch.isfinite(edge_weight) | (edge_weight < 0)
    for edge in _first(bad):
        raise BadInput(
            f"{where}: edge_weight[{edge}] is {float(edge_weight[edge])} ({int(bad.sum())} such in "
            "all); weights are finite and not negative, because adjacencies are normalised by the "
            "root of their sums"
        )
    for edge in _first(edge_weight > MOST_WEIGHT):
        raise BadInput(
            f"{where}: edge_weight[{edge}] is {float(edge_weight[edge]):g}; sums of weights above "
            f"{MOST_WEIGHT:g} exceed 32-bit floats: divide all weights by the largest"
        )


def is_labelled(y: Tensor) -> Tensor:
    """Return which nodes have a label: a class from 0 up, or a number that is not NaN."""
    return ~y.isnan() if y.is_floating_point() else y >= 0


def _check_labels(y: Tensor, num_nodes: int, num_classes: int | None, where: str) -> None:
    if y.dim() != 1 or not (y.dtype == torch.int64 or y.is_floating_point()):
        raise BadInput(
            f"{where}: y is {_describe(y)}; it must be int64 [nodes], or float for numbers"
        )
    if len(y) != num_nodes:
        raise BadInput(
            f"{where}: y has {len(y)} labels for {num_nodes} nodes; "
            "give one per row of x, -1 where there is none"
        )
    if y.is_floating_point():
        if num_classes not in (None, 1):
            raise BadInput(
                f"{where}: y holds numbers, but num_classes is {num_classes}; write classes as "
                "integers, or leave num_classes out"
            )
        for node in _first(y.isinf()):
            raise BadInput(
                f"{where}: y[{node}] is {float(y[node])} ({int(y.isinf().sum())} such in all); "
                "give a finite number, or NaN where it is unknown"
            )
        return
    for node in _first(y < -1):
        raise BadInput(
            f"{where}: y[{node}] is {int(y[node])}; labels are 0, 1, 2, ..., and -1 for unlabelled"
        )
    highest = int(y.max()) + 1 if num_classes is None else num_classes
    if highest > max(num_nodes, FEWEST_CLASSES_LIMIT):
        raise BadInput(
            f"{where}: there are {highest:,} classes but {num_nodes:,} nodes; number the classes "
            "0, 1, 2, ... without gaps"
        )
    for node in [] if num_classes is None else _first(y >= num_classes):
        raise BadInput(
            f"{where}: y[{node}] is {int(y[node])}, but num_classes is {num_classes}; "
            f"raise num_classes, or use labels below it"
        )


def _unique_edges(graph: Data, directed: bool) -> tuple[Tensor, Tensor | None]:
    """Return unique edges: of a directed graph sorted by target."""
    ends, weight, num_nodes = graph.edge_index, graph.get("edge_weight"), graph.num_nodes
    if weight is None:
        if directed:
            return coalesce(ends, num_nodes=num_nodes, sort_by_row=False), None
        return to_undirected(ends, num_nodes=num_nodes), None
    # Averaged in one direction only, so that both directions get the same bits.
    ends = ends if directed else ends.sort(dim=0).values
    ends, weight = coalesce(
        ends, weight.double(), num_nodes, reduce="mean", sort_by_row=not directed
    )
    if not directed:
        ends, weight = to_undirected(ends, weight, num_nodes, reduce="mean")
    return ends, weight.float()


def _gather_roles(data: Data, num_nodes: int, where: str) -> Tensor | None:
    """Return the splits of a graph, ``[S, N]`` in int8, from ``roles`` or from its masks."""
    roles: Tensor | None = getattr(data, "roles", None)
    masks = {name: getattr(data, name, None) for name in MASK_NAMES}
    given = [name for name, mask in masks.items() if mask is not None]
    if roles is not None and given:
        raise BadInput(f"{where}: has both roles and {given[0]}; keep one of the two")
    if given:
        return _combine_masks(masks, num_nodes, where)
    if roles is None:
        return None
    fits = isinstance(roles, Tensor) and roles.dim() == 2 and roles.shape[1] == num_nodes
    if not fits or roles.shape[0] == 0 or roles.is_floating_point() or roles.dtype == torch.bool:
        raise BadInput(
            f"{where}: roles is {_describe(roles)}; it must be integers [splits, {num_nodes}]"
        )
    if at := _first((roles < 0) | (roles >= len(ROLE_NAMES))):
        raise BadInput(
            f"{where}: roles[{at[0]}, {at[1]}] is {int(roles[tuple(at)])}; "
            "use 0 none, 1 train, 2 validation, 3 test"
        )
    return roles.to(torch.int8)


def _combine_masks(masks: dict[str, Tensor | None], num_nodes: int, where: str) -> Tensor:
    """Return roles; a mask ``[N, S]`` has a column per split, a mask ``[N]`` is for all."""
    columns = {name: _as_columns(mask, name, num_nodes, where) for name, mask in masks.items()}
    num_splits = max(mask.shape[1] for mask in columns.values())
    for name, mask in columns.items():
        if mask.shape[1] not in (1, num_splits):
            raise BadInput(
                f"{where}: {name} has {mask.shape[1]} columns where another mask has {num_splits}; "
                "give every mask one column per split"
            )
    for first, second in (MASK_NAMES[:2], MASK_NAMES[1:], MASK_NAMES[::2]):
        both = (columns[first] & columns[second]).t()
        if at := _first(both):
            split, node = at
            place = f"split {split}, node {node}" if num_splits > 1 else f"node {node}"
            raise BadInput(
                f"{where}: {place} is in {first} and in {second} ({int(both.sum())} such in all); "
                "a node has one role, clear it in one of the two"
            )
    roles = torch.zeros(num_splits, num_nodes, dtype=torch.int8)
    for role, mask in enumerate(columns.values(), 1):
        roles[mask.t().expand(num_splits, -1)] = role
    return roles


def _as_columns(mask: Tensor | None, name: str, num_nodes: int, where: str) -> Tensor:
    if mask is None:
        raise BadInput(
            f"{where}: {name} is missing; give all of {', '.join(MASK_NAMES)}, or none of them"
        )
    fits = isinstance(mask, Tensor) and mask.dim() in (1, 2) and mask.shape[0] == num_nodes
    if not fits or mask.dtype != torch.bool:
        raise BadInput(
            f"{where}: {name} is {_describe(mask)}; it must be booleans, one per node: "
            f"[{num_nodes}], or [{num_nodes}, splits]"
        )
    return mask.reshape(num_nodes, -1)
