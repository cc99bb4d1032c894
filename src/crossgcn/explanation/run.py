"""The crosses of a trained run: how strong, how stable, and what is lost without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.removal import accuracy_without, cross_stability
from crossgcn.explanation.strongest import first_order_terms, strongest_crosses

_NODES_FOR_COMPLETENESS = 200


@dataclass(frozen=True)
class ExplainedRun:
    """What drives each class.

    Attributes:
        crosses: As :func:`~crossgcn.explanation.strongest.strongest_crosses` gives them, with
            ``stability``, the share of the runs whose model has the cross among as many of
            its strongest with the same sign, and ``accuracy_drop`` on the test nodes of the
            chosen run when it is taken out.
        terms: The strongest single features, likewise, without these two.
        num_models: How many runs stability is measured over.
        complete: Whether the search for crosses of three features and more came to its end.
        completeness: How much of a score has a name, on average over test nodes; 1 where only
            the first layer crosses.
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
    """Take the chosen model apart, and look for the same crosses in the others.

    Args:
        run: A trained run.
        top: How many crosses per class.
        order: Features of a cross; all orders from 2 when left out.
        on_model: Called with the number of models done and in all.
    """
    preprocess, data = run.saved.preprocess, run.data
    frames = []
    for done, one in enumerate(run.runs):
        model = run.saved.model if one is run.chosen else one.model().model
        frame = strongest_crosses(
            model, data, space=preprocess.space, classes=preprocess.classes, order=order, top=top
        )
        frames.append(frame)
        if on_model is not None:
            on_model(done + 1, len(run.runs))
    crosses = frames[run.runs.index(run.chosen)].copy()
    crosses["stability"] = cross_stability(crosses, frames, top=top)
    crosses["accuracy_drop"] = accuracy_without(
        run.saved.model, data, data.y, run.split.test, list(crosses["features"])
    )
    return ExplainedRun(
        crosses,
        first_order_terms(
            run.saved.model, data, space=preprocess.space, classes=preprocess.classes, top=top
        ),
        len(run.runs),
        all(frame.attrs.get("complete", True) for frame in frames),
        _completeness(run),
    )


def _completeness(run: RunFolder) -> float:
    if all(getattr(layer, "order", 1) == 1 for layer in list(run.saved.model.layers)[1:]):
        return 1.0
    nodes = run.split.test[:_NODES_FOR_COMPLETENESS].tolist()
    parts = NodeExplainer(run.saved.model, run.data).top_crosses(nodes, 1)
    return float(parts.groupby("node")["completeness"].first().mean())
