"""Models by name, and the options of each.

To add a model, write its class in a file of its own and add an entry to :data:`PRESETS`, which
commands and error messages read. This module does not import torch, so that the command line lists
the names fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.models.node_classifier import NodeClassifier


@dataclass(frozen=True)
class Preset:
    """A model class with settings.

    Attributes:
        model: ``"module:class"``, imported when first used.
        description: A short text, shown by ``crossgcn train --settings``.
        settings: Arguments of the class that define the model; users may override them.
        options: Further arguments that users may give.
        training: Settings of :class:`~crossgcn.RunConfig` that replace the paper's protocol;
            users may override them.
        inputs: What the model reads: node features and edges, or columns of each node and its
            neighbourhood, computed once.
    """

    model: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: frozenset[str] = frozenset({"bias"})
    inputs: Literal["features", "hops"] = "features"
    training: Mapping[str, Any] = field(default_factory=dict)


_CROSS_OPTIONS = frozenset({"bias", "order", "order_weights", "first_order", "aggregate_first"})
_HOPS_OPTIONS = frozenset({"hops", "label_features", "bags", "directed", "edge_columns"})

# NOTE[D3] The released models have no bias, so the models compared with them have none
# either; the paper's text adds one. Layers have one by default, as in PyG.
_NO_BIAS = {"bias": False}
_AS_RELEASED = {"first_order": "release", **_NO_BIAS}


def _cross_gcn(description: str, **settings: Any) -> Preset:
    return Preset("crossgcn.models.cross_gcn:CrossGCN", description, settings, _CROSS_OPTIONS)


# Chosen on validation nodes of the graphs in docs/real_graphs.md.
_HOPS_TRAINING = {
    "num_layers": 1,
    "hidden_channels": 8,
    "weight_decay": 0.001,
    "learning_rate": 0.003,
    "epochs": 200,
    "batch_size": 512,
    "patience": 20,
    "bags": 8,
    "label_features": True,
}

PRESETS: dict[str, Preset] = {
    "gcn": Preset(
        "crossgcn.models.cross_gcn:GCN",
        "graph convolution without crosses (Kipf and Welling)",
        _NO_BIAS,
    ),
    "gin": Preset(
        "crossgcn.models.cross_gcn:GIN",
        "a perceptron as feature transformation, a baseline of the paper",
        _NO_BIAS,
        options=frozenset({"bias", "aggregate_first"}),
    ),
    "mlp": Preset("crossgcn.models.cross_gcn:MLP", "a perceptron without the graph", _NO_BIAS),
    "cross-gcn": _cross_gcn(
        "ours: crosses start at zero and are learned (gated order weights)",
        order_weights="gated",
        **_NO_BIAS,
    ),
    "cross-hops": Preset(
        "crossgcn.models.cross_hops:CrossHops",
        "ours for tables: crosses of own columns and neighbours' means, an exact sum of terms",
        options=_HOPS_OPTIONS | {"order"},
        inputs="hops",
        training=_HOPS_TRAINING,
    ),
    "mlp-hops": Preset(
        "crossgcn.models.cross_hops:HopPerceptron",
        "a perceptron on the columns of cross-hops, a black box",
        options=_HOPS_OPTIONS,
        inputs="hops",
        training=_HOPS_TRAINING | {"hidden_channels": 16},
    ),
    "cross-gcn-release": _cross_gcn(
        "the authors' code, Cross-GCN: one trained order weight per layer",
        order_weights="learned",
        **_AS_RELEASED,
    ),
    "cross-gcn-release-fix": _cross_gcn(
        "the authors' code, Cross-GCN_Fix: all order weights 1",
        order_weights="fixed",
        **_AS_RELEASED,
    ),
    "cross-gcn-paper": _cross_gcn(
        "the paper's text: aggregate, then cross, trained order weights",
        order_weights="learned",
        aggregate_first=True,
    ),
    "cross-gcn-paper-fix": _cross_gcn(
        "the paper's text with all order weights 1", order_weights="fixed", aggregate_first=True
    ),
}


def get_preset(name: str) -> Preset:
    """Return a preset by its name."""
    if name not in PRESETS:
        raise unknown_name("model", name, PRESETS)
    return PRESETS[name]


MODEL_OPTIONS = frozenset().union(*(preset.options for preset in PRESETS.values()))
"""Settings that only some models have."""


def settings_of_models(
    models: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return, for each model, the settings that it has; ``None`` means not given.

    Raises:
        BadInput: If none of the models has a setting; the message names models that do.
    """
    options = {model: get_preset(model).options for model in models}
    of_none = MODEL_OPTIONS.difference(*options.values())
    for name, value in settings.items():
        if value is not None and name in of_none:
            others = ", ".join(model for model, each in PRESETS.items() if name in each.options)
            raise BadInput(
                f"{name} has no effect: {' and '.join(models)} "
                f"{'does' if len(models) == 1 else 'do'} not have it; leave it out, or add a "
                f"model that has it ({others})"
            )
    return {
        model: {name: settings[name] for name in settings if name not in MODEL_OPTIONS - known}
        for model, known in options.items()
    }


def has_orders(model: str) -> bool:
    """Return whether ``order`` is an option of a model."""
    return "order" in get_preset(model).options


def first_layer_crosses(order: int, num_layers: int) -> tuple[int, ...]:
    """Return one order per layer, with crosses in the first layer only.

    Every cross is then a product of input columns (see :mod:`crossgcn.explanation`).
    """
    return (order, *[1] * (num_layers - 1))


def build_model(
    name: str,
    in_channels: int,
    out_channels: int,
    *,
    hidden_channels: int = 32,
    num_layers: int | None = None,
    dropout: float = 0.5,
    **overrides: Any,
) -> NodeClassifier:
    """Build the model of a preset, such as ``"cross-gcn"``.

    ``out_channels`` is the number of classes, or 1 to predict a number. ``overrides`` replace the
    preset's settings; ``None`` keeps the preset's. The default is two layers, one in cross-hops.
    """
    preset = get_preset(name)
    given = {option: value for option, value in overrides.items() if value is not None}
    for option in given:
        if option not in preset.options:
            raise BadInput(
                f"model {name!r} has no option {option!r}: it takes "
                f"{', '.join(sorted(preset.options))}"
            )
    settings = {**preset.settings, **given}
    module, _, class_name = preset.model.partition(":")
    model: NodeClassifier = getattr(import_module(module), class_name)(
        in_channels,
        hidden_channels,
        num_layers=preset.training.get("num_layers", 2) if num_layers is None else num_layers,
        out_channels=out_channels,
        dropout=dropout,
        **settings,
    )
    if out_channels == 1:
        model.predict_number()
    return model
