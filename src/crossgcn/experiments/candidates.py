"""The models that ``compare`` trains on tables, and their settings.

Nothing here imports torch or scikit-learn, because the command line lists the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crossgcn.errors import BadInput
from crossgcn.models.catalogue import (
    MODEL_OPTIONS,
    first_layer_crosses,
    get_preset,
    has_orders,
)
from crossgcn.training.config import RunConfig, given_settings
from crossgcn.training.metrics import DEFAULT_METRICS, task_of_outputs

if TYPE_CHECKING:
    from crossgcn.data.relations import Relation
    from crossgcn.data.tables.graph import TableGraph

Trials = tuple[Mapping[str, Any], ...]
"""Settings to choose from on the validation nodes, the most promising first."""

_OF_NETWORKS: Trials = (
    {"dropout": 0.0, "weight_decay": 0.0},
    {"dropout": 0.5, "weight_decay": 1e-4},
    {"dropout": 0.2, "weight_decay": 1e-3},
    {"dropout": 0.0, "weight_decay": 1e-2},
)
_OF_HOPS: Trials = ({},)
"""Presets that read columns of hops choose settings within each training (``tuning``)."""
_OF_BOOSTING: Trials = (
    {"learning_rate": 0.1, "max_leaf_nodes": 15},
    {
        "learning_rate": 0.05,
        "max_leaf_nodes": 8,
        "max_features": 0.3,
        "l2_regularization": 1.0,
        "min_samples_leaf": 5,
    },
    {"learning_rate": 0.05, "max_leaf_nodes": 31, "max_features": 0.3},
    {"learning_rate": 0.1, "max_leaf_nodes": 3, "l2_regularization": 1.0},
)
_OF_EBM: Trials = (
    {"interactions": 0, "learning_rate": 0.04},
    {"interactions": 10, "learning_rate": 0.04},
    {"interactions": 30, "learning_rate": 0.04},
    {"interactions": 10, "learning_rate": 0.01},
)
_OF_LIGHTGBM: Trials = (
    {"learning_rate": 0.05, "num_leaves": 15, "colsample_bytree": 0.3, "reg_lambda": 1.0},
    {"learning_rate": 0.03, "num_leaves": 31, "colsample_bytree": 0.5, "min_child_samples": 5},
    {"learning_rate": 0.05, "num_leaves": 4, "colsample_bytree": 0.3, "reg_lambda": 10.0},
    {"learning_rate": 0.02, "num_leaves": 63, "colsample_bytree": 0.3, "reg_lambda": 10.0},
)
_LAYERS = {"num_layers": 2, "hidden_channels": 64, "dropout": 0.2, "learning_rate": 3e-3}
_OF_GNN: Trials = (
    {"kind": "gcn", **_LAYERS},
    {"kind": "sage", **_LAYERS},
    {"kind": "gat", **_LAYERS},
    {"kind": "gcn", **_LAYERS, "num_layers": 4, "hidden_channels": 128, "learning_rate": 1e-3},
)
MOST_TRIALS, DEFAULT_TRIALS = 4, 2

PACKAGES = {"ebm": ("interpret", "ebm"), "lightgbm": ("lightgbm", "lightgbm")}
"""Package and extra that an estimator needs."""


@dataclass(frozen=True)
class Fitted:
    """The best stage of a model, its score on validation nodes, and its scores of test nodes.

    Attributes:
        gain: Greater is better.
        scores: ``[nodes, classes]``, or numbers, ``[nodes, 1]``.
    """

    best_epoch: int
    gain: float
    scores: Any


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison.

    Attributes:
        preset: A network of :data:`~crossgcn.models.catalogue.PRESETS`; for an estimator, a
            network that reads the same columns.
        trials: Settings to try in each split; the validation nodes choose one trial.
        settings: Settings of the preset that define this model.
        twin: Name of the same model without crosses.
        estimator: A model of :mod:`~crossgcn.experiments.boosting` or of
            :mod:`~crossgcn.experiments.gnn` instead of a network of this package.
        glass_box: Whether a score is an exact sum of named terms.
        by_default: Whether it is trained if no models are named.
    """

    description: str
    preset: str
    trials: Trials
    settings: Mapping[str, Any] = field(default_factory=dict)
    twin: str | None = None
    estimator: Literal["constant", "boosting", "ebm", "lightgbm", "gnn"] | None = None
    glass_box: bool = True
    by_default: bool = True

    @property
    def columns(self) -> Literal["none", "own", "hops", "graph"]:
        """What the model reads: nothing, own columns, also neighbours' columns, or the graph."""
        if self.estimator == "constant":
            return "none"
        if self.settings.get("hops") == 0:
            return "own"
        return "hops" if get_preset(self.preset).inputs == "hops" else "graph"

    @property
    def sees_graph(self) -> bool:
        """Whether the model reads neighbours."""
        return self.columns in ("hops", "graph")


