"""Numba unpickles its cache: it is kept where nobody else can write."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from crossgcn.kernels.cpu_loops import is_private, jit


def add_one(number: int) -> int:
    return number + 1


@pytest.mark.parametrize(("mode", "private"), [(0o755, True), (0o1777, True), (0o757, False)])
def test_a_folder_that_others_can_write_is_not_used(
    mode: int, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    path = Path(jit()(add_one).stats.cache_path)  # type: ignore[attr-defined]
    assert path.is_relative_to(shared if private else own / "crossgcn")
    assert is_private(path)
    if not private:
        own.chmod(0o777)
        is_private.cache_clear()
        assert jit()(add_one).stats.cache_path is None  # type: ignore[attr-defined]
    assert str(shared) == numba.config.CACHE_DIR  # type: ignore[attr-defined]
