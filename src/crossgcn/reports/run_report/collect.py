"""From the folder that ``train`` left to what its report says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_json_object
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.compare import majority_accuracy
from crossgcn.experiments.predict import class_probabilities
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.run import ExplainedRun
from crossgcn.explanation.strongest import field_strengths
from crossgcn.reports.run_report.scores import Calibration, Confusion
from crossgcn.reports.run_report.view import (
    ClassCrosses,
    ColumnView,
    ComparedModel,
    Comparison,
    CrossView,
    Curve,
    FieldStrengths,
    LayerWeights,
    NodeView,
    Role,
    RunView,
    Sizes,
    Step,
    TermView,
    TrainedModel,
)

STEPS = 7
"""Bars of a waterfall, besides the bias and the rest."""

_MOST_PAIRS_OF_FEATURES = 2_000
"""With more features than this, pairs are too many for a heat map of all."""


def view_run(
    run: RunFolder,
    explained: ExplainedRun | None,
    *,
    comparison: Comparison | None = None,
    num_nodes: int = 400,
) -> RunView:
    """Everything the report says.

    Args:
        run: The trained model with its graph.
        explained: Its crosses; none for a model that is no sum of named terms, of which neither
            crosses nor single nodes are shown.
        comparison: Whether crosses help, where that was found out.
        num_nodes: How many nodes to explain one by one: test nodes the model got wrong first,
            then other test nodes, then the rest.
    """
    saved, data, result = run.saved, run.data, _read_result(run.folder)
    probabilities = class_probabilities(saved.model, data)
    predicted = probabilities.argmax(dim=1)
    test = run.split.test
    space = saved.preprocess.space or FeatureSpace.unnamed(data.x.size(1))
    return RunView(
        title=run.config.dataset,
        target=_target(run),
        sizes=_sizes(run, space),
        model=_model(run),
        environment=_environment(run.chosen.record),
        recorded=str(result.get("finished", "at an unknown time")),
        columns=_columns(run),
        warnings=tuple(map(str, result.get("warnings", ()))),
        test_accuracy=tuple(one.record["test_accuracy"] for one in run.runs),
        majority_accuracy=float(
            np.mean([majority_accuracy(data.y, s.train, s.test) for s in run.splits])
        ),
        shown_split=run.chosen.record["split"]["index"] + 1,
        curves=tuple(map(_curve, run.runs)),
        confusion=_confusion(saved.preprocess.classes, data.y[test], predicted[test]),
        calibration=Calibration.measure(
            probabilities[test].max(dim=1).values.tolist(),
            (predicted[test] == data.y[test]).tolist(),
        ),
        order_weights=_order_weights(run),
        crosses=() if explained is None else _crosses(explained, saved.preprocess.classes, space),
        fields=None if explained is None else _fields(run, space),
        comparison=comparison,
        nodes=() if explained is None else _nodes(run, probabilities, num_nodes),
        num_nodes=len(run.ids),
        completeness=None if explained is None else explained.completeness,
    )


def read_comparison(folder: Path) -> Comparison:
    """The answer of ``compare``, from the folder it wrote to.

    Raises:
        BadInput: If it is not there, or is no comparison on tables.
    """
    path = folder / "result.json"
    result = read_json_object(path, "give the folder that crossgcn compare made", "compare again")
    try:
        return Comparison(
            models=tuple(
                ComparedModel(m["model"], tuple(m["test_accuracy"]), m["parameters"] or None)
                for m in result["models"]
            ),
            with_crosses=result["with_crosses"],
            without_crosses=result["without_crosses"],
            difference=result["difference"],
            interval=None if result["interval"] is None else tuple(result["interval"]),
            crosses_help=result["crosses_help"],
            verdict=" ".join(result["answer"]),
        )
    except (KeyError, TypeError) as error:
        raise BadInput(
            f"{path}: is no comparison on tables ({error!r}); make one with crossgcn compare "
            "NODES EDGES --target COLUMN --out"
        ) from None


def _target(run: RunFolder) -> str:
    if run.saved.preprocess.encoding is None:
        return "class"
    return read_encoding(run.saved.preprocess)[1].target or "class"


def _columns(run: RunFolder) -> tuple[ColumnView, ...]:
    if run.saved.preprocess.encoding is None:
        return ()
    plan = read_encoding(run.saved.preprocess)[1]
    return tuple(ColumnView(column.name, column.kind, column.reason) for column in plan.columns)


def _read_result(folder: Path) -> dict[str, Any]:
    """What ``train`` printed at its end; a run that was stopped before has nothing there."""
    try:
        result = json.loads((folder / "result.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def _sizes(run: RunFolder, space: FeatureSpace) -> Sizes:
    y = run.data.y
    counts = torch.bincount(y[y >= 0], minlength=run.data.num_classes).tolist()
    edges = int(run.data.edge_index.size(1))
    if not run.data.get("directed"):
        loops = int((run.data.edge_index[0] == run.data.edge_index[1]).sum())
        edges = (edges - loops) // 2 + loops
    return Sizes(
        nodes=len(y),
        labelled=int((y >= 0).sum()),
        edges=edges,
        features=run.data.x.size(1),
        fields=len(set(space.fields)),
        classes=dict(zip(run.saved.preprocess.classes, counts, strict=True)),
    )


def _model(run: RunFolder) -> TrainedModel:
    config = run.config
    orders = tuple(int(getattr(layer, "order", 1)) for layer in run.saved.model.layers)
    return TrainedModel(
        name=config.model,
        num_layers=config.num_layers,
        orders=orders,
        hidden_channels=config.hidden_channels if config.num_layers > 1 else None,
        parameters=run.chosen.record["parameters"],
        epochs=config.epochs,
        settings={
            "dropout": f"{config.dropout:g}",
            "learning rate": f"{config.learning_rate:g}",
            "weight decay": f"{config.weight_decay:g}",
            "splits": config.splits,
            "seed": str(config.seed),
        },
    )


def _environment(record: dict[str, Any]) -> dict[str, str]:
    environment = record["environment"]
    shown = dict(environment["versions"])
    shown |= {"threads": environment["threads"], "platform": environment["platform"]}
    shown |= {"device": environment.get("gpu", "cpu"), "commit": environment["commit"] or "unknown"}
    return {name: str(value) for name, value in shown.items()}


def _curve(run: FinishedRun) -> Curve:
    metrics = run.curve()
    return Curve(
        epochs=tuple(map(int, metrics["epoch"])),
        train_loss=tuple(metrics["train_loss"]),
        validation_loss=tuple(metrics["validation_loss"]),
        validation_accuracy=tuple(metrics["validation_accuracy"]),
        chosen_epoch=run.record["best_epoch"],
    )


def _confusion(classes: Sequence[str], truth: Tensor, predicted: Tensor) -> Confusion:
    size = len(classes)
    counts = torch.bincount(truth * size + predicted, minlength=size * size).view(size, size)
    return Confusion(tuple(classes), tuple(tuple(row) for row in counts.tolist()))


def _order_weights(run: RunFolder) -> tuple[LayerWeights, ...]:
    """Without their signs, which are chance: the projections make up for them."""
    per_run = [one.record["order_weights"] for one in run.runs]
    layers = zip(*per_run, strict=True)
    trained = any(name.endswith("order_weights") for name, _ in run.saved.model.named_parameters())
    return tuple(
        LayerWeights(tuple(tuple(map(abs, weights)) for weights in layer), trained)
        for layer in layers
        if len(layer[0]) > 1
    )


def _crosses(
    explained: ExplainedRun, classes: Sequence[str], space: FeatureSpace
) -> tuple[ClassCrosses, ...]:
    return tuple(
        ClassCrosses(
            name,
            tuple(_cross_view(row, space) for row in _rows(explained.crosses, name)),
            tuple(
                TermView(row["cross"], row["strength"], row["weight"], row["support"])
                for row in _rows(explained.terms, name)
            ),
        )
        for name in classes
    )


def _rows(frame: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame[frame["class"] == name].to_dict("records")  # type: ignore[assignment]
    return rows


def _cross_view(row: dict[str, Any], space: FeatureSpace) -> CrossView:
    return CrossView(
        name=row["cross"],
        members=tuple(space.names[feature] for feature in row["features"]),
        strength=row["strength"],
        weight=row["weight"],
        support=row["support"],
        stability=row["stability"],
        accuracy_drop=row["accuracy_drop"],
    )


def _fields(run: RunFolder, space: FeatureSpace) -> FieldStrengths | None:
    crosses = max(int(getattr(layer, "order", 1)) for layer in run.saved.model.layers) > 1
    if not crosses or len(space) > _MOST_PAIRS_OF_FEATURES:
        return None
    fields, values = field_strengths(run.saved.model, run.data, space=space)
    return FieldStrengths(fields, tuple(map(tuple, values.tolist())))


def _nodes(run: RunFolder, probabilities: Tensor, num_nodes: int) -> tuple[NodeView, ...]:
    y, predicted = run.data.y, probabilities.argmax(dim=1)
    roles = _roles(run, len(y))
    wrong = (predicted != y) & (y >= 0)
    first = np.array([0 if role == "test" else 1 for role in roles])
    order = np.lexsort((np.arange(len(y)), ~wrong.numpy(), first))[:num_nodes]
    explainer = NodeExplainer(run.saved.model, run.data, run.saved.preprocess.space)
    parts = explainer.top_crosses(order.tolist(), STEPS)
    views = []
    for node, rows in parts.groupby("node", sort=False):
        place = int(str(node))
        steps = rows[rows["kind"] == "term"]
        label = int(predicted[place])
        views.append(
            NodeView(
                id=run.ids[place],
                true_class=int(y[place]) if y[place] >= 0 else None,
                predicted_class=label,
                probability=float(probabilities[place, label]),
                role=roles[place],
                start=float(rows.loc[rows["kind"] == "bias", "contribution"].sum()),
                steps=tuple(
                    Step(name, float(amount))
                    for name, amount in zip(steps["cross"], steps["contribution"], strict=True)
                ),
                total=float(rows["logit"].iloc[0]),
            )
        )
    return tuple(views)


def _roles(run: RunFolder, num_nodes: int) -> list[Role]:
    roles: list[Role] = ["unlabelled" if label < 0 else "other" for label in run.data.y.tolist()]
    names: tuple[Role, ...] = ("train", "validation", "test")
    for name in names:
        for node in getattr(run.split, name).tolist():
            roles[node] = name
    return roles
