"""Peers of the benchmarks without a C++ compiler."""

from __future__ import annotations

import pytest

from benchmarks import peers


@pytest.fixture(autouse=True)
def without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.compile`` traces the peers as always, but runs no C++ compiler on them."""
    monkeypatch.setattr(peers, "BACKEND", "aot_eager")
