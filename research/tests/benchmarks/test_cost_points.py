from __future__ import annotations

from dataclasses import replace
from typing import Any

from crossgcn.data.datasets import generated as large_graph
from research.benchmarks.growth import axes
from research.benchmarks.harness.big import BigSize
from research.benchmarks.harness.wide import WideSize
from research.scale.cost_points import (
    BIG,
    BIG_TRAIN_SHARE,
    GROWTH,
    GROWTH_NODES,
    WIDE,
    drawn_entries,
    full_batch,
    gpu_points,
)


def test_growth_is_of_the_sizes_that_its_script_draws() -> None:
    curves = []
    for axis in axes(GROWTH_NODES):
        seconds = [float(number + 1) for number in range(len(axis.sizes))]
        curves.append({"name": axis.name, "sizes": axis.sizes, "time": seconds, "memory": seconds})
    assert {curve["name"] for curve in curves} == set(GROWTH)
    points = gpu_points({"gpu-growth": {"quick": False, "growth": curves}})
    position = 0
    for axis in axes(GROWTH_NODES):
        for size in axis.sizes:
            own: dict[str, Any] = {"order": 2, "hidden": 128}
            around = axis.around
            if axis.argument in own:
                own[axis.argument] = size
            else:
                around = replace(around, **{axis.argument: size})
            shape = points[position].shape
            assert shape is not None
            assert shape == full_batch(
                around.nodes,
                drawn_entries(around.nodes, around.degree),
                around.features,
                own["hidden"],
                around.classes,
                own["order"],
                stored=around.stored or None,
            )
            position += 1


def test_big_and_wide_graphs_are_those_of_their_scripts() -> None:
    size, wide = BigSize(2_450_000, 62_000_000, 256), WideSize(hidden=64)
    assert {"features": size.features, "classes": size.classes} == BIG
    assert {"nodes": wide.nodes, "classes": wide.classes} == WIDE
    assert large_graph.TRAIN_SHARE == BIG_TRAIN_SHARE
    case = f"{size.name}, bf16"
    records = {
        "gpu-big-graph": {
            "quick": False,
            "timings": [{"case": case, "side": "ours", "median": 0.05}],
            "peak_bytes": {case: 3e10},
        },
        "gpu-wide-features": {
            "quick": False,
            "notes": [
                "100,000 nodes, 5,000,000 entries in 400,000 of 1,000,000 columns, 998,000 "
                "directed edges"
            ],
            "timings": [
                {"case": wide.name, "side": "ours", "median": 0.004},
                {"case": wide.name, "side": "two EmbeddingBags", "median": 0.04},
            ],
            "peak_bytes": {"ours": 2e9},
        },
    }
    big, broad = gpu_points(records)
    assert (big.precision, big.seconds, big.peak_bytes) == ("bf16", 0.05, 3e10)
    assert big.shape == full_batch(2_450_000, 126_450_000, 100, 256, 47, 2, train_share=0.6)
    assert broad.shape == full_batch(100_000, 1_098_000, 400_000, 64, 8, 2, stored=50)
    records["gpu-big-graph"]["quick"] = True
    assert [point.record for point in gpu_points(records)] == ["gpu-wide-features"]
