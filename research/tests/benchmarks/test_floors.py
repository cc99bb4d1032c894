from __future__ import annotations

from pathlib import Path

import pytest

from crossgcn.errors import BadInput
from research.benchmarks.catalogue import BENCHMARKS
from research.benchmarks.harness.command import FOLDER, load_measure
from research.benchmarks.harness.peers import Peer
from research.pages.benchmarks import BenchmarkResult, Floor, read_floors

FLOORS = read_floors(FOLDER / "floors.toml")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_name_has_a_script(name: str) -> None:
    assert callable(load_measure(name))


@pytest.mark.parametrize(
    ("floor", "values"),
    [
        (Floor(3, 8), {2.9: "floor missed", 3: "floor met", 8: "aim met"}),
        (Floor(1.3, 1.1, at_most=True), {1.4: "floor missed", 1.3: "floor met", 1: "aim met"}),
        (Floor(aim=60), {59: "below the aim", 60: "aim met"}),
        (Floor(1.3, 1.5, at_most=True), {1.4: "floor missed, aim met", 1.3: "aim met"}),
        (Floor(floor=8), {7: "floor missed", 100: "floor met"}),
        (Floor(), {1: "—"}),
    ],
)
def test_a_value_is_judged_by_floor_and_aim(floor: Floor, values: dict[float, str]) -> None:
    assert {value: floor.judge(value) for value in values} == values


def test_ratios_against_peers_are_held_to_names_that_exist() -> None:
    ratios = {what for name, what, _ in FLOORS.table if name in ("cpu-step", "gpu-stack")}
    assert ratios <= {*Peer.NAMES, *Peer.COMPILED}
    citeseer = BenchmarkResult("citeseer", "PyG GCN", 120.0)
    assert FLOORS.of("cpu-step", citeseer) == Floor(100, 300)
    assert FLOORS.of("cpu-step", BenchmarkResult("citeseer", "naive Cross-GCN", 2.0)) == Floor()


def test_an_aim_that_was_measured_stands_beside_the_floor() -> None:
    overhead = BenchmarkResult("fp32, E 1024", "over our GCN", 1.9, aim=1.7)
    assert FLOORS.of("gpu-step", overhead) == Floor(2.0, 1.7, at_most=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[cpu-stop.'PyG GCN']\nfloor = {cora = 3}", "did you mean 'cpu-step'"),
        ("[cpu-step.'PyG GCN']\nflor = {cora = 3}", "'flor'"),
    ],
)
def test_a_floor_that_would_hold_nothing_is_refused(
    text: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(text)
    with pytest.raises(BadInput, match=complaint):
        read_floors(path)
