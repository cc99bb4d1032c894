"""Feature transformations by name: ours, and those it is compared with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from crossgcn.errors import BadInput, unknown_name
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
from crossgcn.layers.graph_convolution import FeatureTransform
from crossgcn.layers.mlp_conv import MLPTransform
from crossgcn.layers.other_crossings import OTHER_CROSSINGS


def make_transform(
    name: str, in_channels: int, out_channels: int, order: int = 2, **settings: Any
) -> FeatureTransform:
    """Make the feature transformation of a graph convolution, which adds the bias itself.

    Args:
        name: ``cross`` (:class:`~crossgcn.CrossFeatureTransform`), ``linear``, ``mlp``
            (one hidden layer), or another crossing module: ``dcn``, ``dcn-v2``,
            ``cin``, ``hofm``.
        in_channels: Features per row.
        out_channels: Width of the output.
        order: Highest order of the crosses; ``linear`` and ``mlp`` have none and take no notice.
        **settings: Of that transformation, see :func:`transform_settings`.

    Raises:
        BadInput: For an unknown name or setting, with those that are known.
    """
    known = transform_settings(name)
    for setting in settings:
        if setting not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadInput(f"the transform {name!r} has no setting {setting!r}; {has}")
    maker = _MAKERS[name]
    if "bias" in inspect.signature(maker).parameters:
        settings["bias"] = False
    return maker(in_channels, out_channels, order, **settings)


def transform_settings(name: str) -> Mapping[str, Any]:
    """What may be set of a transformation, with what it is otherwise.

    Raises:
        BadInput: For an unknown name, with those that are known.
    """
    if name not in _MAKERS:
        raise unknown_name("transform", str(name), _MAKERS)
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(_MAKERS[name]).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.name != "bias"
    }


def _make_linear(in_channels: int, out_channels: int, order: int) -> FeatureTransform:
    return CrossFeatureTransform(in_channels, out_channels, 1, order_weights="fixed", bias=False)


def _make_perceptron(
    in_channels: int,
    out_channels: int,
    order: int,
    *,
    hidden_channels: int | None = None,
    hidden_bias: bool = True,
) -> FeatureTransform:
    """A perceptron, its hidden layer as wide as its output unless told otherwise."""
    hidden = out_channels if hidden_channels is None else hidden_channels
    if hidden < 1:
        raise BadInput(f"hidden_channels must be at least 1; got {hidden_channels}")
    return MLPTransform(in_channels, hidden, out_channels, bias=hidden_bias)


_MAKERS: Mapping[str, Callable[..., FeatureTransform]] = {
    "cross": CrossFeatureTransform,
    "linear": _make_linear,
    "mlp": _make_perceptron,
    **OTHER_CROSSINGS,
}

TRANSFORMS: tuple[str, ...] = tuple(_MAKERS)
"""Every name that :func:`make_transform` knows."""
