"""Imported first by the tests beside it: puts the scripts and what they share on the path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from crossgcn.cli.bench import load_harness

__all__ = ["HARNESS", "one_thread"]

HARNESS = load_harness()


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs this small lose by a second thread, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("cpu_step", "cpu_protocol"):
        monkeypatch.setattr(f"research.benchmarks.{name}.available_cores", lambda: 1)
    yield
    torch.set_num_threads(before)
