from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from research.pages.benchmarks import (
    Floor,
    Floors,
    benchmark_markdown,
    benchmark_table,
    draw_growth,
    write_growth_figure,
)

FLOORS = Floors(
    {
        ("cpu-step", "PyG GCN", "cora"): Floor(40, 100),
        ("growth", "time", "K"): Floor(1.1, 1.0, at_most=True),
    }
)


def record(name: str, results: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "benchmark": name,
        "quick": False,
        "rounds": 7,
        "device": "cpu",
        "hardware": {"processor": "A Processor", "cores": 2, "gpu": None},
        "environment": {
            "versions": {"torch": "2.13.0", "torch-geometric": "2.8.1"},
            "commit": "0123456789abcdef0123456789abcdef01234567-modified",
        },
        "results": results,
        "notes": ["what a reader must know"],
    } | more


CPU_STEP = record(
    "cpu-step",
    [
        {"case": "cora", "what": "PyG GCN", "value": 62.31, "low": 61.0, "high": 63.9},
        {"case": "cora", "what": "over our GCN", "value": 1.514},
    ],
)
CURVE = {
    "name": "K",
    "label": "order K",
    "sizes": [1, 2, 4],
    "time": [0.001, 0.002, 0.004],
    "memory": [1e6, 2e6, 4e6],
    "slopes": {"time": 1.0, "memory": 1.0},
}


def test_the_page_shows_ratio_floor_aim_and_verdict() -> None:
    text = benchmark_markdown("cpu-step", CPU_STEP, FLOORS)
    assert "| cora | PyG GCN | 62.3× | 61.0× – 63.9× | 40.0× | 100× | floor met |" in text
    assert "| cora | over our GCN | 1.51× |  |  |  |  |" in text
    assert "A Processor, 2 cores. 7 rounds, torch 2.13.0, PyG 2.8.1" in text
    assert "commit 0123456789ab-modified." in text
    assert "- what a reader must know" in text


def test_a_floor_that_is_missed_says_so() -> None:
    slow = CPU_STEP | {"results": [{"case": "cora", "what": "PyG GCN", "value": 39.0}]}
    assert "| floor missed |" in benchmark_markdown("cpu-step", slow, FLOORS)
    steep = record("growth", [{"case": "K", "what": "time", "value": 1.2, "unit": "slope"}])
    text = benchmark_markdown("growth", steep, FLOORS)
    assert "| K | time | 1.20 |  | ≤ 1.10 | ≤ 1.00 | floor missed |" in text


def test_without_a_record_or_with_a_quick_one_the_page_says_how_to_make_one() -> None:
    for missing in (None, CPU_STEP | {"quick": True}):
        text = benchmark_markdown("cpu-step", missing, FLOORS)
        assert text.startswith("No record yet: `crossgcn bench cpu-step")
        assert "62" not in text


def test_the_roofline_is_shown_beside_the_kernels() -> None:
    part = {"name": "Adam", "operations": 0, "memory_bytes": 5_000_000, "gathered_bytes": 0}
    roofline = [
        {
            "case": f"fp32, E {size}",
            "order": order,
            "seconds": 0.001 * order,
            "parts": [
                part | {"seconds": 0.001},
                part | {"name": "project features", "operations": 4e9, "seconds": 0.001},
                part | {"name": "propagate", "gathered_bytes": 3_000_000_000, "seconds": 0.001},
            ],
        }
        for size in (32, 128, 1024)
        for order in (2, 1)
    ]
    gpu = record(
        "gpu-step",
        [{"case": "fp32, E 32", "what": "share of the roofline", "value": 61.4, "unit": "%"}],
        device="cuda",
        hardware={"processor": "A Processor", "cores": 2, "gpu": "A GPU"},
        ceilings={
            "fp32": {
                "operations_per_second": 50e12,
                "memory_bytes_per_second": 4e12,
                "cache_bytes_per_second": 7e12,
            }
        },
        roofline=roofline,
        kernels={
            "fp32, E 32": {"_sum_segments": 0.001, "multiply_x": 0.0001, "some_kernel": 0.0005}
        },
    )
    text = benchmark_markdown("gpu-step", gpu, FLOORS)
    assert "A GPU; A Processor" in text
    assert "| share of the roofline | 61.4 % |" in text
    assert "50 TFLOP/s in products, 4.00 TB/s from memory" in text
    assert "| Adam | 0.00 | 5.0 | 0.0 | 1.0000 |" in text
    assert "| `some_kernel` | 0.5000 |" in text
    assert "Least work of a step, fp32, E 32: 2.000 ms; of our GCN's, 1.000 ms." in text
    assert "sparse sums gathered 3.0 TB/s; products with the features made 40 TFLOP/s" in text
    assert "E 1024" in text and "E 128:" not in text


def test_the_figure_of_growth_is_drawn_from_the_record(tmp_path: Path) -> None:
    growth = record("growth", [], growth=[CURVE, CURVE | {"name": "E", "label": "hidden size E"}])
    labels = [axes.get_xlabel() for axes in draw_growth(growth).axes]
    assert "order K" in labels and "hidden size E" in labels
    path = tmp_path / "growth.png"
    write_growth_figure(growth, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "![" in benchmark_markdown("growth", growth, FLOORS, figure="growth.png")


def on_the_terminal(record: dict[str, Any]) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(benchmark_table(record, FLOORS))
    return console.export_text()


def test_the_terminal_shows_the_same() -> None:
    text = on_the_terminal(CPU_STEP)
    assert "floor met" in text and "62.3×" in text and "quick look" not in text


def test_a_quick_look_is_marked_and_not_judged() -> None:
    text = on_the_terminal(CPU_STEP | {"quick": True})
    assert "quick look" in text and "62.3×" in text and "40.0×" in text
    assert "met" not in text and "missed" not in text
