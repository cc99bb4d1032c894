"""The folder of a saved estimator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.files import refuse_changed_files, sha256_of_files
from crossgcn.data.graph import read_graph, save_graph
from crossgcn.errors import BadInput
from crossgcn.estimator.graph_input import RowGraph
from crossgcn.estimator.labels import Labels
from crossgcn.training.calibration import Misses
from crossgcn.training.saved_models import load_saved, save_model

_GRAPH = "fitted_graph.npz"
"""The graph whose nodes the rows of a saved estimator are."""


def write_estimator(estimator: Any, folder: Path) -> None:
    """Write a fitted estimator to a folder, for :func:`read_estimator`."""
    check_is_fitted(estimator, "model_")
    columns = getattr(estimator, "feature_names_in_", None)
    parameters = estimator.get_params() | {"graph": None}
    if isinstance(parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = list(parameters["class_weight"].items())
    labels: Labels = getattr(estimator, "classes_", np.array(["target"]))
    extra: dict[str, Any] = {
        estimator.kind: json.loads(json.dumps(parameters, default=_to_plain_python)),
        "labels": {"dtype": labels.dtype.str, "values": labels.tolist()},
        "misses": estimator.misses_,
    }
    (folder / _GRAPH).unlink(missing_ok=True)
    if estimator.graph_ is not None:
        extra["rows"] = estimator.graph_.names.tolist()
        if not all(isinstance(name, int | str) for name in extra["rows"]):
            raise BadInput(
                "nodes are named by neither numbers nor texts, so the graph cannot be saved"
            )
        folder.mkdir(parents=True, exist_ok=True)
        save_graph(folder / _GRAPH, estimator.graph_.data)
        extra["files"] = sha256_of_files(folder, [_GRAPH])
    space = None if columns is None else FeatureSpace.named(list(columns))
    save_model(
        folder,
        estimator.model_.state_dict(),
        preset=estimator.preset_,
        in_channels=estimator.n_features_in_,
        settings=estimator.settings_,
        preprocess=Preprocess(tuple(map(str, labels.tolist())), space, extra=extra),
    )


def read_estimator(kind: Any, folder: Path) -> Any:
    """Return the fitted estimator that :func:`write_estimator` wrote; ``kind`` is its class."""
    saved = load_saved(folder)
    preprocess, extra = saved.preprocess, saved.preprocess.extra
    parameters: Any = extra.get(kind.kind)
    if not isinstance(parameters, dict) or not parameters.keys() <= set(kind._get_param_names()):
        raise BadInput(
            f"{folder}: is not a {kind.kind} that this version of crossgcn saved; load a run "
            "of crossgcn train with TableModel.load, and a regressor with CrossGCNRegressor"
        )
    if isinstance(parameters.get("class_weight"), list):
        parameters = parameters | {"class_weight": dict(parameters["class_weight"])}
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
    loaded = kind(**parameters)
    loaded.model_, loaded.preset_, loaded.settings_ = saved.model, saved.preset, saved.settings
    loaded.n_features_in_ = saved.in_channels
    if preprocess.space is not None:
        loaded.feature_names_in_ = np.array(preprocess.space.names, dtype=object)
    if kind.kind == "classifier":
        labels = extra["labels"]
        loaded.classes_ = np.array(labels["values"], dtype=np.dtype(labels["dtype"]))
    loaded.graph_ = None
    loaded.misses_ = Misses(*extra["misses"]) if extra.get("misses") else None
    if "files" in extra:
        again = "copy the whole folder again, or save the estimator again"
        refuse_changed_files(folder, extra["files"], again)
        loaded.graph_ = RowGraph(pd.Index(extra["rows"]), read_graph(folder / _GRAPH))
    return loaded


def _to_plain_python(value: Any) -> Any:
    """Return a parameter for JSON; a generator of random numbers becomes ``None``."""
    return None if isinstance(value, np.random.RandomState) else value.tolist()
