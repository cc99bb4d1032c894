"""Checks that a graph can be trained on, whichever way it came in."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.errors import BadInput

__all__ = ["ROLE_NAMES", "check_roles", "describe", "validate_data"]

ROLE_NAMES = ("none", "train", "validation", "test")
"""What the numbers 0 to 3 mean in ``roles``."""


def validate_data(data: Data, where: str) -> None:
    """Refuse a graph that a model would fail on, or worse, would not.

    Args:
        data: ``x [N, D]`` dense or sparse CSR, ``edge_index [2, E]``, ``y [N]``
            with -1 for unlabelled, and optionally ``edge_weight [E]``,
            ``num_classes`` and ``roles [S, N]``.
        where: What to call it in messages: a file, or the argument's name.

    Raises:
        BadInput: Naming the tensor, the place in it, the value and the remedy.
    """
    x = _tensor(data, "x", where, "float [nodes, features]")
    edge_index = _tensor(data, "edge_index", where, "int64 [2, edges]")
    y = _tensor(data, "y", where, "int64 [nodes], -1 for unlabelled")
    _check_features(x, where)
    _check_edges(edge_index, x.shape[0], where)
    if getattr(data, "edge_weight", None) is not None:
        _check_edge_weight(data.edge_weight, edge_index.shape[1], where)
    _check_labels(y, x.shape[0], getattr(data, "num_classes", None), where)
    if getattr(data, "roles", None) is not None:
        check_roles(data.roles, x.shape[0], where)


def _tensor(data: Data, name: str, where: str, wanted: str) -> Tensor:
    value = getattr(data, name, None)
    if not isinstance(value, Tensor):
        raise BadInput(f"{where}: {name} is missing; give it as {wanted}")
    return value


def _check_features(x: Tensor, where: str) -> None:
    if x.dim() != 2 or not x.is_floating_point():
        raise BadInput(f"{where}: x is {describe(x)}; it must be float [nodes, features]")
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise BadInput(
            f"{where}: x is {describe(x)}; a graph needs at least one node and one feature"
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
            f"{where}: edge_index is {describe(edge_index)}; it must be int64 [2, edges]"
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
            f"{where}: edge_weight is {describe(edge_weight)}; it must be float [{num_edges}], "
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


def _check_labels(y: Tensor, num_nodes: int, num_classes: int | None, where: str) -> None:
    if y.dim() != 1 or y.dtype != torch.int64:
        raise BadInput(f"{where}: y is {describe(y)}; it must be int64 [nodes]")
    if len(y) != num_nodes:
        raise BadInput(
            f"{where}: y has {len(y)} labels for {num_nodes} nodes; "
            "give one per row of x, -1 where there is none"
        )
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


def check_roles(roles: Tensor, num_nodes: int, where: str) -> None:
    """Refuse roles that are no integers 0 to 3, a row a split and a column a node.

    Args:
        roles: What was given for them.
        num_nodes: Nodes the graph has.
        where: What to call the graph in messages.
    """
    fits = isinstance(roles, Tensor) and roles.dim() == 2 and roles.shape[1] == num_nodes
    if not fits or roles.shape[0] == 0 or roles.is_floating_point() or roles.dtype == torch.bool:
        raise BadInput(
            f"{where}: roles is {describe(roles)}; it must be integers [splits, {num_nodes}]"
        )
    bad = torch.nonzero((roles < 0) | (roles >= len(ROLE_NAMES)))
    if len(bad):
        split, node = bad[0].tolist()
        raise BadInput(
            f"{where}: roles[{split}, {node}] is {int(roles[split, node])}; "
            "use 0 none, 1 train, 2 validation, 3 test"
        )


def describe(value: object) -> str:
    """Element type and shape of a tensor; of anything else, its type.

    Args:
        value: What was given.
    """
    if not isinstance(value, Tensor):
        return f"of type {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
