"""Save and load a fitted estimator in the folder format of all saved models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.files import refuse_changed_files, sha256_of_files
from crossgcn.data.graph_file import read_graph, save_graph
from crossgcn.errors import BadInput
from crossgcn.estimator.graph_input import FittedGraph, features_of
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.checkpoints import load_saved

GRAPH = "fitted_graph.npz"
"""The graph whose nodes the rows of a saved estimator are."""
TARGET = "target"
"""Name of the number that a saved regressor predicts."""


def describe_estimator(estimator: Any, folder: Path) -> Preprocess:
    """Write the graph of an estimator, and return the content of its ``preprocess.json``."""
    names, classes = getattr(estimator, "feature_names_in_", None), np.array([TARGET])
    parameters = {name: _plain(name, value) for name, value in estimator.get_params().items()}
    extra: dict[str, Any] = {estimator.kind: parameters}
    if estimator.kind == "classifier":
        classes = estimator.classes_
        extra["labels"] = {"dtype": classes.dtype.str, "values": classes.tolist()}
    (folder / GRAPH).unlink(missing_ok=True)
    if estimator.graph_ is not None:
        folder.mkdir(parents=True, exist_ok=True)
        graph, names_of_rows = estimator.graph_, estimator.graph_.ids.tolist()
        if not all(isinstance(name, int | str) for name in names_of_rows):
            raise BadInput(
                "nodes are named by neither numbers nor texts, so the graph cannot be saved"
            )
        num_classes = 2 if graph.y is None else estimator.model_.num_outputs
        save_graph(folder / GRAPH, graph.to_data(graph.y, num_classes))
        extra |= {"files": sha256_of_files(folder, [GRAPH]), "rows": names_of_rows}
    return Preprocess(
        classes=tuple(str(label) for label in classes.tolist()),
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
    parameters = extra.get(kind)
    if not isinstance(parameters, dict) or not parameters.keys() <= set(names):
        raise BadInput(
            f"{folder}: is not a {kind} that this version of crossgcn saved; load a run of "
            "crossgcn train with TableModel.load, and a regressor with CrossGCNRegressor"
        )
    if isinstance(parameters.get("class_weight"), list):
        parameters = parameters | {"class_weight": dict(parameters["class_weight"])}
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
    fitted: dict[str, Any] = {
        "model_": saved.model,
        "preset_": saved.preset,
        "settings_": saved.settings,
        "n_features_in_": saved.in_channels,
        "graph_": None,
    }
    files = extra.get("files", {})
    refuse_changed_files(folder, files, "copy the whole folder again, or save the estimator again")
    if GRAPH in files:
        data, ids = read_graph(folder / GRAPH), pd.Index(extra["rows"])
        graph = FittedGraph(ids, features_of(data), data.edge_index, data.get("edge_weight"))
        if isinstance(saved.model, CrossHops) and saved.model.plan.num_labels:
            graph = graph.showing(data.y, saved.model.num_outputs)
        fitted["graph_"] = graph
    if kind == "classifier":
        labels = extra["labels"]
        fitted["classes_"] = np.array(labels["values"], dtype=np.dtype(labels["dtype"]))
    if preprocess.space is not None:
        fitted["feature_names_in_"] = np.array(preprocess.space.names, dtype=object)
    return parameters, fitted


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
