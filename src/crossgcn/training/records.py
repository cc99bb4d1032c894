"""The folder of a run: ``run.json``, and the metrics of every epoch in ``epochs.csv``."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import subprocess
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import __version__
from crossgcn.data.files import (
    read_hashed_json,
    refuse_changed_files,
    replacing,
    sha256_of_files,
    write_hashed_json,
)
from crossgcn.data.relations import relation_arrays
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, Note
from crossgcn.training.loop import EpochMetrics
from crossgcn.training.saved_models import MODEL_FILES, WEIGHTS

RECORD, EPOCHS, RESULT = "run.json", "epochs.csv", "result.json"

_AGAIN = "the run is trained again"


def describe_dataset(data: Data) -> dict[str, Any]:
    """Return the size of a dataset and a hash of its content."""
    x, weight = data.x, data.get("edge_weight")
    parts = [x]
    if x.layout == torch.sparse_csr:
        parts = [x.crow_indices(), x.col_indices(), x.values()]
    parts += [] if weight is None else [weight]
    described: dict[str, Any] = {}
    if (relations := data.get("relations")) is not None:
        described["relations"] = [each.name for each in relations]
        arrays = relation_arrays(relations).values()
        parts += [torch.from_numpy(each) for each in arrays if each.dtype.kind in "fiub"]
    return {
        "name": data.name,
        "nodes": x.size(0),
        "directed_edges": data.edge_index.size(1),
        "features": x.size(1),
        "classes": data.num_classes,
        **described,
        "sha256": digest(*parts, data.edge_index, data.y),
    }


def describe_split(split: Split) -> dict[str, Any]:
    """Return the training nodes, and hashes of the validation and test nodes."""
    return {
        "train": split.train.tolist() if split.train.numel() <= 200 else split.train.numel(),
        "train_sha256": digest(split.train),
        "validation_sha256": digest(split.validation),
        "test_sha256": digest(split.test),
    }


def write_epochs(folder: Path, history: Iterable[EpochMetrics]) -> None:
    """Write the metrics of every epoch as CSV."""
    text = io.StringIO()
    names = [field.name for field in fields(EpochMetrics)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(metrics) for metrics in history)
    with replacing(folder / EPOCHS) as file:
        file.write(text.getvalue().encode())


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``run.json``, the last file of a run: if it exists, the run is complete.

    The SHA-256 of all files of the run is added, its own included.
    """
    names = [name for name in (EPOCHS, *MODEL_FILES) if (folder / name).is_file()]
    write_hashed_json(folder / RECORD, {**record, "files": sha256_of_files(folder, names)})


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the result of a command as ``result.json``."""
    write_hashed_json(folder / RESULT, summary)


def clear_run(folder: Path) -> None:
    """Make a run's folder, and delete the files of an earlier run in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, EPOCHS, *MODEL_FILES):
        (folder / name).unlink(missing_ok=True)


def finished_run(
    folder: Path, wanted: dict[str, Any], with_model: bool = False
) -> dict[str, Any] | None:
    """Return the record of a run that was finished before, or ``None``.

    A record or file that does not match its SHA-256 is ignored, with a :class:`Note`. A record
    that differs from ``wanted``, the run's identity, is refused: training would overwrite it.
    """
    if not (folder / RECORD).exists():
        return None
    try:
        record = read_hashed_json(folder / RECORD, _AGAIN, _AGAIN)
        files = record.pop("files", {})
        refuse_changed_files(folder, files, _AGAIN)
    except BadInput as error:
        warnings.warn(Note(str(error)), stacklevel=2)
        return None
    _refuse_other_run(folder, record, wanted)
    return None if with_model and WEIGHTS not in files else record


def _refuse_other_run(folder: Path, record: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a record that has another value for one of the wanted entries."""
    for name, value in json.loads(json.dumps(wanted)).items():
        found = record.get(name)
        if found != value:
            how = f"--device {found}" if name == "device" and found else "the settings of that run"
            raise BadInput(
                f"{folder} holds a finished run with another "
                f"{_describe_difference(name, found, value)}: give another --out, or {how} to "
                "continue it"
            )


def _describe_difference(name: str, found: Any, value: Any) -> str:
    """Name the entry that differs, and both values if they are short."""
    if isinstance(found, dict) and isinstance(value, dict):
        for key in {**value, **found}:
            if found.get(key) != value.get(key):
                return _describe_difference(key, found.get(key), value.get(key))
    short = all(len(str(side)) < 40 for side in (found, value))
    return f"{name} ({found}, not {value})" if short else name


def digest(*tensors: Tensor) -> str:
    """Return the SHA-256 of the content of tensors."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.contiguous().numpy().tobytes())
    return sha.hexdigest()


def describe_environment(device: torch.device | None = None) -> dict[str, Any]:
    """Return versions, threads, machine and commit, and the GPU if ``device`` is one."""
    described: dict[str, Any] = {
        "versions": {"python": platform.python_version()} | _versions(),
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "commit": _commit(),
    }
    if device is not None and device.type != "cpu":
        described |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return described


@cache
def _versions() -> dict[str, str]:
    """Return the versions of the packages that compute."""
    packages = ["torch", "torch-geometric", "numpy", "scipy"]
    packages += [name for name in ("numba", "triton", "pyg_lib") if find_spec(name) is not None]
    # crossgcn's version is not read from metadata: a source tree may not be installed.
    return {"crossgcn": __version__} | {package: version(package) for package in packages}


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this package is imported from.

    The environment variable ``CROSSGCN_COMMIT`` overrides it, for copies without a history.
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
