"""Cross features in the linear maps of any model."""

from __future__ import annotations

import ast
import inspect
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import register_parametrization
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
    trained. A lazy map is drawn when the first input arrives.

    The weight of a frozen map stays frozen; the new projections and order weights are trained. A
    map with hooks is refused, because they would be lost. If a layer reads the weights of a map
    instead of calling it, as far as its source code tells, the map is kept, with a warning.
    :func:`crossed_maps` lists the replaced maps.

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
    read = {name: owner for name in chosen if (owner := _reader_of(model, name)) is not None}
    if read and (only is not None or len(read) == len(chosen)):
        raise BadInput(f"{_say_who_reads(read)}: leave them out with skip")
    if read:
        warnings.warn(f"{_say_who_reads(read)}: they stay as they are", stacklevel=2)
    hooked = [name for name in chosen if name not in read and _has_hooks(maps[name])]
    if hooked:
        raise BadInput(
            f"these maps have hooks, which would be lost with them: {', '.join(hooked)}; remove "
            "the hooks and register them on the crossed model, or leave the maps out with skip"
        )
    crossed = {
        id(maps[name]): _cross(maps[name], order, order_weights, first_order)
        for name in chosen
        if name not in read
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
            transform.bias.requires_grad_(linear.bias.requires_grad)
    if not weight.requires_grad:
        if order == 1:
            transform.weight.requires_grad_(False)
        else:
            register_parametrization(transform, "weight", _FirstIsFrozen(weight.detach()))
    return transform


class _FirstIsFrozen(nn.Module):
    """Parametrise all projections of a transform with the first one constant."""

    def __init__(self, first: Tensor) -> None:
        super().__init__()
        self.register_buffer("first", first.clone())

    def forward(self, others: Tensor) -> Tensor:
        first: Any = self.first
        return torch.cat([first.unsqueeze(0), others])

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight[1:]


def _has_hooks(linear: Any) -> bool:
    """Return whether a map has hooks, besides those that infer the width of a lazy map."""
    own = [getattr(linear, name, None) for name in ("_hook", "_initialize_hook")]
    known = {handle.id for handle in own if handle is not None}
    hooks = (
        linear._forward_hooks,
        linear._forward_pre_hooks,
        linear._backward_hooks,
        linear._backward_pre_hooks,
    )
    return any(key not in known for each in hooks for key in each)


def _put(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """Replace the module of that name; return the module itself for the whole model."""
    if not name:
        return module
    path, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(path), attribute, module)
    return model


def _say_who_reads(read: dict[str, str]) -> str:
    maps = ", ".join(f"{name} (of {owner})" for name, owner in read.items())
    return f"these maps are not called, their layers read the weights themselves: {maps}"


def _reader_of(model: nn.Module, name: str) -> str | None:
    """Return the class of a map's layer if it reads the map's weights itself."""
    path, _, attribute = name.rpartition(".")
    owner = model.get_submodule(path)
    while path and isinstance(owner, nn.ModuleList | nn.ModuleDict | nn.Sequential):
        path, _, attribute = path.rpartition(".")
        owner = model.get_submodule(path)
    layer: Any = type(owner)
    return layer.__name__ if attribute in _weights_read_by(layer) else None


_NOT_USED = ("__init__", "reset_parameters", "_reset_parameters", "__repr__", "extra_repr")
_HARMLESS = ("device", "dtype", "is_cuda", "requires_grad")


@cache
def _weights_read_by(layer: type[Any]) -> frozenset[str]:
    """Return attributes, ``lin`` for ``self.lin.weight``, whose weights a layer's methods read."""
    found: set[str] = set()
    for base in layer.__mro__:
        if base in (nn.Module, object):
            continue
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name not in _NOT_USED:
                found |= _weights_read_in(node)
    return frozenset(found)


def _weights_read_in(function: ast.FunctionDef) -> set[str]:
    nodes = list(ast.walk(function))
    aliases: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension):
            aliases |= _aliases(node.target, node.iter)
        elif isinstance(node, ast.Assign):
            aliases |= _aliases(node.targets[0], node.value)
    harmless = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in _HARMLESS
    }
    read = (
        _attribute_of_self(node.value, aliases)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in ("weight", "bias")
        and id(node) not in harmless
    )
    return {name for name in read if name is not None}


def _aliases(target: ast.expr, value: ast.expr) -> dict[str, str]:
    """Return local names that refer to an attribute of ``self`` or to parts of it."""
    attributes = (_attribute_of_self(node, {}) for node in ast.walk(value))
    attribute = next((name for name in attributes if name is not None), None)
    if attribute is None:
        return {}
    return {node.id: attribute for node in ast.walk(target) if isinstance(node, ast.Name)}


def _attribute_of_self(node: ast.AST, aliases: dict[str, str]) -> str | None:
    """Return ``lins`` for ``self.lins[0]``, or for a local name that refers to it."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            return node.attr
        node = node.value
    return aliases.get(node.id) if isinstance(node, ast.Name) else None
