"""Every example runs as it is, and prints what it found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
NEEDS = {"lightning_module.py": "lightning", "search_settings.py": "optuna"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example prints its result"
    if name == "first_look.py":  # it fits a terminal of 80 × 40
        lines = done.stdout.splitlines()
        assert len(lines) < 40 and max(map(len, lines)) <= 80
        assert "columns: crosses help" in done.stdout and "6 of 6 classes" in done.stdout
        assert (tmp_path / "runs" / "first-look.html").stat().st_size > 100_000
