"""A saved model: a folder with ``config.json``, ``model.safetensors``, ``preprocess.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as weights_from_bytes
from safetensors.torch import save as weights_to_bytes
from torch import Tensor

from crossgcn.data.atomic_file import replacing, write_json
from crossgcn.errors import BadInput
from crossgcn.models.registry import build_model
from crossgcn.models.stack import Stack

__all__ = ["load_model", "save_model"]

CONFIG, WEIGHTS, PREPROCESS = "config.json", "model.safetensors", "preprocess.json"
FORMAT = 1


def save_model(
    folder: Path,
    state: dict[str, Tensor],
    *,
    preset: str,
    in_channels: int,
    classes: list[str],
    settings: dict[str, Any],
    feature_names: list[str] | None = None,
) -> None:
    """Write a model so that :func:`load_model` gives it back on any machine.

    Args:
        folder: Made if it is not there; each file is replaced as a whole.
        state: The model's ``state_dict``.
        preset: Name of the model.
        in_channels: Features per node.
        classes: Name of each class, in the order of the scores.
        settings: The arguments of :func:`~crossgcn.models.registry.build_model`.
        feature_names: Name of each feature, where features have names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as file:
        file.write(weights_to_bytes({k: v.contiguous() for k, v in state.items()}))
    write_json(
        folder / PREPROCESS,
        {"format": FORMAT, "classes": classes, "feature_names": feature_names},
    )
    write_json(
        folder / CONFIG,
        {"format": FORMAT, "model": preset, "in_channels": in_channels, "settings": settings},
    )


def load_model(folder: Path) -> Stack:
    """Read a saved model, ready to predict.

    Raises:
        BadInput: If a file is missing, damaged or does not belong to the others.
    """
    config = _read_json(folder / CONFIG)
    preprocess = _read_json(folder / PREPROCESS)
    path = folder / WEIGHTS
    try:
        model = build_model(
            config["model"],
            config["in_channels"],
            len(preprocess["classes"]),
            **config["settings"],
        )
    except (BadInput, KeyError, TypeError, RuntimeError) as error:
        raise BadInput(
            f"{folder / CONFIG} or {PREPROCESS}: does not describe a model ({error!r}); "
            "save the model again"
        ) from None
    try:
        state = weights_from_bytes(path.read_bytes())
        model.load_state_dict(state)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); save the model again") from None
    except (SafetensorError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise BadInput(
            f"{path}: is damaged or belongs to another model ({reason}); save the model again"
        ) from None
    return model.eval()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); a saved model is a folder with "
            f"{CONFIG}, {WEIGHTS} and {PREPROCESS}"
        ) from None
    except ValueError as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); save the model again") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{path}: is not of format {FORMAT}; save the model with this version")
    return content
