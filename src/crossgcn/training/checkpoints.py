"""Files of a training: the folder of a saved model, and the checkpoint of one not yet done.

A saved model is a folder with ``config.json``, ``model.safetensors`` and ``preprocess.json``.
``config.json`` is written last and holds the SHA-256 of all three, itself included: a folder
that was cut short, changed, or put together from two is refused.

A checkpoint is one safetensors file from which a training that was stopped continues to the
same bits.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from crossgcn.data.features import Preprocess
from crossgcn.data.files import (
    read_bytes,
    read_hashed_json,
    read_json_object,
    refuse_changed_files,
    replacing,
    sha256_of_files,
    write_hashed_json,
    write_json,
)
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier

CONFIG, WEIGHTS, PREPROCESS = "config.json", "model.safetensors", "preprocess.json"
MODEL_FILES = (WEIGHTS, PREPROCESS, CONFIG)
"""In the order in which they are written: where the last exists, the model is complete."""

FORMAT = 2

_IF_MISSING = f"a saved model is a folder with {CONFIG}, {WEIGHTS} and {PREPROCESS}"
_IF_DAMAGED = "copy the whole folder again, or save the model again"

CHECKPOINT = "resume.safetensors"

State = dict[str, Tensor]


@dataclass(frozen=True)
class SavedModel:
    """The content of a saved model's folder, the model in evaluation mode.

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
        preprocess: Its classes, and the names of its features.
        training: How it was trained, for ``crossgcn train --config``.
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
    """Return a saved model with the meaning of its inputs and outputs; see :func:`load_model`."""
    folder = Path(folder)
    config = read_hashed_json(folder / CONFIG, _IF_MISSING, _IF_DAMAGED)
    content = read_json_object(folder / PREPROCESS, _IF_MISSING, _IF_DAMAGED)
    for name, described in ((CONFIG, config), (PREPROCESS, content)):
        if described.get("format") != FORMAT:
            raise BadInput(
                f"{folder / name}: is not of format {FORMAT}; save the model with this version"
            )
    try:
        weights = read_bytes(folder / WEIGHTS)
    except OSError as error:
        raise BadInput(
            f"{folder / WEIGHTS}: cannot be read ({error.strerror}); save the model again"
        ) from None
    hashes = config.get("files")
    known = hashes if isinstance(hashes, dict) else {}
    files = {name: known.get(name) for name in (WEIGHTS, PREPROCESS)}
    refuse_changed_files(folder, files, _IF_DAMAGED)
    with _naming_weights(folder):
        tensors = tensors_from_bytes(weights)
    try:
        preprocess = Preprocess.from_json(content)
        named = (config["model"], config["in_channels"])
        sizes = (config["in_channels"], *config["settings"].values())
        if any(isinstance(size, int) and size > len(weights) for size in sizes):
            raise ValueError("its sizes are larger than the file of weights")
        model = build_model(*named, len(preprocess.classes), **config["settings"])
    except Exception as error:  # a resealed file can hold anything
        raise BadInput(
            f"{folder / CONFIG} or {PREPROCESS}: does not describe a model ({error!r}); "
            "save the model again"
        ) from None
    with _naming_weights(folder):
        model.load_state_dict(tensors)
    return SavedModel(model.eval(), *named, config["settings"], preprocess)


@contextmanager
def _naming_weights(folder: Path) -> Iterator[None]:
    """Refuse weights that cannot be read or do not fit the model, by the name of their file."""
    try:
        yield
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise BadInput(
            f"{folder / WEIGHTS}: is damaged or belongs to another model ({reason}); "
            "save the model again"
        ) from None


@dataclass
class Checkpoint:
    """The file from which a training that was stopped continues.

    Attributes:
        identity: What makes the run this run; a checkpoint of another run is refused.
        seconds: From one checkpoint to the next.
    """

    path: Path
    identity: Mapping[str, Any]
    seconds: float = 10.0
    _saved: float = field(default_factory=time.monotonic, repr=False)

    def save(self, epoch: int, state: State) -> None:
        """Replace the file by one with these tensors, if a checkpoint is due after this epoch."""
        if time.monotonic() - self._saved < self.seconds:
            return
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        identity = json.dumps(dict(self.identity))
        header = {"run": identity, "sha256": _sha256(identity, tensors)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                file.write(tensors_to_bytes(tensors, header))
        except OSError as error:
            raise WorkFailed(
                f"{self.path}: the checkpoint of epoch {epoch} cannot be written "
                f"({error.strerror}); the one before is kept: make room, and continue with "
                "--resume"
            ) from None
        self._saved = time.monotonic()

    def load(self, state: State) -> None:
        """Copy the file's tensors into these, if there is a file."""
        found = self.read()
        if found is None:
            return
        for name, tensor in state.items():
            saved = found.get(name)
            if saved is None or (saved.shape, saved.dtype) != (tensor.shape, tensor.dtype):
                shape = f"{tensor.dtype} {list(tensor.shape)}"
                raise self._damaged(f"it does not hold {name} as {shape}")
        for name, tensor in state.items():
            tensor.copy_(found[name])

    def read(self) -> State | None:
        """Return the file's tensors; ``None`` where there is no file."""
        try:
            if not self.path.exists():
                return None
            with safe_open(self.path, "pt") as file:
                header = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if header["sha256"] != _sha256(header["run"], tensors):
                raise ValueError("its SHA-256 is another one")
            found = json.loads(header["run"])
        except Exception as error:  # a damaged file can raise any error
            raise self._damaged(str(error)) from None
        for _, difference in differences(found, self.identity):
            raise BadInput(
                f"{self.path}: is of a run with another {difference}: give another --out, the "
                "settings of that run to continue it, or remove the file"
            )
        return tensors

    def _damaged(self, why: str) -> BadInput:
        return BadInput(
            f"{self.path}: is damaged or no checkpoint ({why}); remove it to train this run anew"
        )


def _sha256(identity: str, tensors: State) -> str:
    return hashlib.sha256(identity.encode() + tensors_to_bytes(tensors)).hexdigest()


def differences(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries of a record that differ from the wanted ones, and how they differ."""
    for name, value in json.loads(json.dumps(dict(wanted))).items():
        if record.get(name) != value:
            yield name, _describe_difference(name, record.get(name), value)


def _describe_difference(name: str, found: Any, value: Any) -> str:
    """Name the entry that differs, and both values if they are short."""
    if isinstance(found, dict) and isinstance(value, dict):
        for key in {**value, **found}:
            if found.get(key) != value.get(key):
                return _describe_difference(key, found.get(key), value.get(key))
    short = all(len(str(side)) < 40 for side in (found, value))
    return f"{name} ({found}, not {value})" if short else name
