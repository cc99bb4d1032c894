"""Collect the contents of a report from the folder that ``train`` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_json_object
from crossgcn.data.graph import is_labelled
from crossgcn.data.seals import read_sealed_json
from crossgcn.data.splits import Split
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import FinishedRun, RunFolder, metrics_of_test
from crossgcn.explanation.column_details import cell_text, term_records
from crossgcn.explanation.columns import CROSS, ColumnTerms
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.run import ExplainedRun
from crossgcn.explanation.strongest import field_strengths
from crossgcn.models.cross_hops import CrossHops
from crossgcn.reports.format import count
from crossgcn.reports.node_terms import TermsOfNodes
from crossgcn.reports.run_report.scores import Calibration, Confusion, Errors
from crossgcn.reports.run_report.view import (
    ClassCrosses,
    ColumnView,
    ComparedModel,
    ComparisonView,
    CrossView,
    Curve,
    FieldStrengths,
    LayerWeights,
    NodeView,
    Role,
    RunView,
    ScoreTerms,
    Step,
    TermView,
)
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RECORD

STEPS = 7
"""Number of bars of a waterfall, besides the bias and the rest."""

_MOST_PAIRS_OF_FEATURES = 2_000
"""The largest number of features for which all pairs are summed for the heat map."""


def view_run(
    run: RunFolder,
    explained: ExplainedRun | None,
    *,
    terms: ColumnTerms | None = None,
    num_terms: int = 10,
    unexplained: str = "",
    comparison: ComparisonView | None = None,
    num_nodes: int = 400,
) -> RunView:
    """Collect the contents of a report.

    Args:
        run: The trained model with its graph.
        explained: Its crosses; ``None`` for a model that has none to list.
        terms: The terms of a model that is a sum of terms of columns.
        num_terms: How many of them to list for each score.
        unexplained: Why it is not explained, as a sentence.
        comparison: The answer of ``compare``.
        num_nodes: How many nodes to explain one by one: first misclassified test nodes, then other
            test nodes, then the others.
    """
    saved, data, test = run.saved, run.data, run.split.test
    classes, num_classes = saved.preprocess.classes, data.num_classes
    result = _read_result(run.folder)
    nodes: tuple[NodeView, ...] = ()
    scores = score_nodes(run)
    is_number = data.y.is_floating_point()
    probabilities, predicted = scores.softmax(dim=1), scores.argmax(dim=1)
    plan = None if saved.preprocess.encoding is None else read_encoding(saved.preprocess)[1]
    space = saved.preprocess.space or FeatureSpace.unnamed(data.x.size(1))
    known = data.y[is_labelled(data.y)]
    counts = () if is_number else torch.bincount(known, minlength=num_classes).tolist()
    metric, metrics = run.chosen.record["metric"], [metrics_of_test(o.record) for o in run.runs]
    orders = [int(getattr(layer, "order", 1)) for layer in saved.model.layers]
    if isinstance(saved.model, CrossHops):
        orders = [saved.model.order]
    if terms is not None and not is_number:
        nodes = _nodes_of_terms(run, probabilities, num_nodes, terms)
    elif explained is not None:
        nodes = _nodes(run, probabilities, num_nodes)
    return RunView(
        title=run.config.dataset,
        target="class" if plan is None else plan.target or "class",
        num_nodes=len(run.ids),
        num_edges=_num_edges(data),
        num_columns=len(set(space.fields)),
        class_sizes={} if is_number else dict(zip(classes, counts, strict=True)),
        target_range=(float(known.min()), float(known.max())) if is_number else None,
        model=run.config.model,
        has_crosses=max(orders) > 1,
        facts=_facts(run, orders, space, result),
        columns=tuple(ColumnView(c.name, c.kind, c.reason) for c in plan.columns) if plan else (),
        warnings=tuple(map(str, result.get("warnings", ()))),
        test={
            name: tuple(each[name] for each in metrics)
            for name in sorted(metrics[0], key=lambda name: name != metric)
        },
        guess=float(np.mean([_guess(data.y, split) for split in run.splits])),
        shown_split=run.chosen.record["split"]["index"] + 1,
        curves=tuple(_curve(one, metric) for one in run.runs),
        confusion=None if is_number else Confusion.measure(classes, data.y[test], predicted[test]),
        calibration=None
        if is_number
        else Calibration.measure(
            probabilities[test].max(dim=1).values, predicted[test] == data.y[test]
        ),
        errors=Errors.measure(data.y[test], scores[test, 0]) if is_number else None,
        order_weights=_order_weights(run),
        crosses=() if explained is None else _crosses(explained, classes, space),
        terms=() if terms is None else _score_terms(terms, num_terms),
        unexplained=unexplained,
        fields=_fields(run, space) if explained is not None and max(orders) > 1 else None,
        comparison=comparison,
        nodes=nodes,
        completeness=None if explained is None else explained.completeness,
    )


def read_comparison(folder: Path, run: RunFolder) -> ComparisonView:
    """Read the answer of ``compare`` from its folder; it must be about the graph of a run."""
    path = folder / "result.json"
    result = read_sealed_json(path, "give the folder that crossgcn compare made", "compare again")
    metric = result.get("metric", "accuracy")
    record = next(folder.rglob(RECORD), None)
    if "answers" in result and record is not None:
        compared = read_json_object(record, "give the whole folder", "compare again")["dataset"]
        trained = run.chosen.record["dataset"]
        if compared["sha256"] != trained["sha256"]:
            raise BadInput(
                f"{path}: compares models on another graph, column to predict or choice of columns "
                f"than those of {run.folder} ({result['dataset']}, {result['target']}): give the "
                "comparison of the same tables with the same options"
            )
    try:
        crosses: dict[str, Any] = result["answers"]["crosses"] or dict.fromkeys(
            ("model", "against", "difference", "interval", "verdict")
        )
        helps: dict[Any, bool] = {"helps": True, "does not help": False}
        return ComparisonView(
            models=tuple(
                ComparedModel(m["model"], _values(m, metric), m.get("parameters") or None)
                for m in result["models"]
            ),
            with_crosses=crosses["model"],
            without_crosses=crosses["against"],
            difference=crosses["difference"],
            interval=None if crosses["interval"] is None else tuple(crosses["interval"]),
            crosses_help=helps.get(crosses["verdict"]),
            verdict=" ".join(result["answer"]),
            metric=metric,
        )
    except (KeyError, TypeError) as error:
        raise BadInput(
            f"{path}: is not a comparison on tables ({error!r}); make one with crossgcn compare "
            "NODES EDGES --target COLUMN --out"
        ) from None


def _values(model: dict[str, Any], metric: str) -> tuple[float, ...]:
    return tuple(model["test"][metric] if "test" in model else model["test_accuracy"])


def _guess(y: Tensor, split: Split) -> float:
    """Return how well the commonest class, or the mean number, of the training nodes does."""
    own, truth = y[split.train], y[split.test]
    if y.is_floating_point():
        return float((truth - own.mean()).square().mean().sqrt())
    return float((truth == own.mode().values).float().mean())


def _curve(run: FinishedRun, metric: str) -> Curve:
    """Read a learning curve; a metric that should shrink is recorded negated."""
    metrics = run.curve()
    if not METRICS[metric].grows:
        metrics["validation_score"] = [-value for value in metrics["validation_score"]]
    return Curve(metrics, run.record["best_epoch"])


def _read_result(folder: Path) -> dict[str, Any]:
    """Return what ``train`` printed; empty if the run was stopped before its end."""
    path = folder / "result.json"
    if not path.exists():
        return {}
    again = "remove it, or write it again with the same crossgcn train command and --resume"
    return read_sealed_json(path, again, again)


def _num_edges(data: Data) -> int:
    """Count the edges; an undirected edge, which is stored in both directions, counts once."""
    edges = int(data.edge_index.size(1))
    if data.get("directed"):
        return edges
    loops = int((data.edge_index[0] == data.edge_index[1]).sum())
    return (edges - loops) // 2 + loops


def _facts(
    run: RunFolder, orders: Sequence[int], space: FeatureSpace, result: dict[str, Any]
) -> dict[str, str]:
    config, record, labelled = run.config, run.chosen.record, is_labelled(run.data.y)
    environment = record["environment"]
    model, words = run.saved.model, f"order{'s' * (len(orders) > 1)}"
    hidden = f"{config.hidden_channels} hidden channels"
    if isinstance(model, CrossHops):
        size = [
            count(model.plan.hops, "hop"),
            "labels of neighbours" if model.plan.num_labels else "",
            f"mean of {model.bags} models with {hidden} each" if model.bags > 1 else hidden,
        ]
    else:
        size = [count(config.num_layers, "layer"), hidden if config.num_layers > 1 else ""]
    parts = [
        config.model,
        f"{words} {' and '.join(map(str, orders))}",
        *size,
        count(record["parameters"], "parameter"),
    ]
    facts = {
        "model": ", ".join(filter(None, parts)),
        "training": f"{count(len(run.runs), 'split')}, at most {config.epochs:,} epochs each",
        "dropout": f"{config.dropout:g}",
        "learning rate": f"{config.learning_rate:g}",
        "weight decay": f"{config.weight_decay:g}",
        "splits": config.splits,
        "seed": config.seed,
        "data": f"{count(len(labelled), 'node')}, {int(labelled.sum()):,} of them labelled; "
        f"{count(_num_edges(run.data), 'edge')}; {count(run.data.x.size(1), 'feature')} of "
        f"{count(len(set(space.fields)), 'column')}",
        "finished": result.get("finished", "at an unknown time"),
        **environment["versions"],
        "threads": environment["threads"],
        "platform": environment["platform"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"] or "unknown",
    }
    return {name: str(value) for name, value in facts.items()}


def _order_weights(run: RunFolder) -> tuple[LayerWeights, ...]:
    """Return absolute order weights: the projections can flip any sign."""
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
    def views(frame: pd.DataFrame, name: str) -> tuple[CrossView, ...]:
        return tuple(
            CrossView(
                name=row["cross"],
                members=tuple(space.names[feature] for feature in row["features"]),
                strength=row["strength"],
                weight=row["weight"],
                support=row["support"],
                stability=row.get("stability"),
                accuracy_drop=row.get("accuracy_drop"),
            )
            for row in frame[frame["class"] == name].to_dict("records")
        )

    return tuple(
        ClassCrosses(name, views(explained.crosses, name), views(explained.terms, name))
        for name in classes
    )


def _fields(run: RunFolder, space: FeatureSpace) -> FieldStrengths | None:
    if len(space) > _MOST_PAIRS_OF_FEATURES:
        return None
    fields, values = field_strengths(run.saved.model, run.data, space=space)
    return FieldStrengths(fields, tuple(map(tuple, values.tolist())))


def _nodes(run: RunFolder, probabilities: Tensor, num_nodes: int) -> tuple[NodeView, ...]:
    roles = _roles(run)
    explainer = NodeExplainer(run.saved.model, run.data, run.saved.preprocess.space)
    parts = explainer.top_crosses(_order_of_nodes(run, probabilities, roles)[:num_nodes], STEPS)
    views = []
    for node, rows in parts.groupby("node", sort=False):
        steps = rows[rows["kind"] == "term"]
        views.append(
            _node_view(
                run,
                probabilities,
                roles,
                int(str(node)),
                start=float(rows.loc[rows["kind"] == "bias", "contribution"].sum()),
                steps=zip(steps["cross"], steps["contribution"], strict=True),
                total=float(rows["logit"].iloc[0]),
            )
        )
    return tuple(views)


def _nodes_of_terms(
    run: RunFolder, probabilities: Tensor, num_nodes: int, terms: ColumnTerms
) -> tuple[NodeView, ...]:
    roles = _roles(run)
    nodes = TermsOfNodes(terms)
    order = [node for node in _order_of_nodes(run, probabilities, roles) if node in nodes]
    views = []
    for node in order[:num_nodes]:
        average, steps, score = nodes.of(node, int(probabilities[node].argmax()), STEPS)
        view = _node_view(run, probabilities, roles, node, start=average, steps=steps, total=score)
        views.append(view)
    return tuple(views)


def _order_of_nodes(run: RunFolder, probabilities: Tensor, roles: Sequence[Role]) -> list[int]:
    """Return all nodes: misclassified test nodes, other test nodes, then the others."""
    y, predicted = run.data.y, probabilities.argmax(dim=1)
    wrong = (predicted != y) & (y >= 0)
    first = np.array([0 if role == "test" else 1 for role in roles])
    order: list[int] = np.lexsort((np.arange(len(y)), ~wrong.numpy(), first)).tolist()
    return order


def _node_view(
    run: RunFolder,
    probabilities: Tensor,
    roles: Sequence[Role],
    node: int,
    *,
    start: float,
    steps: Iterable[tuple[str, float]],
    total: float,
) -> NodeView:
    label = int(probabilities[node].argmax())
    return NodeView(
        id=run.ids[node],
        true_class=int(run.data.y[node]) if run.data.y[node] >= 0 else None,
        predicted_class=label,
        probability=float(probabilities[node, label]),
        role=roles[node],
        start=start,
        steps=tuple(Step(name, float(amount)) for name, amount in steps),
        total=total,
    )


def _score_terms(terms: ColumnTerms, num: int) -> tuple[ScoreTerms, ...]:
    """Return the most important terms of each score, and the most important pairs of columns."""

    def views(output: int, order: int) -> tuple[TermView, ...]:
        return tuple(
            TermView(
                CROSS.join(row["columns"]),
                row["importance"],
                row["error"],
                f"slope {row['slope']:+.3g}"
                if "slope" in row
                else "; ".join(map(cell_text, row["cells"][:3])),
            )
            for row in term_records(terms, output, num, order)
        )

    listed = []
    for output, name in enumerate(terms.outputs):
        title = name if terms.unit == name else f"{name} ({terms.unit})"
        listed += [
            ScoreTerms(f"{title}: {of_what}", views(output, order))
            for order, of_what in enumerate(("columns", "crosses of two", "crosses of three"), 1)
        ]
    return tuple(each for each in listed if each.terms)


def _roles(run: RunFolder) -> list[Role]:
    names: tuple[Role, ...] = ("other", "train", "validation", "test")
    known = is_labelled(run.data.y).tolist()
    return [
        names[role] if labelled else "unlabelled"
        for role, labelled in zip(run.roles.tolist(), known, strict=True)
    ]
