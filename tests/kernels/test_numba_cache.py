"""Numba unpickles its cache: it lies in a folder of the user's own."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from crossgcn.kernels.cpu_loops import jit


def add_one(number: int) -> int:
    return number + 1


def test_compiled_code_is_kept_in_the_users_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", str(tmp_path / "chosen")):
        monkeypatch.setattr(numba.config, "CACHE_DIR", name)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
        path = Path(jit()(add_one).stats.cache_path)  # type: ignore[attr-defined]
        assert path.is_relative_to(name or tmp_path / "own" / "crossgcn")
        assert name == numba.config.CACHE_DIR  # type: ignore[attr-defined]
