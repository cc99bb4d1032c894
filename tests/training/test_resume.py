from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgcn import BadInput, WorkFailed
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint

RUN = {"config": {"model": "gcn", "batch_size": 8}, "seed": 3}
STEP = {"weights.w": torch.tensor([[1.5, -2.0]]), "count": torch.tensor(7)}
SELECTION = {"epoch": torch.tensor([2]), "sound": torch.tensor([True])}


def saved(folder: Path, epoch: int = 2) -> Checkpoint:
    checkpoint = Checkpoint(folder / CHECKPOINT, RUN, seconds=0)
    checkpoint.save(epoch, STEP, SELECTION | {"epoch": torch.tensor([epoch])})
    return checkpoint


def test_a_checkpoint_is_loaded_into_the_tensors_of_a_training(tmp_path: Path) -> None:
    step = {name: torch.zeros_like(value) for name, value in STEP.items()}
    selection = {name: torch.zeros_like(value) for name, value in SELECTION.items()}
    Checkpoint(tmp_path / CHECKPOINT, RUN).load(step, selection)
    assert not any(value.any() for value in (*step.values(), *selection.values()))
    saved(tmp_path / "run").load(step, selection)
    for own, wanted in ((step, STEP), (selection, SELECTION)):
        assert all(torch.equal(own[name], value) for name, value in wanted.items())
    assert [file.name for file in (tmp_path / "run").iterdir()] == [CHECKPOINT]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"config": {"model": "gcn", "batch_size": 9}}, r"another batch_size \(8, not 9\)"),
        ({"config": {"model": "gin", "batch_size": 8}}, r"another model \(gcn, not gin\)"),
        ({"seed": 4}, r"another seed \(3, not 4\)"),
        ({"device": "cuda"}, r"another device"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    saved(tmp_path)
    with pytest.raises(BadInput, match=words):
        Checkpoint(tmp_path / CHECKPOINT, RUN | other).read()


@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255), cut=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_damage_anywhere_is_refused(tmp_path: Path, place: float, bits: int, cut: bool) -> None:
    checkpoint = saved(tmp_path)
    content = bytearray(checkpoint.path.read_bytes())
    position = int(place * len(content))
    if cut:
        content = content[:position]
    else:
        content[position] ^= bits
    checkpoint.path.write_bytes(content)
    with pytest.raises(BadInput, match=r"resume\.safetensors: is"):
        checkpoint.read()


def test_a_full_disk_is_reported_and_the_checkpoint_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = saved(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("crossgcn.data.files.os.fsync", full)
        with pytest.raises(WorkFailed, match=r"epoch 3 .*No space left on device.*--resume"):
            saved(tmp_path, epoch=3)
    found = checkpoint.read()
    assert found is not None and int(found["selection.epoch"]) == 2
    assert [file.name for file in tmp_path.iterdir()] == [CHECKPOINT]


@pytest.mark.parametrize(
    "change",
    [
        {"weights.w": torch.zeros(3)},
        {"weights.w": torch.zeros(1, 2, dtype=torch.float64)},
        {"count": None},
    ],
)
def test_a_resealed_checkpoint_must_have_the_tensors_of_the_training(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    checkpoint = Checkpoint(tmp_path / CHECKPOINT, RUN, seconds=0)
    changed = {name: value for name, value in (STEP | change).items() if value is not None}
    checkpoint.save(2, changed, SELECTION)
    step = {name: torch.zeros_like(value) for name, value in STEP.items()}
    with pytest.raises(BadInput, match=r"resume\.safetensors: is damaged .* does not hold step\."):
        checkpoint.load(step, SELECTION)
    assert not step["weights.w"].any(), "nothing is loaded"


def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CHECKPOINT)
    with pytest.raises(BadInput, match="not a regular file"):
        Checkpoint(tmp_path / CHECKPOINT, RUN).read()
