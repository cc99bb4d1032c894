from __future__ import annotations

from typing import Any

import pytest

from crossgcn.layers import TRANSFORMS
from research.benchmarks import peers
from research.findings.crossings import peers_markdown
from research.findings.records import CellRecord, FindingsRecord
from research.findings.tables import read_table

TABLE = read_table("peers")


def cell(row: str, column: str, percent: float) -> CellRecord:
    return CellRecord(
        row=row, column=column, settings={}, device="cpu", test_accuracy=(percent / 100,) * 2
    )


RECORD = FindingsRecord(
    table="peers",
    cells=(
        cell("linear, 2 layers", "citeseer", 69.0),
        cell("linear, 1 layer", "citeseer", 68.0),
        cell("mlp, 2 layers", "citeseer", 66.0),
        cell("mlp, 1 layer", "citeseer", 65.0),
        cell("dcn-v2, 2 layers", "cora", 71.0),
    ),
)


def entry(transform: str, features: int, order: int, scale: int) -> dict[str, Any]:
    return {
        "transform": transform,
        "features": features,
        "order": order,
        "parameters": 1000 * scale,
        "memory_bytes": 2_000_000 * scale,
        "seconds": 0.01 * scale,
    }


@pytest.fixture
def costs() -> dict[str, Any]:
    sizes = ((12, 2), (500, 2), (3703, 2), (20_000, 2), (3703, 1), (3703, 3), (3703, 4))
    scales = {"cross": 2, "MLP": 3, "DCN-v2, full": 9, "DCN-v2, rank 32": 4}
    slopes = [
        {"case": f"growth with {letter}", "what": f"{what} of MLP", "value": value}
        for letter, what, value in (("D", "time", 0.31), ("D", "memory", 0.92), ("K", "time", 0.0))
    ]
    return {
        "quick": False,
        "results": slopes,
        "peers": [
            entry(name, *size, scale * (1 if size == (3703, 2) else 50))
            for size in sizes
            for name, scale in scales.items()
        ],
    }


def test_accuracies_costs_and_growth_stand_side_by_side(costs: dict[str, Any]) -> None:
    text = peers_markdown(TABLE, RECORD, costs)
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in text.splitlines()}
    assert "(2 layers / 1 layer)" in text and "(D 3,703, K 2)" in text
    assert rows["mlp"][1:3] == ["66.0 / 65.0", "— / —"]
    assert rows["mlp"][6:] == ["3,000", "1.50", "6.0", "0.31", "0.92", "0.00", "— |"]
    assert rows["dcn-v2"][2] == "71.0 / —"
    assert rows["dcn-v2"][6:9] == ["4,000", "2.00", "8.0"]
    assert rows["linear"][6:9] == ["—"] * 3
    assert len(rows["module"]) == len(rows["mlp"]) == 1 + 5 + 3 + 4


def test_nothing_is_joined_where_one_side_is_missing(costs: dict[str, Any]) -> None:
    assert peers_markdown(TABLE, None, costs) == ""
    assert peers_markdown(TABLE, RECORD, None) == ""
    assert peers_markdown(TABLE, RECORD, costs | {"quick": True}) == ""


def test_the_benchmark_measures_the_modules_of_the_findings() -> None:
    sides = (peers.OURS, *peers.OTHER_CROSSINGS)
    entries = [entry(side.label, 3703, 2, 1) for side in sides]
    text = peers_markdown(TABLE, RECORD, {"quick": False, "results": [], "peers": entries})
    found = [line for line in text.splitlines() if "1,000 | 1.00" in line]
    assert [line.split(" | ")[0].strip("| ") for line in found] == [
        "cross",
        "mlp",
        "hofm",
        "dcn",
        "dcn-v2",
        "cin",
    ]
    options = TRANSFORMS["dcn-v2"].options()
    assert options is not None and options["rank"] == 32, "the findings take the default"
