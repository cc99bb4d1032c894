from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, settings
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.cli import main
from crossgcn.data.features import csr_tensor
from crossgcn.data.graph import save_graph

# A busy machine is no reason for a test to fail.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


Command = Callable[..., CompletedProcess[str]]
"""The fixture ``crossgcn``: a command line within this process."""


def result_of(done: CompletedProcess[str]) -> Any:
    """Return the JSON object that a command printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_small_graph() -> Data:
    """Ninety nodes of three classes that words and neighbours tell apart; sparse features."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    topical = torch.arange(24) % 3 == y.unsqueeze(1)
    x = (torch.rand(90, 24, generator=generator) < torch.where(topical, 0.3, 0.1)).float()
    x[:, 0] = 1.0
    words = sp.csr_array(x.numpy())
    within = 3 * torch.randint(30, (2, 120), generator=generator) + torch.arange(120) % 3
    across = torch.randint(90, (2, 30), generator=generator)
    return Data(
        x=csr_tensor(words.indptr, words.indices, words.data, (90, 24)),
        edge_index=to_undirected(torch.cat([within, across], dim=1), num_nodes=90),
        y=y,
        roles=torch.arange(90).div(30, rounding_mode="floor").add(1).unsqueeze(0),
        num_classes=3,
        name="small",
    )


@pytest.fixture
def small_graph() -> Data:
    return make_small_graph()


@pytest.fixture
def graph_file(small_graph: Data, tmp_path: Path) -> Path:
    """The small graph as a user would have it on disk."""
    path = tmp_path / "small.npz"
    save_graph(path, small_graph)
    return path


def run_command(*arguments: object) -> CompletedProcess[str]:
    """Run the command line within this process."""
    command = ["crossgcn", *map(str, arguments)]
    before = sys.argv
    sys.argv = command
    try:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = main()
    finally:
        sys.argv = before
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())


@pytest.fixture
def crossgcn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command line within this process, in an empty folder of a machine without data."""
    monkeypatch.delenv("CROSSGCN_DATA", raising=False)
    monkeypatch.setattr(
        "crossgcn.data.datasets.catalogue.user_cache_path", lambda _: tmp_path / "cache"
    )
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return run_command
