"""Check a PyG graph, and bring it to the canonical form that the package works with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput

ROLE_NAMES = ("none", "train", "validation", "test")
"""Meaning of the numbers 0 to 3 in ``roles``."""

MASK_NAMES = ("train_mask", "val_mask", "test_mask")
"""Masks as PyG names them, in the order of the roles 1 to 3."""


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
    _validate(graph, where)
    graph.num_nodes = graph.x.shape[0]
    ends, weight = graph.edge_index, graph.get("edge_weight")
    if getattr(data, "directed", None) is True:
        graph.directed = True
        graph.edge_index, graph.edge_weight = _keep_direction(ends, weight, graph.num_nodes)
    else:
        graph.edge_index, graph.edge_weight = _make_undirected(ends, weight, graph.num_nodes)
    if "num_classes" not in graph:
        graph.num_classes = 1 if graph.y.is_floating_point() else int(graph.y.max()) + 1
    graph.roles = _gather_roles(data, graph.num_nodes, where)
    return graph


def _validate(data: Data, where: str) -> None:
    x = _tensor(data, "x", where, "float [nodes, features]")
    edge_index = _tensor(data, "edge_index", where, "int64 [2, edges]")
    wanted = "int64 [nodes], -1 for unlabelled; or float, NaN for unlabelled"
    y = _tensor(data, "y", where, wanted)
    _check_features(x, where)
    _check_edges(edge_index, x.shape[0], where)
    if getattr(data, "edge_weight", None) is not None:
        _check_edge_weight(data.edge_weight, edge_index.shape[1], where)
    _check_labels(y, x.shape[0], getattr(data, "num_classes", None), where)


def _tensor(data: Data, name: str, where: str, wanted: str) -> Tensor:
    value = getattr(data, name, None)
    if not isinstance(value, Tensor):
        raise BadInput(f"{where}: {name} is missing; give it as {wanted}")
    return value


def _check_features(x: Tensor, where: str) -> None:
    if x.dim() != 2 or not x.is_floating_point():
        raise BadInput(f"{where}: x is {_describe(x)}; it must be float [nodes, features]")
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise BadInput(
            f"{where}: x is {_describe(x)}; a graph needs at least one node and one feature"
        )
    values = x.values() if x.layout == torch.sparse_csr else x
    bad = torch.nonzero(~torch.isfinite(values))
    if len(bad) == 0:
        return
    value = float(values[tuple(bad[0])])
    if x.layout == torch.sparse_csr:
        at = int(bad[0, 0])
        row = int(torch.searchsorted(x.crow_indices(), at, right=True)) - 1
        column = int(x.col_indices()[at])
    else:
        row, column = bad[0].tolist()
    raise BadInput(
        f"{where}: x row {row}, column {column} is {value} ({len(bad)} such in all); "
        "replace missing values, and any that no 32-bit float can hold, by finite numbers"
    )


def _check_edges(edge_index: Tensor, num_nodes: int, where: str) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise BadInput(
            f"{where}: edge_index is {_describe(edge_index)}; it must be int64 [2, edges]"
        )
    bad = torch.nonzero(((edge_index < 0) | (edge_index >= num_nodes)).t())
    if len(bad):
        column, end = bad[0].tolist()
        raise BadInput(
            f"{where}: edge_index[{end}, {column}] is {int(edge_index[end, column])}, but the "
            f"graph has {num_nodes} nodes; use 0 to {num_nodes - 1}, or add the missing rows to x"
        )


def _check_edge_weight(edge_weight: Tensor, num_edges: int, where: str) -> None:
    fits = isinstance(edge_weight, Tensor) and edge_weight.shape == (num_edges,)
    if not fits or not edge_weight.is_floating_point():
        raise BadInput(
            f"{where}: edge_weight is {_describe(edge_weight)}; it must be float [{num_edges}], "
            "one per edge"
        )
    bad = torch.nonzero(~torch.isfinite(edge_weight) | (edge_weight < 0)).flatten()
    if len(bad):
        edge = int(bad[0])
        raise BadInput(
            f"{where}: edge_weight[{edge}] is {float(edge_weight[edge])} ({len(bad)} such in all); "
            "weights are finite and not negative, because adjacencies are normalised by the root "
            "of their sums"
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
        infinite = torch.nonzero(y.isinf())
        if len(infinite):
            node = int(infinite[0])
            raise BadInput(
                f"{where}: y[{node}] is {float(y[node])} ({len(infinite)} such in all); give a "
                "finite number, or NaN where it is unknown"
            )
        return
    low = torch.nonzero(y < -1)
    if len(low):
        node = int(low[0])
        raise BadInput(
            f"{where}: y[{node}] is {int(y[node])}; labels are 0, 1, 2, ..., and -1 for unlabelled"
        )
    high = torch.nonzero(y >= num_classes) if num_classes is not None else low
    if len(high):
        node = int(high[0])
        raise BadInput(
            f"{where}: y[{node}] is {int(y[node])}, but num_classes is {num_classes}; "
            f"raise num_classes, or use labels below it"
        )


def _check_roles(roles: Tensor, num_nodes: int, where: str) -> None:
    """Refuse roles that are not integers 0 to 3 of shape ``[splits, nodes]``."""
    fits = isinstance(roles, Tensor) and roles.dim() == 2 and roles.shape[1] == num_nodes
    if not fits or roles.shape[0] == 0 or roles.is_floating_point() or roles.dtype == torch.bool:
        raise BadInput(
            f"{where}: roles is {_describe(roles)}; it must be integers [splits, {num_nodes}]"
        )
    bad = torch.nonzero((roles < 0) | (roles >= len(ROLE_NAMES)))
    if len(bad):
        split, node = bad[0].tolist()
        raise BadInput(
            f"{where}: roles[{split}, {node}] is {int(roles[split, node])}; "
            "use 0 none, 1 train, 2 validation, 3 test"
        )


def _describe(value: object) -> str:
    """Return the element type and shape of a tensor, or the type of anything else."""
    if not isinstance(value, Tensor):
        return f"of type {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _gather_roles(data: Data, num_nodes: int, where: str) -> Tensor | None:
    """Return the splits of a graph, ``[S, N]`` in int8, from ``roles`` or from its masks.

    A mask ``[N, S]`` has one column per split; a mask ``[N]`` holds for every split.
    """
    roles: Tensor | None = getattr(data, "roles", None)
    masks = {name: getattr(data, name, None) for name in MASK_NAMES}
    given = [name for name, mask in masks.items() if mask is not None]
    if roles is not None and given:
        raise BadInput(f"{where}: has both roles and {given[0]}; keep one of the two")
    if given:
        roles = _combine_masks(masks, num_nodes, where)
    if roles is None:
        return None
    _check_roles(roles, num_nodes, where)
    return roles.to(torch.int8)


def _combine_masks(masks: dict[str, Tensor | None], num_nodes: int, where: str) -> Tensor:
    columns = {name: _as_columns(mask, name, num_nodes, where) for name, mask in masks.items()}
    num_splits = max(mask.shape[1] for mask in columns.values())
    for name, mask in columns.items():
        if mask.shape[1] not in (1, num_splits):
            raise BadInput(
                f"{where}: {name} has {mask.shape[1]} columns where another mask has {num_splits}; "
                "give every mask one column per split"
            )
    for first, second in (MASK_NAMES[:2], MASK_NAMES[1:], MASK_NAMES[::2]):
        both = torch.nonzero((columns[first] & columns[second]).t())
        if len(both):
            split, node = both[0].tolist()
            place = f"split {split}, node {node}" if num_splits > 1 else f"node {node}"
            raise BadInput(
                f"{where}: {place} is in {first} and in {second} ({len(both)} such in all); "
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


def _make_undirected(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    if edge_weight is None:
        return to_undirected(edge_index, num_nodes=num_nodes), None
    # Averaged in one direction only, so that both directions get the same bits.
    edge_index, edge_weight = coalesce(
        edge_index.sort(dim=0).values, edge_weight.double(), num_nodes, reduce="mean"
    )
    edge_index, edge_weight = to_undirected(edge_index, edge_weight, num_nodes, reduce="mean")
    return edge_index, edge_weight.float()


def _keep_direction(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Return unique edges sorted by target, as in a graph folder."""
    if edge_weight is None:
        return coalesce(edge_index, num_nodes=num_nodes, sort_by_row=False), None
    edge_index, edge_weight = coalesce(
        edge_index, edge_weight.double(), num_nodes, reduce="mean", sort_by_row=False
    )
    return edge_index, edge_weight.float()


def _float_features(x: Tensor | None, where: str) -> Tensor | None:
    """Return features as 32-bit floats; ``_validate`` reports wrong ones."""
    if x is None or (x.dtype == torch.float32 and x.layout != torch.sparse_coo):
        return x
    if x.layout == torch.strided:
        return x.float()
    if x.layout == torch.sparse_csr:
        rows, columns = x.shape
        return csr_tensor(x.crow_indices(), x.col_indices(), x.values().float(), (rows, columns))
    raise BadInput(f"{where}: x has layout {x.layout}; give it dense or as x.to_sparse_csr()")
