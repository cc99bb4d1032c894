"""From a preset's name to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crossgcn.errors import BadInput
from crossgcn.layers.cross_gcn_conv import ONLY_OF_CROSSES
from crossgcn.models.baselines import GCN, GIN, MLP, SemiEmb
from crossgcn.models.cross_gcn import CrossGCN
from crossgcn.models.cross_grand import CrossGrand
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.models.presets import get_preset, has_orders

MODELS: Mapping[str, Callable[..., NodeClassifier]] = {
    "CrossGCN": CrossGCN,
    "CrossGrand": CrossGrand,
    "GCN": GCN,
    "GIN": GIN,
    "MLP": MLP,
    "SemiEmb": SemiEmb,
}


def build_model(
    name: str,
    in_channels: int,
    out_channels: int,
    *,
    hidden_channels: int = 32,
    num_layers: int = 2,
    dropout: float = 0.5,
    **overrides: Any,
) -> NodeClassifier:
    """Build the model a preset names.

    Args:
        name: A preset, such as ``"cross-gcn"``.
        in_channels: Features per node.
        out_channels: Number of classes.
        hidden_channels: Width of the hidden layers.
        num_layers: How many layers.
        dropout: Probability of dropping an entry of a layer's input.
        **overrides: Settings that replace the preset's; ``None`` keeps its own.
    """
    preset = get_preset(name)
    given = {option: value for option, value in overrides.items() if value is not None}
    for option in given:
        if option not in preset.options:
            raise BadInput(
                f"model {name!r} has no option {option!r}: it takes "
                f"{', '.join(sorted(preset.options))}"
            )
    _check_transform(name, given)
    settings = {**preset.settings, **given}
    model = MODELS[preset.model]
    return model(in_channels, hidden_channels, out_channels, num_layers, dropout, **settings)


def _check_transform(name: str, given: Mapping[str, Any]) -> None:
    """Refuse settings that nothing in the model would take notice of."""
    transform = given.get("transform", "cross")
    transforms = {transform} if isinstance(transform, str) else set(transform)
    refused = set() if "cross" in transforms else set(ONLY_OF_CROSSES)
    if "order" in given and not has_orders(name, transform):
        refused.add("order")
    for option in sorted(refused & given.keys()):
        raise BadInput(
            f"{option} says how crosses are made, and transform {transform!r} makes none that have "
            "it: leave it out"
        )
