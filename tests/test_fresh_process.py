"""What only a process that has imported nothing yet can show; all of it in one such process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys
import torch
from crossgcn.data.features import csr_tensor
x = csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 2))
x.clone(), x.to(torch.float64), x.t(), x @ torch.ones(2, 1), torch.eye(2).to_sparse_csr()
torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 2))

import crossgcn, crossgcn.training.loop
kernels = sorted({"crossgcn.kernels.gpu", "crossgcn.kernels.cpu_loops"} & sys.modules.keys())
print(json.dumps({"kernels": kernels}))
"""


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What the process found, and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "always::UserWarning", "-c", SCRIPT],
        env={
            **os.environ,
            "CROSSGCN_PLAIN_KERNELS": "0",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {"stderr": done.stderr, **json.loads(done.stdout.splitlines()[-1])}


def test_kernels_are_not_imported_before_they_are_needed(fresh: dict[str, Any]) -> None:
    assert fresh["kernels"] == []


def test_a_first_sparse_matrix_is_silent_and_so_is_all_that_follows(fresh: dict[str, Any]) -> None:
    assert "Sparse" not in fresh["stderr"]
