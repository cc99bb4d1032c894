"""Save and load a fitted classifier in the folder format of all saved models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossgcn.data.features import FeatureSpace
from crossgcn.data.preprocess import Preprocess
from crossgcn.errors import BadInput
from crossgcn.estimator.inputs import Labels, describe_labels, restore_labels
from crossgcn.models.catalogue import first_layer_crosses, has_orders
from crossgcn.training.checkpoints import SavedModel, load_saved

HISTORY = ("n_iter_", "best_epoch_", "loss_curve_", "validation_scores_", "validation_rows_")
"""Fitted attributes about the training. Predictions do not depend on them."""


def describe_classifier(
    classes: Labels,
    feature_names: Sequence[str] | None,
    parameters: Mapping[str, Any],
    history: Mapping[str, Any],
) -> Preprocess:
    """Return the content of a classifier's ``preprocess.json``.

    Args:
        classes: Their type is saved too.
        feature_names: Where features have names.
        history: Those attributes of ``HISTORY`` that it has.

    Raises:
        BadInput: If JSON cannot hold a parameter.
    """
    return Preprocess(
        classes=tuple(str(label) for label in classes.tolist()),
        space=None if feature_names is None else FeatureSpace.named(list(feature_names)),
        extra={
            "labels": describe_labels(classes),
            "classifier": {name: _plain(name, value) for name, value in parameters.items()},
            "history": {name: _plain(name, value) for name, value in history.items()},
        },
    )


def read_classifier(
    folder: Path | str, names: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes of the classifier in a folder.

    A folder written by the command line gives a classifier too: its features are those of the
    encoded table, its classes are texts, its parameters are those of the model, and nothing is
    known about its training.

    Args:
        names: Parameters that the classifier takes.

    Raises:
        BadInput: If a file is missing, damaged, changed or does not belong to the others.
    """
    saved = load_saved(folder)
    preprocess = saved.preprocess
    labels = preprocess.extra.get("labels")
    fitted = {
        "classes_": np.array(preprocess.classes)
        if labels is None
        else restore_labels(labels, len(preprocess.classes)),
        "model_": saved.model,
        "preset_": saved.preset,
        "settings_": saved.settings,
        "n_features_in_": saved.in_channels,
    }
    parameters = _parameters_of_model(saved)
    own = preprocess.extra.get("classifier")
    if isinstance(own, dict):
        _refuse_unknown(folder, own, names)
        parameters |= {name: _as_tuple(value) for name, value in own.items()}
        fitted |= _restore_history(folder, preprocess.extra.get("history", {}))
        if preprocess.space is not None:
            fitted["feature_names_in_"] = np.array(preprocess.space.names, dtype=object)
    return parameters, fitted


def _parameters_of_model(saved: SavedModel) -> dict[str, Any]:
    """Return the parameters with which a classifier fits such a model."""
    parameters = {"model": saved.preset, "bias": None, **saved.settings}
    parameters["feature_transform"] = parameters.pop("transform", None)
    if has_orders(saved.preset, saved.settings.get("transform")):
        orders = tuple(int(layer.order) for layer in saved.model.layers)  # type: ignore[arg-type]
        # Not one per layer if possible, so that the number of layers can be changed.
        if orders == first_layer_crosses(2, len(orders)):
            parameters["order"] = None
        else:
            parameters["order"] = orders[0] if len(set(orders)) == 1 else orders
    return {name: _as_tuple(value) for name, value in parameters.items()}


def _restore_history(folder: Path | str, history: Any) -> dict[str, Any]:
    try:
        if not history.keys() <= set(HISTORY):
            raise ValueError(f"it has {', '.join(history)}")
        rows = history.get("validation_rows_")
        restored = {} if rows is None else {"validation_rows_": np.array(rows, np.int64)}
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInput(
            f"{folder}: the saved history cannot be read ({error}); save the classifier again"
        ) from None
    return {**history, **restored}


def _refuse_unknown(folder: Path | str, own: Mapping[str, Any], names: Collection[str]) -> None:
    unknown = [name for name in own if name not in names]
    if unknown:
        raise BadInput(
            f"{folder}: was saved with a parameter {unknown[0]!r}, which this classifier does not "
            "have; load it with the class and version that saved it"
        )


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(name: str, value: Any) -> Any:
    """Return a value for JSON; a generator of random numbers becomes ``None``."""
    if value is None or isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(name, element) for element in value]
    if isinstance(value, str | bool | int | float):
        return value
    raise BadInput(
        f"{name} is {value!r}, of type {type(value).__name__}, which cannot be saved; give a "
        "number, a text or a sequence of them"
    )