CONSTANT, _TWIN, _USUAL = "majority-or-mean", "cross-hops-1", "cross-hops-2"
_WITHOUT = " without "
_OWN, _ALL = "own columns", "own and neighbours' columns"
_NO_GRAPH = {"hops": 0}
_HOPS = ("cross-hops", _OF_HOPS)
_BOOSTING: Any = {"estimator": "boosting", "glass_box": False}
_LIGHTGBM: Any = {"estimator": "lightgbm", "glass_box": False, "by_default": False}

CANDIDATES: Mapping[str, Candidate] = {
    CONSTANT: Candidate(
        "always the commonest class, or the mean", "cross-hops", ({},), estimator="constant"
    ),
    "linear": Candidate(f"{_OWN}, weighted and added", *_HOPS, {"order": 1, **_NO_GRAPH}),
    "cross-own": Candidate(
        f"{_OWN} and products of two", *_HOPS, {"order": 2, **_NO_GRAPH}, "linear"
    ),
    "cross-hops-1": Candidate(f"{_ALL}, weighted and added", *_HOPS, {"order": 1}),
    "cross-hops-2": Candidate(f"{_ALL} and products of two", *_HOPS, {"order": 2}, _TWIN),
    "cross-hops-3": Candidate(
        f"{_ALL} and products of up to three", *_HOPS, {"order": 3}, _TWIN, by_default=False
    ),
    "ebm": Candidate(
        f"explainable boosting, {_OWN}", "cross-hops", _OF_EBM, _NO_GRAPH, estimator="ebm"
    ),
    "ebm-hops": Candidate(
        f"explainable boosting, {_ALL}", "cross-hops", _OF_EBM, estimator="ebm", by_default=False
    ),
    "gcn": Candidate("graph convolution", "gcn", _OF_NETWORKS),
    "cross-gcn-2": Candidate(
        "graph convolution with products of two columns",
        *("cross-gcn", _OF_NETWORKS, {"order": 2}, "gcn"),
        by_default=False,
    ),
    "boosting": Candidate(
        f"gradient boosting, {_OWN}", "cross-hops", _OF_BOOSTING, _NO_GRAPH, **_BOOSTING
    ),
    "boosting-hops": Candidate(
        f"gradient boosting, {_ALL}", "cross-hops", _OF_BOOSTING, **_BOOSTING
    ),
    "lightgbm": Candidate(f"LightGBM, {_OWN}", "cross-hops", _OF_LIGHTGBM, _NO_GRAPH, **_LIGHTGBM),
    "lightgbm-hops": Candidate(
        f"LightGBM, {_ALL}, also largest and smallest values and PageRank",
        *("cross-hops", _OF_LIGHTGBM),
        **_LIGHTGBM,
    ),
    "perceptron": Candidate(
        f"one hidden layer, {_OWN}", "mlp-hops", _OF_HOPS, _NO_GRAPH, glass_box=False
    ),
    "perceptron-hops": Candidate(
        f"one hidden layer, {_ALL}", "mlp-hops", _OF_HOPS, glass_box=False
    ),
    "gnn": Candidate(
        "residual graph convolution, GraphSAGE or attention with layer norm",
        *("gcn", _OF_GNN),
        estimator="gnn",
        glass_box=False,
        by_default=False,
    ),
}
"""Glass boxes first, from the simplest to the most complex."""

TABLE_DEFAULTS: Mapping[str, Any] = {
    "num_splits": 10,
    "dropout": 0.2,
    "bias": True,
    "patience": 50,
    "columns": "auto",
    "tuning": DEFAULT_TRIALS,
}
"""Settings of all models on tables that differ from the paper's protocol."""

_HOP_DEFAULTS = {"dropout": 0.1, "weight_decay": 1e-2}
"""Settings of presets that read columns of hops, without tuning."""

_CHOSEN_BY_TRIALS = ("dropout", "weight_decay", "learning_rate")
"""Settings that tuning chooses. If one of them is given, nothing is tuned."""


def find_candidate(name: str) -> Candidate:
    """Return a candidate by its name, also of one ``without`` a relation."""
    return CANDIDATES[name.partition(_WITHOUT)[0]]


def without_relations(
    names: Sequence[str], relations: Sequence[Relation]
) -> dict[str, dict[str, str]]:
    """Return the settings of one model trained without each of several relations, by its name.

    The model is ``cross-hops-2``, or else the first of the ``names`` that reads columns of
    neighbours; without such a model nothing is returned.
    """
    found = [each for each in names if CANDIDATES[each].preset == "cross-hops"]
    found = [each for each in found if CANDIDATES[each].columns == "hops"]
    found = [each for each in found if CANDIDATES[each].estimator is None]
    if not found or len(relations) < 2:
        return {}
    model = _USUAL if _USUAL in found else found[0]
    return {f"{model}{_WITHOUT}{each.name}": {"without": each.name} for each in relations}


