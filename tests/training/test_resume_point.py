from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.training.batches.progress import (
    RESUME_POINT,
    ResumePoint,
    read_resume_point,
    write_resume_point,
)
from crossgcn.training.full_batch import EpochMetrics

RUN = {"config": {"model": "gcn", "batch_size": 8}, "seed": 3}
POINT = ResumePoint(
    2,
    1,
    (EpochMetrics(1, 1.1, 0.5, 1 / 3, 0.1), EpochMetrics(2, 0.9, 0.6, 1.2, 0.1)),
    {"model.weight": torch.tensor([[1.5, -2.0]]), "adam.step": torch.tensor(7)},
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run" / RESUME_POINT
    assert read_resume_point(path, RUN) is None
    write_resume_point(path, POINT, RUN)
    found = read_resume_point(path, RUN)
    assert found is not None
    assert (found.epoch, found.best_epoch, found.history) == (2, 1, POINT.history)
    assert found.tensors.keys() == POINT.tensors.keys()
    for name, value in POINT.tensors.items():
        assert torch.equal(found.tensors[name], value)
    assert [file.name for file in path.parent.iterdir()] == [RESUME_POINT]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"config": {"model": "gcn", "batch_size": 9}}, r"another batch_size \(8, not 9\)"),
        ({"config": {"model": "gin", "batch_size": 8}}, r"another model \(gcn, not gin\)"),
        ({"seed": 4}, r"another seed \(3, not 4\)"),
        ({"device": "cuda"}, r"another device"),
    ],
)
def test_another_runs_is_refused(tmp_path: Path, other: dict[str, Any], words: str) -> None:
    write_resume_point(tmp_path / RESUME_POINT, POINT, RUN)
    with pytest.raises(BadInput, match=words):
        read_resume_point(tmp_path / RESUME_POINT, RUN | other)


@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255), cut=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_damage_anywhere_is_refused(tmp_path: Path, place: float, bits: int, cut: bool) -> None:
    path = tmp_path / RESUME_POINT
    write_resume_point(path, POINT, RUN)
    content = bytearray(path.read_bytes())
    position = int(place * len(content))
    if cut:
        content = content[:position]
    else:
        content[position] ^= bits
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"resume\.safetensors: is"):
        read_resume_point(path, RUN)


def test_a_full_disk_is_said_and_the_point_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / RESUME_POINT
    write_resume_point(path, POINT, RUN)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    later = ResumePoint(3, 1, POINT.history, POINT.tensors)
    with monkeypatch.context() as patched:
        patched.setattr("crossgcn.data.files.os.fsync", full)
        with pytest.raises(WorkFailed, match=r"epoch 3 .*No space left on device.*--resume"):
            write_resume_point(path, later, RUN)
    found = read_resume_point(path, RUN)
    assert found is not None and found.epoch == 2
    assert [file.name for file in tmp_path.iterdir()] == [RESUME_POINT]
