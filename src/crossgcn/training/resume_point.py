"""Where a training in batches stood after an epoch, so that it can go on from there.

One file, replaced as a whole: weights, the best epoch's weights and Adam's running means as
safetensors; epoch, metrics and what run it is as JSON in its header; and a SHA-256 of all.
It says nothing of how many processes there were, and any number continues from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from crossgcn.data.atomic_file import replacing
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.training.records import differing
from crossgcn.training.selection import EpochMetrics

__all__ = ["RESUME_POINT", "ResumePoint", "read_resume_point", "write_resume_point"]

RESUME_POINT = "resume.safetensors"
FORMAT = 1

State = dict[str, Tensor]


@dataclass(frozen=True)
class ResumePoint:
    """What is needed to go on as if nothing had happened.

    Attributes:
        epoch: How many epochs are done.
        best_epoch: The one selected so far; 0 where none was looked at.
        history: Metrics of the epochs that were looked at.
        tensors: Weights, best weights and the optimiser's state, on the CPU.
    """

    epoch: int
    best_epoch: int
    history: tuple[EpochMetrics, ...]
    tensors: State


def write_resume_point(path: Path, point: ResumePoint, identity: Mapping[str, Any]) -> None:
    """Replace what stands there, as a whole or not at all.

    Args:
        path: The file; its folder is made if it is not there.
        point: Where the training stands.
        identity: What makes the run that run.

    Raises:
        WorkFailed: If it cannot be written; the one before is kept.
    """
    text = json.dumps(
        {
            "format": FORMAT,
            "epoch": point.epoch,
            "best_epoch": point.best_epoch,
            "history": [asdict(metrics) for metrics in point.history],
            "run": dict(identity),
        }
    )
    tensors = {name: value.detach().cpu().contiguous() for name, value in point.tensors.items()}
    header = {"training": text, "sha256": _digest(text, tensors)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(tensors_to_bytes(tensors, header))
    except OSError as error:
        raise WorkFailed(
            f"{path}: the resume point of epoch {point.epoch} cannot be written "
            f"({error.strerror}); the one before is kept: make room, and continue with --resume, "
            "or give a larger --checkpoint-every"
        ) from None


def read_resume_point(path: Path, identity: Mapping[str, Any]) -> ResumePoint | None:
    """Where a run stood, if it was begun.

    Args:
        path: What :func:`write_resume_point` wrote.
        identity: What makes the run that run.

    Raises:
        BadInput: If it is damaged, or another run's.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    try:
        header = _metadata(content)
        tensors = tensors_from_bytes(content)
        text = header["training"]
        if header["sha256"] != _digest(text, tensors):
            raise ValueError("its SHA-256 is another one")
        training = json.loads(text)
        if training["format"] != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}")
        history = tuple(EpochMetrics(**metrics) for metrics in training["history"])
        found, epoch, best_epoch = training["run"], training["epoch"], training["best_epoch"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path}: is damaged or no resume point ({error}); remove it to train this run anew"
        ) from None
    for name, value in json.loads(json.dumps(dict(identity))).items():
        if found.get(name) != value:
            raise BadInput(
                f"{path}: is of a run with another {differing(name, found, value)}: give another "
                "--out, the settings of that run to continue it, or remove the file"
            )
    return ResumePoint(epoch, best_epoch, history, tensors)


def _metadata(content: bytes) -> dict[str, str]:
    """The header's texts: its length is in the first eight bytes, and it is JSON."""
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    metadata: dict[str, str] = header["__metadata__"]
    return metadata


def _digest(text: str, tensors: State) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        sha.update(value.numpy().tobytes())
    return sha.hexdigest()
