"""Explain a trained run: how strong and stable its crosses are, and what is lost without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logit
from torch import Tensor, nn

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.encode.numbers import NumberEncoder
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import metrics_of_test
from crossgcn.explanation.arguments import check_nodes
from crossgcn.explanation.columns import ColumnTerms, error_over_models
from crossgcn.explanation.expansion import fold, term_weights
from crossgcn.explanation.explainers import Explainer, HopExplainer, LayeredExplainer
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.occurrence import cross_products
from crossgcn.explanation.reading import Floats, Graph, Ints, Reading, read_model
from crossgcn.explanation.strongest import cross_stability, first_order_terms, strongest_crosses
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.metrics import positive_class

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import FinishedRun, RunFolder

_NODES_FOR_COMPLETENESS = 200


def explain_columns(
    run: RunFolder,
    *,
    node: int | None = None,
    raw: bool = False,
    contrast: tuple[int, int] | None = None,
    on_model: Callable[[int, int], None] | None = None,
) -> ColumnTerms:
    """Return the terms of the chosen model of a run, by column of the table.

    The errors are over bags; a model without bags has errors over the runs.

    Args:
        node: A node that must be among those of the result, also in a sample. Errors are then
            over bags only.
        raw: Terms as trained, not purified; for :class:`~crossgcn.CrossHops`.
        contrast: Explain the score of one class minus that of another.
        on_model: Called with the number of models done and of all models.

    Raises:
        NotByColumn: If the crosses of the model can only be listed as trained.
    """
    shown = run.chosen.record["config"].get("label_features")
    others = [  # of the same columns
        one
        for one in run.runs
        if one is not run.chosen and one.record["config"].get("label_features") == shown
    ]
    if node is not None or getattr(run.saved.model, "bags", 1) > 1:
        others = []
    explained = []
    for one in (run.chosen, *others):
        explainer = run_explainer(run, one, contrast=contrast)
        explained.append(explainer.terms(node=node, raw=raw))
        if on_model is not None:
            on_model(len(explained), 1 + len(others))
    return explained[0] if len(explained) == 1 else error_over_models(explained)


def run_explainer(
    run: RunFolder, one: FinishedRun | None = None, *, contrast: tuple[int, int] | None = None
) -> Explainer:
    """Return the explainer of the chosen model, or of that of another run."""
    preprocess, data = run.saved.preprocess, run.data
    space = preprocess.space or FeatureSpace.unnamed(data.x.size(1))
    numbers: dict[str, tuple[float, float]] = {}
    target, relation = "label", "neighbours"
    if preprocess.encoding is not None:
        encoder, plan = read_encoding(preprocess)
        target, relation = plan.target or target, plan.relation
        numbers = {
            each.column: (each.mean, each.deviation)
            for each in encoder.columns
            if isinstance(each, NumberEncoder)
        }
    chosen = run.chosen if one is None else one
    model = run.saved.model if chosen is run.chosen else chosen.model().model
    named: dict[str, Any] = {"relation": relation, "numbers": numbers, "contrast": contrast}
    named["cut"] = _log_odds(chosen.record.get("threshold"), positive_class(data.y.numpy()))
    if isinstance(model, CrossHops):
        labels = run.labels(model, one)
        return HopExplainer(
            model, data, space, preprocess.classes, labels=labels, target=target, **named
        )
    return LayeredExplainer(model, data, space, preprocess.classes, **named)


def _log_odds(threshold: float | None, positive: int) -> float:
    """Return the log-odds of the second class from which on it is predicted.

    Args:
        threshold: Probability from which on the positive class is predicted.
    """
    if threshold is None:
        return 0.0
    return float(logit(threshold)) * (1 if positive else -1)


def no_better_than_guessing(run: RunFolder) -> str:
    """Say so in a sentence if the model learned nothing; empty if it did.

    A model of numbers must have a positive R², one of two classes a ROC-AUC above 0.5, and one
    of more classes an accuracy above the share of the commonest class, on the test nodes.
    """
    tests = [metrics_of_test(one.record) for one in run.runs]
    means = {name: float(np.mean([test[name] for test in tests])) for name in tests[0]}
    if "r2" in means:
        if means["r2"] > 0:
            return ""
        return f"The model is no better than the mean of all nodes (R² {means['r2']:.2f})."
    if "roc_auc" in means and len(run.saved.preprocess.classes) == 2:
        if means["roc_auc"] > 0.5:
            return ""
        return f"The model is no better than a coin (ROC-AUC {means['roc_auc']:.2f})."
    guesses = []
    for one in run.runs:
        split = run.split_of(one)
        commonest = run.data.y[split.train].mode().values
        guesses.append(float((run.data.y[split.test] == commonest).float().mean()))
    guess = float(np.mean(guesses))
    if means["accuracy"] > guess:
        return ""
    return (
        "The model is no better than always answering the commonest class (accuracy "
        f"{means['accuracy']:.1%} against {guess:.1%})."
    )


@dataclass(frozen=True)
class ExplainedRun:
    """What drives each class of a run.

    Attributes:
        crosses: The table of :func:`~crossgcn.explanation.strongest.strongest_crosses` with two
            more columns: ``stability``, the share of runs in which the cross has the same sign
            and at least half the weight, and ``accuracy_drop`` on the test nodes of the chosen
            run when the cross is removed.
        terms: The strongest single features.
        num_models: How many runs stability is measured over.
        complete: Whether the search for crosses of three or more features was completed.
        completeness: Mean share of a score that has names, over test nodes; 1 if only the first
            layer has crosses.
    """

    crosses: pd.DataFrame
    terms: pd.DataFrame
    num_models: int
    complete: bool
    completeness: float


def explain_run(
    run: RunFolder,
    *,
    top: int = 20,
    order: int | None = None,
    on_model: Callable[[int, int], None] | None = None,
) -> ExplainedRun:
    """Explain the chosen model of a run, and compare the same crosses in the other models.

    Args:
        top: How many crosses per class.
        order: Number of features of a cross; all orders from 2 by default.
        on_model: Called with the number of models done and of all models.
    """
    model, data = run.saved.model, run.data
    space, classes = run.saved.preprocess.space, run.saved.preprocess.classes
    crosses = strongest_crosses(model, data, space=space, classes=classes, order=order, top=top)
    complete = bool(crosses.attrs["complete"])
    stability = np.zeros(len(crosses))
    for done, one in enumerate(run.runs, start=1):
        each = model if one is run.chosen else one.model().model
        stability += cross_stability(crosses, [each], data, classes)
        if on_model is not None:
            on_model(done, len(run.runs))
    crosses["stability"] = stability / len(run.runs)
    crosses["accuracy_drop"] = accuracy_without(
        model, data, data.y, run.split.test, list(crosses["features"])
    )
    completeness = 1.0
    if any(getattr(layer, "order", 1) > 1 for layer in list(model.layers)[1:]):
        explainer = NodeExplainer(model, data)
        nodes = sorted(run.split.test[:_NODES_FOR_COMPLETENESS].tolist())
        completeness = float(np.mean([explainer.explain(node).completeness for node in nodes]))
    return ExplainedRun(
        crosses,
        first_order_terms(model, data, space=space, classes=classes, top=top),
        len(run.runs),
        complete,
        completeness,
    )


def accuracy_without(
    model: nn.Module,
    graph: Graph,
    y: Tensor,
    nodes: Tensor,
    crosses: Sequence[tuple[int, ...]],
) -> Floats:
    """Return how much accuracy drops when the products of a cross are removed.

    The products are subtracted from every unit of the first layer at every node. The rest of the
    model stays as it is; it is not trained again.

    Args:
        y: Class of each node, ``[nodes]``.
        nodes: Where accuracy is measured: numbers of nodes, or a mask of all nodes.
        crosses: Features of each cross, as the tables of crosses list them.

    Returns:
        A fraction per cross; negative if the model is better without it.
    """
    reading = read_model(model, graph)
    if len(y) != reading.num_nodes:
        raise BadInput(f"y has {len(y)} entries, but the graph has {reading.num_nodes} nodes")
    chosen = check_nodes("nodes", nodes, reading.num_nodes)
    if not chosen.size or chosen.min() < 0 or chosen.max() >= reading.num_nodes:
        raise BadInput(
            "accuracy needs at least one node, each from 0 to "
            f"{reading.num_nodes - 1}; got {chosen.tolist()[:5]}"
        )
    for cross in crosses:
        if not cross or min(cross) < 0 or max(cross) >= reading.num_features:
            raise BadInput(
                f"the cross {cross} names a feature that does not exist; there are features 0 to "
                f"{reading.num_features - 1}"
            )
    labels = y.detach().cpu().numpy()[chosen]
    terms = [fold(cross, reading.binary) for cross in crosses]
    distinct = list(dict.fromkeys(terms))
    before = _accuracy(reading.logits[chosen], labels)
    drops = {
        term: before - _accuracy(logits[chosen], labels)
        for term, logits in zip(distinct, _logits_without(reading, distinct), strict=True)
    }
    return np.array([drops[term] for term in terms])


def _logits_without(reading: Reading, terms: Sequence[tuple[int, ...]]) -> Iterator[Floats]:
    """Yield the class scores of all nodes without each of the terms."""
    layer, adjacency = reading.layers[0], reading.adjacencies[0]
    products = cross_products(reading.inputs, terms)
    if adjacency is not None and not layer.aggregate_first:
        products = adjacency @ products
    products = products.tocsc()
    for position, term in enumerate(terms):
        weights = term_weights(layer, np.array([term], np.int64), reading.binary)[0]
        removed = products[:, [position]].toarray() * weights
        yield reading.continue_from(reading.outputs[0] - removed)


def _accuracy(logits: Floats, labels: Ints) -> float:
    return float((logits.argmax(axis=1) == labels).mean())
