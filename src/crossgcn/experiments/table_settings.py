"""Settings of models that are trained on a user's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import TRIALS, cross_in_first_layer
from crossgcn.models.catalogue import PRESETS
from crossgcn.training.config import RunConfig, given_settings
from crossgcn.training.metrics import DEFAULT_METRICS, Task, check_metric, task_of_outputs

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph

TABLE_DEFAULTS: Mapping[str, Any] = {
    "model": "cross-hops",
    "num_splits": 10,
    "dropout": 0.2,
    "bias": True,
    "patience": 50,
}
"""Settings for a user's own tables, where they differ from the paper's protocol."""

_MANY_COLUMNS = 300


def hop_settings(num_features: int) -> dict[str, float]:
    """Return the dropout and weight decay of cross-hops.

    They were chosen on the validation nodes of the graphs in docs/real_graphs.md.
    """
    return dict(TRIALS["hops"][1 if num_features > _MANY_COLUMNS else 0])


def configure_for_tables(
    graph: TableGraph | None, settings: Mapping[str, Any], *, config_file: Path | None = None
) -> RunConfig:
    """Return the configuration of a model, with the defaults for tables if there are any.

    Args:
        graph: The tables; ``None`` for another dataset.
        settings: Fields of :class:`~crossgcn.RunConfig`; ``None`` for those not given.
        config_file: TOML file with further ones.
    """
    given = given_settings(config_file, settings)
    if graph is None:
        model = given.get("model", RunConfig.model_fields["model"].default)
        return RunConfig.create(defaults=hop_settings(0) if _has_hops(model) else {}, **given)
    model = given.get("model", TABLE_DEFAULTS["model"])
    defaults = table_defaults(graph, given.get("splits"), model) | {"model": model}
    config = cross_in_first_layer(RunConfig.create(defaults=defaults, **given))
    _check_for_target(graph, config, task_of_outputs(graph.data.num_classes))
    return config


def table_defaults(
    graph: TableGraph, splits: str | None, model: str | None = None
) -> dict[str, Any]:
    """Return the settings of a model for tables that the user did not give.

    Args:
        splits: Value of ``--splits``; refused where it contradicts the tables.
        model: Name of a preset; without it, the defaults are for several models.
    """
    column = graph.plan.split_column
    kind = "stratified" if column is None else "public"
    if splits == "public" and getattr(graph.data, "roles", None) is not None:
        kind = "public"
    if splits not in (None, kind):
        remedy = (
            "leave out --splits, or name the column with the parts as --split-column"
            if column is None
            else f"leave out --splits to use column {column!r}, or --ignore it to draw splits"
        )
        raise BadInput(f"--splits {splits} is not for these tables: {remedy}")
    metric = DEFAULT_METRICS[task_of_outputs(graph.data.num_classes)]
    defaults = dict(TABLE_DEFAULTS) | {"splits": kind, "metric": metric}
    del defaults["model"]
    if kind == "public":
        del defaults["num_splits"]  # as many as the column has
    if model is not None and _has_hops(model):
        for name in ("bias", "patience"):  # the preset has its own
            del defaults[name]
        defaults |= hop_settings(graph.data.num_features)
    return defaults


def _has_hops(model: object) -> bool:
    return isinstance(model, str) and model in PRESETS and PRESETS[model].inputs == "hops"


def _check_for_target(graph: TableGraph, config: RunConfig, task: Task) -> None:
    """Refuse a metric or weights of classes that do not fit the target."""
    place = f"{graph.data.name}, column {graph.plan.target}"
    if config.metric is not None:
        try:
            check_metric(config.metric, task)
        except BadInput as error:
            raise BadInput(f"{place}: {error}") from None
    weights = config.class_weight
    if weights is not None and task == "regression":
        raise BadInput(f"{place}: --class-weight is for classes, not for a number: leave it out")
    if isinstance(weights, tuple) and len(weights) != len(graph.classes):
        raise BadInput(
            f"{place}: --class-weight has {len(weights)} weights for {len(graph.classes)} classes: "
            f"give one each for {', '.join(graph.classes)}"
        )
