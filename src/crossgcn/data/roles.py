"""Who trains, validates and tests: a graph's ``roles``, or PyG's three masks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.validate import check_roles, describe
from crossgcn.errors import BadInput

__all__ = ["MASK_NAMES", "gather_roles"]

MASK_NAMES = ("train_mask", "val_mask", "test_mask")
"""In the order of the roles 1 to 3."""


def gather_roles(data: Data, num_nodes: int, where: str) -> Tensor | None:
    """Find a graph's splits, one a row, however it keeps them.

    A mask ``[N, S]`` has a column a split; beside such a one, a mask ``[N]``
    holds for every split.

    Args:
        data: With ``roles [S, N]``, all three masks, or none of these.
        num_nodes: Nodes the graph has (:math:`N`).
        where: What to call it in messages.

    Returns:
        ``[S, N]``, int8, or ``None`` where the graph has no splits.

    Raises:
        BadInput: Naming the tensor, the node and the remedy.
    """
    roles: Tensor | None = getattr(data, "roles", None)
    masks = {name: getattr(data, name, None) for name in MASK_NAMES}
    given = [name for name, mask in masks.items() if mask is not None]
    if roles is not None and given:
        raise BadInput(f"{where}: has both roles and {given[0]}; keep one of the two")
    if given:
        roles = _combine(masks, num_nodes, where)
    if roles is None:
        return None
    check_roles(roles, num_nodes, where)
    return roles.to(torch.int8)


def _combine(masks: dict[str, Tensor | None], num_nodes: int, where: str) -> Tensor:
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
            f"{where}: {name} is {describe(mask)}; it must be booleans, one per node: "
            f"[{num_nodes}], or [{num_nodes}, splits]"
        )
    return mask.reshape(num_nodes, -1)