def configure_candidate(
    candidate: Candidate, trial: int, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> RunConfig:
    """Return the configuration of one trial, without ``settings`` that the model does not have.

    For an estimator, this is the configuration of a network that reads the same columns.
    """
    tuned = candidate.trials[trial] if candidate.estimator is None else {}
    wanted = {**settings, "model": candidate.preset, **candidate.settings, **tuned}
    foreign = _foreign_settings(candidate.preset)
    kept = {name: value for name, value in wanted.items() if name not in foreign}
    return _configure(candidate.preset, defaults, kept)


def train_options(config: RunConfig, defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that give ``crossgcn train`` this configuration on tables."""
    usual, words = _configure(config.model, defaults, {"model": config.model}), list[str]()
    names = [
        name
        for name in dict.fromkeys([*_OPTIONS, *RunConfig.model_fields])
        if name == "model" or (name != "dataset" and getattr(config, name) != getattr(usual, name))
    ]
    if config.tuning and not {*_CHOSEN_BY_TRIALS}.isdisjoint(names):
        names = [*dict.fromkeys([*names, "tuning"])]  # given one of these, train does not tune
    for name in names:
        value = getattr(config, name)
        parts = value if isinstance(value, tuple) else (value,)
        text = ",".join(f"{x:g}" if isinstance(x, float) else str(x).lower() for x in parts)
        is_option = name in _OPTIONS
        words += [f"--{name.replace('_', '-')}", text] if is_option else ["--set", f"{name}={text}"]
    return tuple(words)


_OPTIONS = (
    *("model", "order", "hidden_channels", "num_layers", "hops", "bags", "dropout", "epochs"),
    *("patience", "metric", "class_weight", "splits", "train", "num_splits", "seed", "columns"),
)
"""Settings for which ``crossgcn train`` has an option; ``--set`` takes the others."""


_OF_HOPS_ONLY = {"batch_size", "columns", "tuning", "without"}


def _foreign_settings(model: str) -> frozenset[str]:
    """Return the settings that a model does not have."""
    preset = get_preset(model)
    others = {"num_layers"} if preset.inputs == "hops" else _OF_HOPS_ONLY
    if not has_orders(model):
        others.add("columns")
    return (MODEL_OPTIONS - preset.options) | others


def configure_for_tables(
    graph: TableGraph | None, settings: Mapping[str, Any], *, config_file: Path | None = None
) -> RunConfig:
    """Return the configuration of ``crossgcn train``; tables have defaults of their own.

    Args:
        graph: The tables; ``None`` for another dataset.
        settings: Fields of :class:`~crossgcn.RunConfig`; ``None`` for those not given.
        config_file: A file with further settings.
    """
    given = given_settings(config_file, settings)
    if graph is None:
        config = RunConfig.create(**given)
        return RunConfig.create(defaults=_HOP_DEFAULTS, **given) if config.takes_hops else config
    defaults = table_defaults(graph, given.get("splits"))
    if any(name in given for name in _CHOSEN_BY_TRIALS):
        del defaults["tuning"]
    model = str(given.get("model", "cross-hops"))
    return _configure(model, defaults, {**given, "model": model})


def table_defaults(graph: TableGraph, splits: str | None) -> dict[str, Any]:
    """Return the default settings of all models on these tables.

    Args:
        splits: Value of ``--splits``; refused where it contradicts the tables.
    """
    column, has_time = graph.plan.split_column, graph.plan.time_column is not None
    kind = "public" if column is not None else "time" if has_time else "stratified"
    if splits == "public" and graph.data.get("roles") is not None:
        kind = "public"
    if splits == "stratified" and column is None:
        kind = "stratified"
    if splits not in (None, kind):
        what, option = ("time of each row", "time") if splits == "time" else ("parts", "split")
        remedy = (
            f"leave out --splits, or name the column with the {what} as --{option}-column"
            if column is None
            else f"leave out --splits to use column {column!r}, or --ignore it to draw splits"
        )
        raise BadInput(f"--splits {splits} is not for these tables: {remedy}")
    metric = DEFAULT_METRICS[task_of_outputs(graph.data.num_classes)]
    defaults = {**TABLE_DEFAULTS, "splits": kind, "metric": metric}
    if kind != "stratified":
        del defaults["num_splits"]  # as many as the column has
    return defaults


def _configure(model: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> RunConfig:
    """Return a configuration. Precedence of a setting: given, preset, defaults.

    A single ``order`` applies to the first layer only, so that crosses are products of the table's
    columns, not of hidden units.
    """
    preset = get_preset(model)
    replaced = {*preset.training, *_foreign_settings(model)}
    kept = {name: value for name, value in defaults.items() if name not in replaced}
    config = RunConfig.create(
        defaults=kept | (_HOP_DEFAULTS if preset.inputs == "hops" else {}), **given
    )
    if not has_orders(model) or isinstance(config.order, tuple):
        return config
    order: Any = 2 if config.order is None else config.order
    if preset.inputs != "hops":  # cross-hops has one layer, and one order
        order = first_layer_crosses(order, config.num_layers)
    return config.model_copy(update={"order": order})
