"""Explain a model, an estimator or a run: its scores as exact sums of named terms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.graph import read_encoding
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.predict import Scored
from crossgcn.experiments.run_folder import FinishedRun, RunFolder, open_run
from crossgcn.explanation.hops import HopExplainer, Numbers
from crossgcn.explanation.layered import LayeredExplainer
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.products import products
from crossgcn.explanation.reading import Ints, Reading, read_layers, read_model
from crossgcn.explanation.terms import Explanation, NotByColumn, error_over_models
from crossgcn.graph import PreparedGraph
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.models.cross_hops import CrossHops

Names = FeatureSpace | Sequence[str] | None
_TOP_PRODUCTS = 20


def explain(
    model: Any,
    data: Any = None,
    edge_index: Any = None,
    *,
    node: Any = None,
    feature_names: Names = None,
    classes: Sequence[Any] | None = None,
    contrast: tuple[Any, Any] | None = None,
    train_nodes: Tensor | None = None,
    relation: str = "neighbours",
) -> Any:
    """Return the scores of a model as exact sums of purified terms of columns.

    Args:
        model: A trained model, a fitted estimator, or a run: the folder that ``crossgcn train``
            wrote, which knows everything below.
        data: The graph, for a model. For an estimator the rows to explain, as ``predict`` takes
            them; by default the graph of its fit.
        edge_index: The edges between the rows of an estimator.
        node: Explain this node only: its number, its row in ``data``, or its id in a run.
        feature_names: One name per feature, or a feature space, which also knows their columns.
        classes: Names of the classes.
        contrast: Two of the classes: why the first and not the second.
        train_nodes: The training nodes of a :class:`~crossgcn.CrossHops` that sees the labels
            of neighbours; ``data.train_mask`` by default.
        relation: What neighbours are called.

    Returns:
        An :class:`~crossgcn.explanation.terms.Explanation`; with ``node`` a
        :class:`~crossgcn.explanation.node.NodeExplanation`. For bags of words (more than 200
        columns) and for more than two layers, the strongest
        :class:`~crossgcn.explanation.products.Products` of features.

    Raises:
        BadInput: If the model is not a sum of named terms; the message says which models are.
    """
    if isinstance(model, str | PathLike):
        model = open_run(Path(model))
    if isinstance(model, RunFolder):
        given = (data, edge_index, feature_names, classes, train_nodes)
        if any(each is not None for each in given):
            raise BadInput("a run knows its graph and its names: give node and contrast only")
        whole = explain_run(model, contrast=contrast)
        return whole if node is None else whole.node(node)
    data, rows = _graph_of(model, data, edge_index)
    model, feature_names, classes = _unwrap(model, feature_names, classes)
    reading = None if isinstance(model, CrossHops) else read_model(model, data)
    num_scores = model.readout.out_channels if reading is None else reading.logits.shape[1]
    names = _check_classes(classes, num_scores)
    space = _check_features(feature_names, data.x.shape[1])
    pair = _check_contrast(contrast, names)
    named: dict[str, Any] = {"relation": relation, "contrast": pair}
    num_nodes = int(data.x.shape[0])
    if reading is None:
        if not isinstance(data, Data) or data.edge_index is None:
            raise BadInput(
                "cross-hops is explained on a torch_geometric.data.Data with x and edge_index"
            )
        labels = None
        if model.plan.num_labels:
            labels = neighbour_labels(data.y, _check_train(train_nodes, data), len(names))
        explainer: Any = HopExplainer(model, data, space, names, labels=labels, **named)
    else:
        if train_nodes is not None:
            raise BadInput("train_nodes are for cross-hops; leave them out for this model")
        scale = getattr(model, "target_scale", None)
        explainer = LayeredExplainer(reading, space, names, target_scale=scale, **named)
    find = _finder(num_nodes if rows is None else len(rows), rows)
    if node is not None:
        place = find(node)
        try:
            return NodeExplanation(replace(explainer.explain(place), find=find), place)
        except NotByColumn as reason:
            raise _refuse_node(reason) from None
    try:
        whole = replace(explainer.explain(), find=find)
    except NotByColumn as reason:
        if reading is None or pair is not None:
            raise
        return products(reading, space, names, top=_TOP_PRODUCTS, reason=str(reason))
    return whole if rows is None else _of_rows(whole, rows)


def explain_run(
    run: RunFolder,
    *,
    contrast: tuple[Any, Any] | None = None,
    top: int = _TOP_PRODUCTS,
    all_runs: bool = True,
    on_model: Callable[[int, int], None] = lambda *_: None,
) -> Any:
    """Return the terms of the chosen model of a run; see :func:`explain`.

    The errors are over bags; a model without bags has errors over the runs.

    Args:
        top: How many products of each number of features, if there are no terms by column.
        all_runs: Explain the other runs, too, if they are needed for errors.
        on_model: Called with the number of models done and of all models.
    """
    pair = _check_contrast(contrast, list(run.saved.preprocess.classes))
    others = [one for one in run.runs if one is not run.chosen]
    if getattr(run.saved.model, "bags", 1) > 1 or not all_runs:
        others = []
    found = []
    try:
        for one in (run.chosen, *others):
            found.append(run_explainer(run, one, pair).explain())
            on_model(len(found), 1 + len(others))
    except NotByColumn as reason:
        if pair is not None or isinstance(run.saved.model, CrossHops):
            raise
        of_others = [_read(run, one) for one in others]
        on_model(1, 1)
        return products(
            _read(run, run.chosen),
            _space(run),
            run.saved.preprocess.classes,
            top=top,
            others=of_others,
            reason=str(reason),
        )
    whole = found[0] if len(found) == 1 else error_over_models(found)
    return replace(whole, find=run.find, names=run.shown)


def run_explainer(
    run: RunFolder, one: FinishedRun | None = None, contrast: tuple[int, int] | None = None
) -> HopExplainer | LayeredExplainer:
    """Return the explainer of the chosen model, or of that of another run."""
    preprocess, one = run.saved.preprocess, one or run.chosen
    numbers: Numbers = {}
    target, relation = "label", "neighbours"
    if preprocess.encoding is not None:
        encoder, plan = read_encoding(preprocess)
        target, relation = plan.target or target, plan.relation
        numbers = {
            each.column: (each.mean, each.deviation)
            for each in encoder.columns
            if isinstance(each, NumberEncoder)
        }
    model = _model(run, one)
    named: dict[str, Any] = {"relation": relation, "numbers": numbers, "contrast": contrast}
    if isinstance(model, CrossHops):
        labels = run.labels(model, one)
        named |= {"labels": labels, "target": target}
        return HopExplainer(model, run.data, _space(run), preprocess.classes, **named)
    named["target_scale"] = getattr(model, "target_scale", None)
    return LayeredExplainer(_read(run, one), _space(run), preprocess.classes, **named)


def name_crosses(run: RunFolder, scored: Scored, most: int) -> list[str]:
    """Return the largest crosses of each scored node, as ``age × neighbours: age +0.31; ...``.

    They add to the score of the predicted class, or to the number.
    """
    if all(getattr(layer, "order", 1) == 1 for layer in run.saved.model.layers):
        raise BadInput(
            f"{run.folder}: a {run.saved.preset} of order 1 has no crosses to name: leave out "
            "--crosses, or train with --order 2"
        )
    here = replace(run, data=scored.data, runs=(run.chosen,))
    try:
        whole = run_explainer(here).explain()
    except BadInput as reason:
        raise BadInput(f"{run.folder}: no crosses to name, {reason}; leave out --crosses") from None
    nodes = scored.nodes.tolist()
    if not all(node in whole.place_of for node in nodes):
        raise BadInput(
            f"{run.folder}: the graph is too large to name the crosses of all its "
            f"{len(scored.data.y):,} nodes; leave out --crosses, and name those of one node with "
            f"crossgcn explain {run.folder} --node ID"
        )
    rows = np.array([whole.place_of[node] for node in nodes], np.int64)
    terms = [term for term in whole.all_terms if len(term.columns) > 1 or not term.columns]
    labels = np.zeros(len(rows), np.int64)
    if len(run.saved.preprocess.classes) > 1:
        labels = scored.labels
    against = (whole.unit == "log-odds") & (labels == 0)  # the score of the second of two classes
    outputs = labels if len(whole.outputs) > 1 else np.zeros_like(labels)
    values = np.array([term.contributions[rows, outputs] for term in terms]).T
    values = np.where(against[:, np.newaxis], -values, values)
    return [
        "; ".join(
            f"{terms[place].name} {amounts[place]:+.3g}"
            for place in np.argsort(-np.abs(amounts), kind="stable")[:most]
        )
        for amounts in values
    ]


def can_be_explained(model: nn.Module) -> bool:
    """Return whether the scores of a model are sums of products of features."""
    if isinstance(model, CrossHops):
        return type(model) is CrossHops
    try:
        read_layers(model)
    except BadInput:
        return False
    return True


def _model(run: RunFolder, one: FinishedRun) -> Any:
    return run.saved.model if one is run.chosen else one.model().model


def _read(run: RunFolder, one: FinishedRun) -> Reading:
    return read_model(_model(run, one), run.data)


def _space(run: RunFolder) -> FeatureSpace:
    return run.saved.preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))


def _graph_of(model: Any, data: Any, edge_index: Any) -> tuple[Any, Ints | None]:
    """Return the graph to explain, and the node that each row of an estimator is."""
    if hasattr(model, "explained_graph") and not isinstance(data, Data | PreparedGraph):
        graph: tuple[Any, Ints | None] = model.explained_graph(data, edge_index)
        return graph
    if edge_index is not None:
        raise BadInput("edge_index goes with rows of an estimator; the graph has its own")
    if data is None:
        raise BadInput("give the graph that the model is to be explained on, as data")
    return data, None


def _unwrap(
    model: Any, feature_names: Names, classes: Sequence[Any] | None
) -> tuple[Any, Names, Sequence[Any] | None]:
    """Return the model of an estimator, and the names that it knows."""
    if isinstance(model, nn.Module):
        return model, feature_names, classes
    if not hasattr(model, "model_"):
        raise BadInput(
            f"a {type(model).__name__} was given, which holds no trained model; give a model, an "
            "estimator after its fit, or the folder of a run"
        )
    if classes is None and hasattr(model, "classes_"):
        classes = list(model.classes_)
    if feature_names is None and hasattr(model, "feature_names_in_"):
        feature_names = [str(name) for name in model.feature_names_in_]
    return model.model_, feature_names, classes


def _finder(count: int, rows: Ints | None) -> Callable[[Any], int]:
    """Return what finds a node by its number, or by its row."""

    def find(node: Any) -> int:
        try:
            number = operator.index(node)
        except TypeError:
            raise BadInput(f"node is {node!r}; give a whole number") from None
        if not 0 <= number < count:
            what = "node" if rows is None else "row"
            raise BadInput(f"there is no {what} {number}: give a number from 0 to {count - 1}")
        return number if rows is None else int(rows[number])

    return find


def _of_rows(whole: Explanation, rows: Ints) -> Explanation:
    """Return an explanation whose ``values`` are of the rows of an estimator."""
    if not all(int(row) in whole.place_of for row in rows):
        raise BadInput(
            f"only a sample of {len(whole.nodes)} nodes is explained at once, and not all rows are "
            "in it; explain single rows: explain(estimator, X, node=0)"
        )
    return replace(whole, rows=np.array([whole.place_of[int(row)] for row in rows]))


def _refuse_node(reason: NotByColumn) -> BadInput:
    return BadInput(
        f"single nodes are explained by column, and this model has no terms by column: {reason}; "
        "train cross-hops, or one or two layers, on fewer columns"
    )


def _check_classes(classes: Sequence[Any] | None, num_scores: int) -> list[str]:
    if classes is None:
        return ["target"] if num_scores == 1 else [str(label) for label in range(num_scores)]
    if len(classes) != num_scores:
        raise BadInput(
            f"{len(classes)} class names were given, but the model has {num_scores} classes; "
            "give one name per class, in the order of their numbers"
        )
    return [str(name) for name in classes]


def _check_contrast(contrast: tuple[Any, Any] | None, names: list[str]) -> tuple[int, int] | None:
    if contrast is None:
        return None
    for name in contrast:
        if str(name) not in names:
            raise unknown_name("class", str(name), names)
    first, second = (names.index(str(name)) for name in contrast)
    return first, second


def _check_features(space: Names, num_features: int) -> FeatureSpace:
    if space is None:
        return FeatureSpace.unnamed(num_features)
    if not isinstance(space, FeatureSpace):
        space = FeatureSpace.named(space)
    if len(space) != num_features:
        raise BadInput(
            f"{len(space)} feature names were given, but the graph has {num_features} features; "
            "give one name per feature"
        )
    return space


def _check_train(train_nodes: Any, data: Data) -> Tensor:
    """Return the training nodes, given as numbers or as a mask."""
    chosen = data.get("train_mask") if train_nodes is None else train_nodes
    if chosen is None:
        raise BadInput(
            "this model sees the labels of neighbours in the training set: give train_nodes"
        )
    chosen = torch.as_tensor(chosen)
    if chosen.dtype != torch.bool:
        return chosen.flatten()
    if chosen.shape != (data.num_nodes,):
        raise BadInput(
            f"train_nodes is a mask of shape {list(chosen.shape)}, but the graph has "
            f"{data.num_nodes} nodes; give one entry per node, or numbers of nodes"
        )
    return chosen.nonzero().flatten()
