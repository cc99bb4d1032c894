"""What a result depends on besides its configuration."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

__all__ = ["describe_environment"]


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
