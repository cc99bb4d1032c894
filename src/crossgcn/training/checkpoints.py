"""A saved model: a folder with ``config.json``, ``model.safetensors``, ``preprocess.json``.

``config.json`` is written last and holds the SHA-256 of all three, itself included: a
folder that was cut short, changed, or put together from two is refused.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as weights_from_bytes
from safetensors.torch import save as weights_to_bytes
from torch import Tensor

from crossgcn.data.files import (
    add_checksum,
    checksum_matches,
    digest_of_file,
    read_json_object,
    replacing,
    write_json,
)
from crossgcn.data.preprocess import Preprocess
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier

CONFIG, WEIGHTS, PREPROCESS = "config.json", "model.safetensors", "preprocess.json"
MODEL_FILES = (WEIGHTS, PREPROCESS, CONFIG)
"""In the order in which they are written: where the last stands, the model is whole."""

FORMAT = 2


@dataclass(frozen=True)
class SavedModel:
    """What a folder holds.

    Attributes:
        model: Ready to predict.
        preset: Name of the model.
        settings: The arguments of :func:`~crossgcn.models.catalogue.build_model`.
        preprocess: What its inputs and outputs mean.
    """

    model: NodeClassifier
    preset: str
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
) -> None:
    """Write a model so that :func:`load_model` gives it back on any machine.

    Args:
        folder: Made if it is not there; each file is replaced as a whole.
        state: The model's ``state_dict``.
        preset: Name of the model.
        in_channels: Features per node.
        settings: The arguments of :func:`~crossgcn.models.catalogue.build_model`.
        preprocess: Its classes, and its features where they have names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as file:
        file.write(weights_to_bytes({k: v.contiguous() for k, v in state.items()}))
    write_json(folder / PREPROCESS, {"format": FORMAT} | preprocess.to_json())
    config = {"format": FORMAT, "model": preset, "in_channels": in_channels, "settings": settings}
    files = {name: digest_of_file(folder / name) for name in (WEIGHTS, PREPROCESS)}
    write_json(folder / CONFIG, add_checksum(config | {"files": files}))


def copy_model(source: Path, target: Path) -> None:
    """Put a saved model into another folder as well."""
    for name in MODEL_FILES:
        with replacing(target / name) as file, (source / name).open("rb") as original:
            shutil.copyfileobj(original, file)


def load_model(folder: Path | str) -> NodeClassifier:
    """Read a saved model, ready to predict.

    Raises:
        BadInput: If a file is missing, damaged, changed or does not belong to the others.
    """
    return load_saved(folder).model


def load_saved(folder: Path | str) -> SavedModel:
    """Read a saved model with what its inputs and outputs mean.

    Raises:
        BadInput: As :func:`load_model`.
    """
    folder = Path(folder)
    config = _read_json(folder / CONFIG)
    content = _read_json(folder / PREPROCESS)
    try:
        weights = (folder / WEIGHTS).read_bytes()
    except OSError as error:
        raise BadInput(
            f"{folder / WEIGHTS}: cannot be read ({error.strerror}); save the model again"
        ) from None
    _check_hashes(folder, config)
    try:
        preprocess = Preprocess.from_json(content)
        model = build_model(
            config["model"],
            config["in_channels"],
            len(preprocess.classes),
            **config["settings"],
        )
    except (BadInput, KeyError, TypeError, RuntimeError) as error:
        raise BadInput(
            f"{folder / CONFIG} or {PREPROCESS}: does not describe a model ({error!r}); "
            "save the model again"
        ) from None
    try:
        model.load_state_dict(weights_from_bytes(weights))
    except (SafetensorError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise BadInput(
            f"{folder / WEIGHTS}: is damaged or belongs to another model ({reason}); "
            "save the model again"
        ) from None
    return SavedModel(model.eval(), config["model"], config["settings"], preprocess)


def _read_json(path: Path) -> dict[str, Any]:
    content = read_json_object(
        path,
        f"a saved model is a folder with {CONFIG}, {WEIGHTS} and {PREPROCESS}",
        "save the model again",
    )
    if content.get("format") != FORMAT:
        raise BadInput(f"{path}: is not of format {FORMAT}; save the model with this version")
    return content


def _check_hashes(folder: Path, config: dict[str, Any]) -> None:
    """Refuse files that are not those that were saved together."""
    changed = [CONFIG] if not checksum_matches(config) else []
    files = config.get("files", {}) if not changed else {}
    changed += [
        name for name, expected in files.items() if digest_of_file(folder / name) != expected
    ]
    for name in changed:
        raise BadInput(
            f"{folder / name}: is not what was saved (its SHA-256 is another one): it was "
            "changed or cut short; copy the whole folder again, or save the model again"
        )
