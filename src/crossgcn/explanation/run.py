"""Explain a trained run: how strong and stable its crosses are, and what is lost without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.removal import accuracy_without
from crossgcn.explanation.strongest import cross_stability, first_order_terms, strongest_crosses

_NODES_FOR_COMPLETENESS = 200


@dataclass(frozen=True)
class ExplainedRun:
    """What drives each class of a run.

    Attributes:
        crosses: The table of :func:`~crossgcn.explanation.strongest.strongest_crosses` with two
            more columns: ``stability``, the share of runs that have the cross among their
            strongest with the same sign, and ``accuracy_drop`` on the test nodes of the chosen run
            when the cross is removed.
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
    """Explain the chosen model of a run, and search the same crosses in the other models.

    Args:
        top: How many crosses per class.
        order: Number of features of a cross; all orders from 2 by default.
        on_model: Called with the number of models done and of all models.
    """
    model, data = run.saved.model, run.data
    space, classes = run.saved.preprocess.space, run.saved.preprocess.classes
    frames = []
    for done, one in enumerate(run.runs, start=1):
        each = model if one is run.chosen else one.model().model
        frames.append(
            strongest_crosses(each, data, space=space, classes=classes, order=order, top=top)
        )
        if on_model is not None:
            on_model(done, len(run.runs))
    crosses = frames[run.runs.index(run.chosen)].copy()
    crosses["stability"] = cross_stability(crosses, frames, top=top)
    crosses["accuracy_drop"] = accuracy_without(
        model, data, data.y, run.split.test, list(crosses["features"])
    )
    completeness = 1.0
    if any(getattr(layer, "order", 1) > 1 for layer in list(model.layers)[1:]):
        nodes = run.split.test[:_NODES_FOR_COMPLETENESS].tolist()
        parts = NodeExplainer(model, data).top_crosses(nodes, 1)
        completeness = float(parts.groupby("node")["completeness"].first().mean())
    return ExplainedRun(
        crosses,
        first_order_terms(model, data, space=space, classes=classes, top=top),
        len(run.runs),
        all(frame.attrs.get("complete", True) for frame in frames),
        completeness,
    )
