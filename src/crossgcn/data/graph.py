"""Check a PyG graph, and bring it to the canonical form that the package works with."""

from __future__ import annotations

from typing import Any

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

MOST_FEATURE = 1e18
"""The largest absolute value of a feature: squares of larger ones exceed 32-bit floats."""

MOST_CLASSES = 1000
"""So many classes are allowed even in a graph of fewer nodes."""


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
    x = _features(data.x, where)
    y, num_classes = _labels(data, x.shape[0], where)
    directed = getattr(data, "directed", None) is True
    edge_index, edge_weight = _edges(data, x.shape[0], directed, where)
    return Data(
        x=x,
        edge_index=edge_index,
        edge_weight=edge_weight,
        y=y,
        name=getattr(data, "name", where),
        num_classes=num_classes,
        num_nodes=x.shape[0],
        directed=directed or None,
        roles=_roles(data, x.shape[0], where),
    )


def is_labelled(y: Tensor) -> Tensor:
    """Return which nodes have a label: a class from 0 up, or a number that is not NaN."""
    return ~y.isnan() if y.is_floating_point() else y >= 0


def _require(fits: bool, name: str, value: object, wanted: str, where: str) -> None:
    """Refuse what is missing, or of another type or shape than it must be."""
    if fits:
        return
    found = "missing" if value is None else f"of type {type(value).__name__}"
    if isinstance(value, Tensor):
        layout = "" if value.layout == torch.strided else f" in layout {value.layout}"
        found = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}{layout}"
    raise BadInput(f"{where}: {name} is {found}; it must be {wanted}")


def _refuse(wrong: Tensor, name: str, values: Tensor, remedy: str, where: str) -> None:
    """Refuse a tensor with a wrong element, by the position and the value of the first."""
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
    if x.layout == torch.strided:
        x = values = x.float()
    else:
        if x.dtype != torch.float32:
            x = csr_tensor(x.crow_indices(), x.col_indices(), x.values().float(), tuple(x.shape))
        values = x.values()
    bad = ~torch.isfinite(values)
    if bad.any():
        is_sparse = x.layout == torch.sparse_csr
        places = x.to_sparse_coo().indices().t()[bad] if is_sparse else bad.nonzero()
        row, column = places[0].tolist()
        raise BadInput(
            f"{where}: x row {row}, column {column} is {float(values[bad][0])} "
            f"({len(places)} such in all); replace missing values, and any that no 32-bit float "
            "can hold, by finite numbers"
        )
    largest = float(values.abs().max()) if values.numel() else 0.0
    if largest > MOST_FEATURE:
        raise BadInput(
            f"{where}: x goes up to {largest:g}, whose products no 32-bit float can hold; scale "
            "the features, for example to mean 0 and deviation 1"
        )
    features: Tensor = x
    return features


def _labels(data: Data, num_nodes: int, where: str) -> tuple[Tensor, int]:
    """Return the labels, and the number of classes: 1 for numbers."""
    y, num_classes = data.y, getattr(data, "num_classes", None)
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
    _refuse(y < -1, "y", y, "labels are 0, 1, 2, ..., and -1 for unlabelled", where)
    if num_classes is None:
        num_classes = int(y.max()) + 1
    if num_classes > max(num_nodes, MOST_CLASSES):
        raise BadInput(
            f"{where}: there are {num_classes:,} classes but {num_nodes:,} nodes; number the "
            "classes 0, 1, 2, ... without gaps"
        )
    remedy = f"num_classes is {num_classes}: raise it, or use labels below it"
    _refuse(y >= num_classes, "y", y, remedy, where)
    return y, num_classes


def _edges(data: Data, num_nodes: int, directed: bool, where: str) -> tuple[Tensor, Tensor | None]:
    """Return unique edges and their weights; those of a directed graph are sorted by target."""
    ends, weight = data.edge_index, getattr(data, "edge_weight", None)
    fits = isinstance(ends, Tensor) and ends.dim() == 2 and ends.shape[0] == 2
    _require(fits and ends.dtype == torch.int64, "edge_index", ends, "int64 [2, edges]", where)
    remedy = f"the graph has {num_nodes} nodes: use 0 to {num_nodes - 1}, or add rows to x"
    _refuse((ends < 0) | (ends >= num_nodes), "edge_index", ends, remedy, where)
    if weight is None:
        if directed:
            return coalesce(ends, num_nodes=num_nodes, sort_by_row=False), None
        return to_undirected(ends, num_nodes=num_nodes), None
    fits = isinstance(weight, Tensor) and weight.shape == ends.shape[1:]
    _require(fits, "edge_weight", weight, f"float [{ends.shape[1]}], one per edge", where)
    weight = weight.float()
    remedy = (
        "weights are finite and not negative, because adjacencies are normalised by the root of "
        "their sums"
    )
    _refuse(~torch.isfinite(weight) | (weight < 0), "edge_weight", weight, remedy, where)
    remedy = (
        f"sums of more than {MOST_WEIGHT:g} exceed 32-bit floats: divide all weights by the most"
    )
    _refuse(weight > MOST_WEIGHT, "edge_weight", weight, remedy, where)
    # Averaged in one direction only, so that both directions get the same bits.
    ends = ends if directed else ends.sort(dim=0).values
    ends, weight = coalesce(
        ends, weight.double(), num_nodes, reduce="mean", sort_by_row=not directed
    )
    if not directed:
        ends, weight = to_undirected(ends, weight, num_nodes, reduce="mean")
    return ends, weight.float()


def _roles(data: Data, num_nodes: int, where: str) -> Tensor | None:
    """Return the splits of a graph, ``[S, N]`` in int8, from ``roles`` or from its masks."""
    roles = getattr(data, "roles", None)
    masks = {name: getattr(data, name, None) for name in MASK_NAMES}
    given = [name for name, mask in masks.items() if mask is not None]
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
    """Return roles; a mask ``[N, S]`` has a column per split, a mask ``[N]`` is for all."""
    for name, mask in masks.items():
        fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() in (1, 2)
        wanted = f"booleans [{num_nodes}] or [{num_nodes}, splits], as all of {', '.join(masks)}"
        _require(fits and mask.shape[0] == num_nodes, name, mask, wanted, where)
    columns = [mask.reshape(num_nodes, -1) for mask in masks.values()]
    num_splits = max(mask.shape[1] for mask in columns)
    for name, mask in zip(masks, columns, strict=True):
        wanted = f"one column, or one for each of {num_splits} splits as in another mask"
        _require(mask.shape[1] in (1, num_splits), name, mask, wanted, where)
    stacked = torch.stack([mask.expand(num_nodes, num_splits).t() for mask in columns])
    for split, node in torch.nonzero(stacked.sum(0) > 1)[:1].tolist():
        first, second = (MASK_NAMES[at] for at in torch.nonzero(stacked[:, split, node])[:2, 0])
        raise BadInput(
            f"{where}: split {split}, node {node} is in {first} and in {second}; a node has one "
            "role, clear it in one of the two"
        )
    return (stacked * torch.tensor([1, 2, 3]).view(3, 1, 1)).sum(0).to(torch.int8)
