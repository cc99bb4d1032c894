"""Save and load a fitted estimator in the folder format of all saved models."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_npz, write_npz
from crossgcn.data.preprocess import Preprocess
from crossgcn.errors import BadInput
from crossgcn.estimator.graph_input import FittedGraph
from crossgcn.training.checkpoints import load_saved

GRAPH = "fitted_graph.npz"
"""The graph whose nodes the rows of a saved estimator are."""
TARGET = "target"
"""Name of the number that a saved regressor predicts."""

_HISTORY = (
    *("n_edges_", "n_iter_", "best_epoch_", "loss_curve_"),
    *("validation_scores_", "validation_rows_"),
)
"""Fitted attributes about the training. Values of predictions do not depend on them."""


def describe_estimator(estimator: Any, folder: Path) -> Preprocess:
    """Write the graph of an estimator, and return the content of its ``preprocess.json``."""
    names, classes = getattr(estimator, "feature_names_in_", None), None
    parameters = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    history = {name: _plain(name, getattr(estimator, name)) for name in _HISTORY}
    extra = {estimator.kind: parameters, "history": history}
    if estimator.kind == "classifier":
        classes = estimator.classes_
        extra["labels"] = {"dtype": classes.dtype.str, "values": classes.tolist()}
    (folder / GRAPH).unlink(missing_ok=True)
    if estimator.graph_ is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_npz(folder / GRAPH, estimator.graph_.to_arrays())
        extra["graph"] = {"sha256": _digest(folder / GRAPH)}
    return Preprocess(
        classes=(TARGET,) if classes is None else tuple(str(label) for label in classes.tolist()),
        space=None if names is None else FeatureSpace.named(list(names)),
        extra=extra,
    )


def read_estimator(
    folder: Path, kind: str, names: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes of the estimator in a folder.

    Args:
        kind: ``"classifier"`` or ``"regressor"``.
        names: Parameters that the estimator takes.
    """
    saved = load_saved(folder)
    preprocess, extra = saved.preprocess, saved.preprocess.extra
    own = extra.get(kind)
    if not isinstance(own, dict) or not own.keys() <= set(names):
        raise BadInput(
            f"{folder}: is not a {kind} that this version of crossgcn saved; load a run of "
            "crossgcn train with TableModel.load, and a regressor with CrossGCNRegressor"
        )
    if isinstance(own.get("class_weight"), list):
        own = own | {"class_weight": dict(own["class_weight"])}
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in own.items()}
    try:
        fitted = {
            "model_": saved.model,
            "preset_": saved.preset,
            "settings_": saved.settings,
            "n_features_in_": saved.in_channels,
            "graph_": _restore_graph(folder / GRAPH, extra.get("graph")),
            **{name: extra["history"][name] for name in _HISTORY},
        }
        rows = fitted["validation_rows_"]
        fitted["validation_rows_"] = None if rows is None else np.array(rows, np.int64)
        if kind == "classifier":
            labels = extra["labels"]
            fitted["classes_"] = np.array(labels["values"], dtype=np.dtype(labels["dtype"]))
            if fitted["classes_"].shape != (len(preprocess.classes),):
                raise ValueError(f"{len(preprocess.classes)} classes")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{folder}: what was saved does not fit together ({error!r}); save the estimator again"
        ) from None
    if preprocess.space is not None:
        fitted["feature_names_in_"] = np.array(preprocess.space.names, dtype=object)
    return parameters, fitted


def _restore_graph(path: Path, expected: Any) -> FittedGraph | None:
    if expected is None:
        return None
    if not path.exists() or expected != {"sha256": _digest(path)}:
        raise BadInput(
            f"{path}: is not the graph that was saved with the estimator; copy the whole folder "
            "again, or save the estimator again"
        )
    return FittedGraph.from_arrays(read_npz(path))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _plain(name: str, value: Any) -> Any:
    """Return a value for JSON; a graph and a generator of random numbers become ``None``."""
    if value is None or name == "graph" or isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, list | tuple):
        return [_plain("", element) for element in value]
    if isinstance(value, str | bool | int | float):
        return value
    raise BadInput(
        f"{name} is {value!r}, of type {type(value).__name__}, which cannot be saved; give a "
        "number, a text or a sequence of them"
    )
