"""The package where compilers are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crossgcn import PreparedGraph, build_model, load_dataset, make_splits, train_full_batch
from crossgcn.kernels import has_numba, has_triton

WITHOUT_COMPILERS = """
import importlib.util, sys
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

import json
from test_without_compilers import train
print(json.dumps(train()))
"""


def train() -> dict[str, Any]:
    data = load_dataset("citeseer")
    graph, split = PreparedGraph(data.x, data.edge_index), make_splits(data, "public")[0]
    torch.manual_seed(0)
    model = build_model("cross-gcn", data.x.size(1), data.num_classes, hidden_channels=8)
    trained = train_full_batch(model, graph, data.y, split, seed=1, epochs=2)
    return {
        "compilers": [has_numba(), has_triton()],
        "cpu": "crossgcn.kernels.cpu_loops" in sys.modules,
        "losses": [[m.train_loss, m.validation_loss] for m in trained.history],
        "test_accuracy": trained.test_accuracy,
    }


def test_without_numba_and_triton_the_same_is_trained_by_plain_torch() -> None:
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILERS],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CROSSGCN_PLAIN_KERNELS": "0",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with_them, without = train(), json.loads(done.stdout.splitlines()[-1])
    assert with_them["compilers"][0] and with_them["cpu"]
    assert (without["compilers"], without["cpu"]) == ([False, False], False)
    for ours, theirs in zip(with_them["losses"], without["losses"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert with_them["test_accuracy"] == without["test_accuracy"]


def test_the_environment_can_ask_for_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("CROSSGCN_PLAIN_KERNELS", raising=False)
    assert has_numba.__wrapped__()
    monkeypatch.setenv("CROSSGCN_PLAIN_KERNELS", "1")
    assert not has_numba.__wrapped__()
