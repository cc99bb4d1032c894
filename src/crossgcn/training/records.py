"""One run, one folder: ``run.json`` and the metrics of every epoch beside it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.files import replacing, write_json
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.training.checkpoints import WEIGHTS
from crossgcn.training.full_batch import EpochMetrics

RECORD, EPOCHS = "run.json", "epochs.csv"


def describe_dataset(data: Data) -> dict[str, Any]:
    """Size of a dataset and a hash of its content."""
    stored = getattr(data, "stored", None)
    if stored is not None:
        return {
            "name": data.name,
            "nodes": stored.num_nodes,
            "directed_edges": stored.num_entries,
            "features": stored.num_features,
            "classes": data.num_classes,
            "sha256": stored.fingerprint,
        }
    x = data.x
    parts = [x] if x.layout != torch.sparse_csr else [x.crow_indices(), x.col_indices(), x.values()]
    if getattr(data, "edge_weight", None) is not None:
        parts.append(data.edge_weight)
    return {
        "name": data.name,
        "nodes": x.size(0),
        "directed_edges": data.edge_index.size(1),
        "features": x.size(1),
        "classes": data.num_classes,
        "sha256": digest(*parts, data.edge_index, data.y),
    }


def describe_split(split: Split) -> dict[str, Any]:
    """The training nodes, and hashes of the validation and test nodes."""
    return {
        "train": split.train.tolist() if split.train.numel() <= 200 else split.train.numel(),
        "train_sha256": digest(split.train),
        "validation_sha256": digest(split.validation),
        "test_sha256": digest(split.test),
    }


def write_epochs(folder: Path, history: Iterable[EpochMetrics]) -> None:
    """Write the metrics of every epoch as CSV; a column nobody asked for is left out."""
    rows = [asdict(metrics) for metrics in history]
    names = [field.name for field in fields(EpochMetrics) if field.name != "test_accuracy"]
    if any(row["test_accuracy"] is not None for row in rows):
        names.append("test_accuracy")
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(folder / EPOCHS) as file:
        file.write(text.getvalue().encode())


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``run.json``, last of a run's files: where it stands, the run is whole."""
    write_json(folder / RECORD, record)


def clear_run(folder: Path) -> None:
    """Make a run's folder, without the record and weights of an earlier run in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, WEIGHTS):
        (folder / name).unlink(missing_ok=True)


def finished_run(
    folder: Path, wanted: dict[str, Any], with_model: bool = False
) -> dict[str, Any] | None:
    """The record of the run that is wanted, if it was finished before.

    Args:
        folder: The run's folder.
        wanted: Entries the record must have with equal values (its
            configuration, split, seed and dataset).
        with_model: Whether its weights must be there too.

    Raises:
        BadInput: If another run was finished there, which would be lost.
    """
    try:
        record = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("status") != "done":
        return None
    known = {"device": "cpu"} | record  # as all were trained before a record said so
    for name, value in json.loads(json.dumps(wanted)).items():
        if known.get(name) != value:
            how = f"--device {known[name]}" if name == "device" else "the settings of that run"
            raise BadInput(
                f"{folder} holds a finished run with another {differing(name, known, value)}: "
                f"give another --out, or {how} to continue it"
            )
    if with_model and not (folder / WEIGHTS).is_file():
        return None
    return record


def differing(name: str, record: dict[str, Any], value: Any) -> str:
    """What is not the same in a record, with the two values where one setting is to blame.

    Args:
        name: Of an entry that is not as wanted.
        record: It holds the entry, or nothing of that name.
        value: What was wanted.
    """
    found = record.get(name)
    if isinstance(found, dict) and isinstance(value, dict):
        for key in {**value, **found}:
            if found.get(key) != value.get(key):
                return differing(key, found, value.get(key))
    short = all(len(str(side)) < 40 for side in (found, value))
    return f"{name} ({found}, not {value})" if short else name


def digest(*tensors: Tensor) -> str:
    """SHA-256 of what some tensors hold."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.contiguous().numpy().tobytes())
    return sha.hexdigest()


def describe_environment(device: torch.device | None = None) -> dict[str, Any]:
    """Versions, threads, machine and commit, for run records.

    Args:
        device: The GPU that was used, if one was.
    """
    return {
        "versions": {"python": platform.python_version()} | _versions(),
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "commit": _commit(),
    } | ({} if device is None or device.type == "cpu" else _describe_gpu(device))


@cache
def _versions() -> dict[str, str]:
    """Of what computes: compilers of kernels and PyG's sampler too, where they are."""
    packages = ("crossgcn", "torch", "torch-geometric", "numpy", "scipy")
    optional = [name for name in ("numba", "triton", "pyg_lib") if find_spec(name) is not None]
    return {package: version(package) for package in (*packages, *optional)}


def _describe_gpu(device: torch.device) -> dict[str, Any]:
    return {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}


@cache
def _commit() -> str | None:
    """Commit of the checkout this package is imported from.

    A copy whose history is not its own may name it in ``CROSSGCN_COMMIT``.
    """
    if "CROSSGCN_COMMIT" in os.environ:
        return os.environ["CROSSGCN_COMMIT"]
    project = Path(__file__).parents[3]
    if not (project / ".git").exists() or not (project / "pyproject.toml").exists():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(project), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "HEAD") + ("-modified" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
