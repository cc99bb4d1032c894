"""What only a new process can show: what is imported when, and training without compilers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crossgcn import (
    PreparedGraph,
    RunConfig,
    build_model,
    load_dataset,
    make_splits,
    train_full_batch,
)
from crossgcn.kernels import has_numba

FRESH = """
import json, sys
import torch
from crossgcn.data.features import csr_tensor
x = csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 2))
x.clone(), x.to(torch.float64), x.t(), x @ torch.ones(2, 1), torch.eye(2).to_sparse_csr()

import crossgcn, crossgcn.training.loop
kernels = {"crossgcn.kernels.gpu", "crossgcn.kernels.cpu_loops"}
print(json.dumps(sorted(kernels & sys.modules.keys())))
"""

WITHOUT_COMPILERS = """
import importlib.util, json, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

find = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name.partition(".")[0] in ("numba", "triton") else find(name, package)

sys.meta_path.insert(0, Missing())
importlib.util.find_spec = find_spec

from test_fresh_process import train
print(json.dumps(train()))
"""


def run(script: str) -> tuple[Any, str]:
    """Return what a new process printed as JSON, and what it wrote to stderr."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    more = {"CROSSGCN_PLAIN_KERNELS": "0", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "always::UserWarning", "-c", script]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def train() -> dict[str, Any]:
    data = load_dataset("citeseer")
    graph, split = PreparedGraph(data.x, data.edge_index), make_splits(data, "public")[0]
    torch.manual_seed(0)
    model = build_model("cross-gcn", data.x.size(1), data.num_classes, hidden_channels=8)
    trained = train_full_batch(model, graph, data.y, split, RunConfig(epochs=2), seed=1)
    return {
        "compiled": has_numba() and "crossgcn.kernels.cpu_loops" in sys.modules,
        "losses": [[m.train_loss, m.validation_loss] for m in trained.history],
        "test_accuracy": trained.test_accuracy,
    }


def test_kernels_are_imported_when_needed_and_sparse_matrices_are_silent() -> None:
    kernels, warned = run(FRESH)
    assert kernels == [] and "Sparse" not in warned


def test_without_numba_and_triton_the_same_is_trained_by_plain_torch() -> None:
    pytest.importorskip("numba")
    with_them, (without, _) = train(), run(WITHOUT_COMPILERS)
    assert with_them["compiled"] and not without["compiled"]
    for ours, theirs in zip(with_them["losses"], without["losses"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert with_them["test_accuracy"] == without["test_accuracy"]


def test_the_environment_can_ask_for_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("CROSSGCN_PLAIN_KERNELS", raising=False)
    assert has_numba.__wrapped__()
    monkeypatch.setenv("CROSSGCN_PLAIN_KERNELS", "1")
    assert not has_numba.__wrapped__()
