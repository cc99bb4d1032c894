from __future__ import annotations

from pathlib import Path

import pytest

from research.benchmarks.harness import other_work
from research.benchmarks.harness.other_work import OtherWork


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate two cores with counters and a clock that the test controls."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(other_work, "STAT", stat)
    monkeypatch.setattr(other_work, "available_cores", lambda: 2)
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    return stat


def write(stat: Path, user: int, idle: int, cores: int = 2) -> None:
    lines = [f"cpu  {user} 0 0 {idle} 0 0 0 0 0 0"]
    lines += [f"cpu{core} 0 0 0 0 0 0 0 0 0 0" for core in range(cores)]
    stat.write_text("\n".join([*lines, "intr 1"]))


def at(monkeypatch: pytest.MonkeyPatch, clock: float, own: float) -> None:
    spent = type("Times", (), dict.fromkeys(("system", "children_user", "children_system"), 0.0))
    spent.user = own  # type: ignore[attr-defined]
    monkeypatch.setattr("time.monotonic", lambda: clock)
    monkeypatch.setattr("os.times", lambda: spent)


def test_what_others_use_is_what_is_busy_less_our_own(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine, user=1000, idle=0)
    at(monkeypatch, 0.0, own=3.0)
    others = OtherWork()
    write(machine, user=1000 + 1500, idle=500)
    at(monkeypatch, 10.0, own=3.0 + 9.0)
    assert others.cores() == pytest.approx(0.6)
    assert "0.6 of 2 cores" in str(others.warning())


def test_a_quiet_machine_is_not_spoken_of(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine, user=0, idle=0)
    at(monkeypatch, 0.0, own=0.0)
    others = OtherWork()
    write(machine, user=1005, idle=995)
    at(monkeypatch, 10.0, own=10.0)
    assert others.cores() == pytest.approx(0.005)
    assert others.warning() is None


def test_counters_of_other_cores_than_ours_say_nothing(machine: Path) -> None:
    write(machine, user=0, idle=0, cores=64)
    assert OtherWork().cores() is None
    machine.unlink()
    assert OtherWork().warning() is None
