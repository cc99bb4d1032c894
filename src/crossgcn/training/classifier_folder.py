"""A fitted classifier in the folder format of all saved models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.data.preprocess import Preprocess
from crossgcn.layers import CrossFeatureTransform
from crossgcn.training.checkpoints import load_saved
from crossgcn.training.classifier_labels import Labels, describe_labels, restore_labels

__all__ = ["describe_classifier", "read_classifier"]

_TRAINING = (
    "epochs",
    "learning_rate",
    "weight_decay",
    "validation_fraction",
    "unlabelled",
    "random_state",
)
"""Parameters that are saved beside a model's own settings."""


def describe_classifier(
    classes: Labels, feature_names: Sequence[str] | None, parameters: Mapping[str, Any]
) -> Preprocess:
    """What ``preprocess.json`` says of a classifier.

    Args:
        classes: Its classes, which keep their type.
        feature_names: Of each feature, where they have names.
        parameters: From ``get_params``.
    """
    kept = {name: _plain(parameters[name]) for name in _TRAINING}
    return Preprocess(
        classes=tuple(str(label) for label in classes.tolist()),
        space=None if feature_names is None else FeatureSpace.named(list(feature_names)),
        extra={"labels": describe_labels(classes), "classifier": kept},
    )


def read_classifier(folder: Path | str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and fitted attributes of the classifier that a folder holds.

    A folder written by the command line gives a classifier too: its features are those of the
    encoded table, and its classes are texts.

    Raises:
        BadInput: If a file is missing, damaged, changed or does not belong to the others.
    """
    saved = load_saved(folder)
    preprocess = saved.preprocess
    parameters = {"model": saved.preset, "bias": None, **saved.settings}
    if isinstance(parameters.get("order"), list):
        parameters["order"] = tuple(parameters["order"])
    labels = preprocess.extra.get("labels")
    transforms = (m for m in saved.model.modules() if isinstance(m, CrossFeatureTransform))
    fitted = {
        "classes_": np.array(preprocess.classes)
        if labels is None
        else restore_labels(labels, len(preprocess.classes)),
        "model_": saved.model,
        "preset_": saved.preset,
        "settings_": saved.settings,
        "n_features_in_": next(transforms).in_channels,
    }
    own = preprocess.extra.get("classifier")
    if isinstance(own, dict):
        parameters |= {name: own[name] for name in _TRAINING if name in own}
        if preprocess.space is not None:
            fitted["feature_names_in_"] = np.array(preprocess.space.names, dtype=object)
    return parameters, fitted


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; a generator of random numbers is forgotten."""
    if isinstance(value, np.random.RandomState):
        return None
    return value.item() if isinstance(value, np.generic) else value
