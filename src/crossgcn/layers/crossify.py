"""Cross features in the linear maps of any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    map's bias. With ``"gated"`` order weights the copy computes the same as the model until it is
    trained. A lazy map is initialised when the first input arrives.

    Frozen maps, whose projections would be trained, and maps with hooks, which would be lost, are
    refused. A layer that reads the weight of a map itself instead of calling the map (PyG's
    ``PMLP``) fails when it is called: leave such maps out with ``skip``. :func:`crossed_maps` lists
    the replaced maps.

    Args:
        model: Any module; it is not changed.
        order: As for :class:`~crossgcn.CrossFeatureTransform`, like ``order_weights`` and
            ``first_order``. Every map gets a copy of a module.
        only: Names of the maps to replace, as in ``model.named_modules()``, with ``*`` as a
            wildcard: ``"convs.*"``. All by default.
        skip: Names of maps to keep, such as an output layer.
    """
    model = deepcopy(model)
    maps = dict(_linear_maps(model))
    chosen = _choose(maps, only, skip)
    hooked = [name for name in chosen if _has_hooks(maps[name])]
    remedy = "remove the hooks and register them on the crossed model"
    _refuse(hooked, "have hooks, which would be lost with them", remedy)
    frozen = [name for name in chosen if not all(p.requires_grad for p in maps[name].parameters())]
    remedy = "unfreeze them with requires_grad_()"
    _refuse(frozen, "are frozen, and their crosses would be trained", remedy)
    crossed = {
        id(maps[name]): _cross(maps[name], order, order_weights, first_order) for name in chosen
    }
    for name, linear in maps.items():
        if id(linear) in crossed:
            model = _put(model, name, crossed[id(linear)])
    return model


def crossed_maps(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules of a model that cross features."""
    return tuple(
        name for name, module in model.named_modules() if isinstance(module, CrossFeatureTransform)
    )


def _linear_maps(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield all linear maps outside of our own layers; a shared map occurs with every name."""
    # Not subclasses: some compute something else or are never called, as in torch's attention.
    if type(module) in (nn.Linear, nn.LazyLinear, PyGLinear):
        yield prefix, module
    elif not isinstance(module, CrossFeatureTransform):
        for name, child in module._modules.items():
            if child is not None:
                yield from _linear_maps(child, f"{prefix}.{name}" if prefix else name)


def _choose(maps: dict[str, nn.Module], only: Patterns | None, skip: Patterns | None) -> list[str]:
    if not maps:
        raise BadInput(
            "there is no linear map in this model: crossify replaces torch.nn.Linear and PyG's "
            "Linear, not matrices that a layer multiplies with by itself"
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
                f"{argument}={pattern!r} is no linear map of this model: it has {', '.join(maps)}"
            )
        matched += found
    return matched


def _cross(
    linear: Any, order: int, order_weights: OrderWeights, first_order: FirstOrder
) -> CrossFeatureTransform:
    weight: nn.Parameter = linear.weight
    lazy = isinstance(weight, UninitializedParameter)
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


def _has_hooks(linear: Any) -> bool:
    """Return whether a map has hooks, besides those that infer the width of a lazy map."""
    if isinstance(linear.weight, UninitializedParameter):
        return False
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(linear, kind) for kind in kinds)


def _refuse(names: Sequence[str], trouble: str, remedy: str) -> None:
    if names:
        raise BadInput(
            f"these maps {trouble}: {', '.join(names)}; {remedy}, or leave the maps out with skip"
        )


def _put(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """Replace the module of that name; return the module itself for the whole model."""
    if not name:
        return module
    path, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(path), attribute, module)
    return model
