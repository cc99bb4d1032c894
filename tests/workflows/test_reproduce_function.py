from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from crossgcn import BadInput, reproduce


def test_it_returns_what_the_command_prints_and_the_command_continues_it(
    crossgcn: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"quick": True, "epochs": 2, "num_splits": 2}
    work: list[tuple[int, int]] = []
    summary = reproduce(
        ["cross-inputs"], tmp_path / "ours", on_work=lambda *done: work.append(done), **settings
    )
    assert [item["item"] for item in summary["items"]] == ["cross-inputs"]
    assert work[-1][0] == work[-1][1] > 0
    assert "cross-inputs" in (tmp_path / "ours" / "report.md").read_text()
    words = ("--quick", "--epochs", 2, "--num-splits", 2, "--workers", 1, "--resume")
    done = crossgcn("reproduce", "cross-inputs", *words, "--json", "--out", "ours")
    assert done.returncode == 0, done.stderr
    printed, kept = json.loads(done.stdout), json.loads(json.dumps(summary))
    assert (printed["items"], printed["verdicts"]) == (kept["items"], kept["verdicts"])


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))  # nothing but what is bundled
    with pytest.raises(BadInput, match="citation"):
        reproduce(["citatoin"], tmp_path / "out")
    with pytest.raises(BadInput, match="none of these can be run here"):
        reproduce(["dropout"], tmp_path / "out", datasets=["cora"])
    assert not (tmp_path / "out").exists()
    reproduce(["datasets"], tmp_path / "out", datasets=["citeseer"])
    with pytest.raises(BadInput, match="made with no --seed, not with --seed 1"):
        reproduce(["datasets"], tmp_path / "out", datasets=["citeseer"], seed=1)
