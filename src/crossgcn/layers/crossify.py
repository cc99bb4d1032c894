"""Cross features in the linear maps of any model."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn.dense import Linear as PyGLinear

from crossgcn.errors import BadInput
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform, FirstOrder
from crossgcn.layers.order_weights import OrderWeights

Patterns = str | Sequence[str]


def crossify(
    model: nn.Module,
    order: int = 2,
    *,
    order_weights: OrderWeights = "gated",
    first_order: FirstOrder = "paper",
    only: Patterns | None = None,
    skip: Patterns | None = None,
) -> nn.Module:
    """Return a copy of a model whose linear maps cross features.

    Every ``torch.nn.Linear`` and PyG ``Linear`` becomes a
    :class:`~crossgcn.CrossFeatureTransform` with the map's weight as its first projection and the
    map's bias. With ``"gated"`` order weights, an untrained copy has the same outputs as the model.
    A lazy map is initialised by the first input.

    Frozen maps and maps with hooks are refused, because their crosses would be trained and their
    hooks lost. Some layers read the weight of a map instead of calling the map (PyG's ``PMLP``)
    and fail when they are called: leave such maps out with ``skip``. :func:`crossed_maps` lists
    the replaced maps.

    Args:
        model: Any module; it is not changed.
        order: See :class:`~crossgcn.CrossFeatureTransform`, also for ``order_weights`` and
            ``first_order``. A module is copied for every map.
        only: Names of the maps to replace, as in ``model.named_modules()``, with ``*`` as a
            wildcard: ``"convs.*"``. All by default.
        skip: Names of maps to keep, such as an output layer.
    """
    model = deepcopy(model)
    maps = _linear_maps(model)
    crossed = {
        id(maps[name]): _cross(name, maps[name], order, order_weights, first_order)
        for name in _choose(maps, only, skip)
    }
    if id(model) in crossed:
        return crossed[id(model)]
    for name, linear in maps.items():
        if id(linear) in crossed:
            model.set_submodule(name, crossed[id(linear)])
    return model


def crossed_maps(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules of a model that cross features."""
    return tuple(
        name for name, module in model.named_modules() if isinstance(module, CrossFeatureTransform)
    )


def _linear_maps(model: nn.Module) -> dict[str, nn.Module]:
    """Return all linear maps outside of this package's layers; shared maps have several names."""
    ours = tuple(f"{name}." if name else "" for name in crossed_maps(model))
    # Not subclasses: some compute something else or are never called, as in torch's attention.
    kinds = (nn.Linear, nn.LazyLinear, PyGLinear)
    named = model.named_modules(remove_duplicate=False)
    return {name: each for name, each in named if type(each) in kinds and not name.startswith(ours)}


def _choose(maps: dict[str, nn.Module], only: Patterns | None, skip: Patterns | None) -> list[str]:
    if not maps:
        raise BadInput(
            "there is no linear map in this model: crossify replaces only torch.nn.Linear and "
            "PyG's Linear"
        )
    chosen = list(maps) if only is None else _match(maps, only, "only")
    kept = [] if skip is None else _match(maps, skip, "skip")
    chosen = [name for name in chosen if name not in kept]
    if not chosen:
        raise BadInput(f"skip={skip!r} keeps every linear map, so nothing is left to cross")
    return chosen


def _match(maps: dict[str, nn.Module], patterns: Patterns, argument: str) -> list[str]:
    matched: list[str] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = [name for name in maps if fnmatchcase(name, pattern)]
        if not found:
            raise BadInput(
                f"{argument}={pattern!r} is not a linear map of this model, which has "
                f"{', '.join(maps)}"
            )
        matched += found
    return matched


def _cross(
    name: str, linear: Any, order: int, order_weights: OrderWeights, first_order: FirstOrder
) -> CrossFeatureTransform:
    weight: nn.Parameter = linear.weight
    lazy = isinstance(weight, UninitializedParameter)
    # The hooks of a lazy map only infer its width.
    if not lazy and (linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks):
        raise BadInput(
            f"the map {name!r} has hooks, which would be lost: remove them and register them on "
            "the crossed model, or leave the map out with skip"
        )
    if not all(parameter.requires_grad for parameter in linear.parameters()):
        raise BadInput(
            f"the map {name!r} is frozen, and its crosses would be trained: unfreeze it with "
            "requires_grad_(), or leave it out with skip"
        )
    transform = CrossFeatureTransform(
        -1 if lazy else weight.size(1),
        linear.out_channels if isinstance(linear, PyGLinear) else linear.out_features,
        order,
        order_weights=deepcopy(order_weights),
        first_order=first_order,
        bias=linear.bias is not None,
    )
    transform.train(linear.training).to(weight.device)
    if lazy:
        return transform
    transform.to(weight.dtype)
    with torch.no_grad():
        transform.weight[0] = weight
        if transform.bias is not None:
            transform.bias.copy_(linear.bias)
    return transform
