"""The folder of a saved model: ``config.json``, ``model.safetensors`` and ``preprocess.json``.

``config.json`` is written last and holds the SHA-256 of all three, itself included: a folder
that was cut short, changed, or put together from two is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from crossgcn.data.features import Preprocess
from crossgcn.data.files import (
    read_hashed_json,
    read_json_object,
    refuse_changed_files,
    replacing,
    sha256_of_files,
    write_hashed_json,
    write_json,
)
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier

CONFIG, WEIGHTS, PREPROCESS = "config.json", "model.safetensors", "preprocess.json"
MODEL_FILES = (WEIGHTS, PREPROCESS, CONFIG)
"""The files in the order in which they are written: if the last exists, the model is complete."""

FORMAT = 2

_IF_MISSING = f"a saved model is a folder with {CONFIG}, {WEIGHTS} and {PREPROCESS}"
_IF_DAMAGED = "copy the whole folder again, or save the model again"


@dataclass(frozen=True)
class SavedModel:
    """The content of a saved model's folder, with the model in evaluation mode.

    ``settings`` are the arguments of :func:`~crossgcn.models.catalogue.build_model`.
    """

    model: NodeClassifier
    preset: str
    in_channels: int
    settings: dict[str, Any]
    preprocess: Preprocess


def save_model(
    folder: Path,
    state: dict[str, Tensor],
    *,
    preset: str,
    in_channels: int,
    settings: dict[str, Any],
    preprocess: Preprocess,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a model for :func:`load_model` on any machine; each file is replaced as a whole.

    Args:
        settings: The arguments of :func:`~crossgcn.models.catalogue.build_model`.
        preprocess: The classes, and the names of the features.
        training: How the model was trained, for ``crossgcn train --config``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as file:
        file.write(tensors_to_bytes({k: v.contiguous() for k, v in state.items()}))
    write_json(folder / PREPROCESS, {"format": FORMAT} | preprocess.to_json())
    config = {"format": FORMAT, "model": preset, "in_channels": in_channels, "settings": settings}
    config |= {} if training is None else {"training": dict(training)}
    files = sha256_of_files(folder, (WEIGHTS, PREPROCESS))
    write_hashed_json(folder / CONFIG, config | {"files": files})


def copy_model(source: Path, target: Path) -> None:
    """Copy a saved model into another folder."""
    for name in MODEL_FILES:
        with replacing(target / name) as file, (source / name).open("rb") as original:
            shutil.copyfileobj(original, file)


def load_model(folder: Path | str) -> NodeClassifier:
    """Return a saved model, in evaluation mode.

    Raises:
        BadInput: If a file is missing, damaged, changed or does not belong to the others.
    """
    return load_saved(folder).model


def load_saved(folder: Path | str) -> SavedModel:
    """Return a saved model with the names of its features and classes; see :func:`load_model`."""
    folder = Path(folder)
    config = read_hashed_json(folder / CONFIG, _IF_MISSING, _IF_DAMAGED)
    if config.get("format") != FORMAT:
        raise BadInput(
            f"{folder / CONFIG}: is not of format {FORMAT}; save the model with this version"
        )
    hashes = config.get("files")
    known = hashes if isinstance(hashes, dict) else {}
    files = {name: known.get(name) for name in (WEIGHTS, PREPROCESS)}
    refuse_changed_files(folder, files, _IF_DAMAGED)
    content = read_json_object(folder / PREPROCESS, _IF_MISSING, _IF_DAMAGED)
    try:
        preprocess = Preprocess.from_json(content)
        named = (config["model"], config["in_channels"])
        model = build_model(*named, len(preprocess.classes), **config["settings"])
    except Exception as error:  # a file whose hash was computed again can hold anything
        raise BadInput(
            f"{folder / CONFIG} or {PREPROCESS}: does not describe a model ({error!r}); "
            "save the model again"
        ) from None
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise BadInput(
            f"{folder / WEIGHTS}: is damaged or belongs to another model ({reason}); "
            "save the model again"
        ) from None
    return SavedModel(model.eval(), *named, config["settings"], preprocess)
