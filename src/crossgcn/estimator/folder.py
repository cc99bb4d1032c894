"""Save and load a fitted estimator in the folder format of all saved models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_npz, write_npz
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import digest_of_file
from crossgcn.errors import BadInput
from crossgcn.estimator.kept_graph import KeptGraph, features_of
from crossgcn.experiments.run_folder import CHOSEN, HOP_FILE, RunFolder, open_run
from crossgcn.models.catalogue import first_layer_crosses, has_orders
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.checkpoints import SavedModel, load_saved

GRAPH = "fitted_graph.npz"
"""The graph in which a saved estimator finds its nodes again."""
TARGET = "target"
"""Name of the number that a saved regressor predicts."""

_HISTORY = (
    "n_edges_",
    "n_iter_",
    "best_epoch_",
    "loss_curve_",
    "validation_scores_",
    "validation_rows_",
)
"""Fitted attributes about the training. Values of predictions do not depend on them."""


def describe_estimator(estimator: Any, folder: Path) -> Preprocess:
    """Write the graph of an estimator, and return the content of its ``preprocess.json``."""
    names, classes = getattr(estimator, "feature_names_in_", None), None
    history = {name: getattr(estimator, name) for name in _HISTORY if hasattr(estimator, name)}
    extra = {
        estimator.kind: {
            name: None if name == "graph" else _plain(name, value)
            for name, value in estimator.get_params().items()
        },
        "history": {name: _plain(name, value) for name, value in history.items()},
    }
    if estimator.kind == "classifier":
        classes = estimator.classes_
        extra["labels"] = {"dtype": classes.dtype.str, "values": classes.tolist()}
    if estimator.graph_ is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_npz(folder / GRAPH, estimator.graph_.to_arrays())
        extra["graph"] = {"sha256": digest_of_file(folder / GRAPH)}
    else:
        (folder / GRAPH).unlink(missing_ok=True)
    return Preprocess(
        classes=(TARGET,) if classes is None else tuple(str(label) for label in classes.tolist()),
        space=None if names is None else FeatureSpace.named(list(names)),
        extra=extra,
    )


def read_estimator(
    folder: Path | str, kind: str, names: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes of the estimator in a folder.

    A folder written by the command line gives an estimator too: its features are those of the
    encoded table, its classes are texts, its parameters are those of the model, its graph is that
    of the run, and nothing else is known about its training.

    Args:
        kind: ``"classifier"`` or ``"regressor"``.
        names: Parameters that the estimator takes.
    """
    saved = load_saved(folder)
    preprocess, extra = saved.preprocess, saved.preprocess.extra
    saved_kind = "classifier" if saved.model.target_scale is None else "regressor"
    if kind != saved_kind:
        raise BadInput(
            f"{folder}: is a {saved_kind}; load it with CrossGCN{saved_kind.capitalize()}"
        )
    fitted = {
        "model_": saved.model,
        "preset_": saved.preset,
        "settings_": saved.settings,
        "n_features_in_": saved.in_channels,
        "graph_": _restore_graph(Path(folder) / GRAPH, extra.get("graph")),
    }
    if (Path(folder) / CHOSEN).exists() and not (Path(folder) / HOP_FILE).exists():
        graph = _graph_of_run(open_run(Path(folder)))
        fitted |= {"graph_": graph, "n_edges_": graph.num_edges}
    if kind == "classifier":
        fitted["classes_"] = _restore_classes(preprocess)
    parameters = _parameters_of_model(saved)
    own = extra.get(kind)
    if isinstance(own, dict):
        for name in own:
            if name not in names:
                raise BadInput(
                    f"{folder}: was saved with a parameter {name!r}, which this {kind} does not "
                    "have; load it with the class and version that saved it"
                )
        parameters |= own
        fitted |= _restore_history(folder, extra.get("history", {}))
        if preprocess.space is not None:
            fitted["feature_names_in_"] = np.array(preprocess.space.names, dtype=object)
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    tuples = {name: tuple(v) if isinstance(v, list) else v for name, v in parameters.items()}
    return tuples, fitted


def _parameters_of_model(saved: SavedModel) -> dict[str, Any]:
    """Return the parameters with which an estimator fits such a model."""
    parameters = {"model": saved.preset, "bias": None, **saved.settings}
    if isinstance(saved.model, CrossHops):
        parameters["order"] = saved.model.order
    elif has_orders(saved.preset):
        orders = tuple(int(layer.order) for layer in saved.model.layers)  # type: ignore[arg-type]
        # Not one per layer if possible, so that the number of layers can be changed.
        if orders == first_layer_crosses(2, len(orders)):
            parameters["order"] = None
        else:
            parameters["order"] = orders[0] if len(set(orders)) == 1 else orders
    return parameters


def _restore_classes(preprocess: Preprocess) -> np.ndarray[Any, Any]:
    labels, names = preprocess.extra.get("labels"), preprocess.classes
    if labels is None:
        return np.array(names)
    try:
        classes = np.array(labels["values"], dtype=np.dtype(labels["dtype"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the saved labels cannot be read ({error}); save the model again") from None
    if classes.shape != (len(names),):
        raise BadInput(
            f"{classes.size} labels are saved for {len(names)} classes; save the model again"
        )
    return classes


def _restore_history(folder: Path | str, history: Any) -> dict[str, Any]:
    try:
        if not history.keys() <= set(_HISTORY):
            raise ValueError(f"it has {', '.join(history)}")
        rows = history.get("validation_rows_")
        restored = {} if rows is None else {"validation_rows_": np.array(rows, np.int64)}
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInput(
            f"{folder}: the saved history cannot be read ({error}); save the estimator again"
        ) from None
    return {**history, **restored}


def _restore_graph(path: Path, expected: Any) -> KeptGraph | None:
    if expected is None:
        return None
    if not path.exists() or expected != {"sha256": digest_of_file(path)}:
        raise BadInput(
            f"{path}: is not the graph that was saved with the estimator; copy the whole folder "
            "again, or save the estimator again"
        )
    return KeptGraph.from_arrays(read_npz(path))


def _graph_of_run(run: RunFolder) -> KeptGraph:
    """Return the graph that ``crossgcn train`` kept, with the labels of the training nodes."""
    data = run.data
    ids: pd.Index[Any] = pd.Index(np.array(run.ids, dtype=object))
    if run.ids == tuple(map(str, range(data.num_nodes))):  # nodes without names
        ids = pd.RangeIndex(data.num_nodes)
    labels = run.labels(run.saved.model)
    if labels is not None:
        labels = labels._replace(prior=labels.values[labels.known].double().mean(dim=0))
    weight = data.get("edge_weight")
    x = features_of(data)
    return KeptGraph(ids, x, data.edge_index, weight, by_index=True, labels=labels)


def _plain(name: str, value: Any) -> Any:
    """Return a value for JSON; a generator of random numbers becomes ``None``."""
    if value is None or isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, list | tuple):
        return [_plain(name, element) for element in value]
    if isinstance(value, str | bool | int | float):
        return value
    raise BadInput(
        f"{name} is {value!r}, of type {type(value).__name__}, which cannot be saved; give a "
        "number, a text or a sequence of them"
    )
