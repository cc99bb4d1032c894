"""The values that results must reach, by benchmark, result and case; no other file holds them."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["met", "missed", ""]

AT_LEAST: dict[str, dict[str, dict[str, float]]] = {
    "cpu-step": {
        "PyG GCN": {"cora": 60, "citeseer": 200, "pubmed": 100, "citeseer, 20 runs": 100},
        "tuned PyG GCN": {"cora": 3, "citeseer": 3, "pubmed": 3},
        "compiled PyG GCN": {"citeseer": 100},
        "sparse GCN": {"cora": 3, "citeseer": 3, "pubmed": 3},
    },
    "gpu-step": {
        "best GCN": {
            f"{precision}, E {hidden}": 1
            for precision in ("fp32", "tf32", "bf16")
            for hidden in (32, 128, 512, 1024)
        },
    },
}
"""Required ratios: the larger, the better."""

AT_MOST: dict[str, dict[str, dict[str, float]]] = {
    "cpu-step": {"memory": {"a million sparse features": 3}},
    "hops": {
        "memory": {"1,000,000 nodes, 10,000,000 edges, 50 columns": 8},
        "columns": {"2,450,000 nodes, 62,000,000 edges, 50 columns": 60},
        "training, over boosting": {
            "us-county": 2,
            "tolokers": 2,
            "facebook100/Amherst41": 2,
            "1,000,000 rows": 2,
        },
    },
    "hops-cuda": {
        "columns": {"2,450,000 nodes, 62,000,000 edges, 50 columns": 10},
        "training": {"10,000,000 rows, 201 columns, 20 epochs": 15},
    },
    "own-tables": {"time": {"10,000 nodes, 50,000 edges, 30 columns": 120}},
}
"""Limits of time (s), memory (GiB) and costs (ratios): the smaller, the better."""


def floor_of(benchmark: str, what: str, case: str) -> str:
    """Return the required value as text, such as ``≥ 60``; empty if there is none."""
    for sign, table in (("≥", AT_LEAST), ("≤", AT_MOST)):
        value = table.get(benchmark, {}).get(what, {}).get(case)
        if value is not None:
            return f"{sign} {value:g}"
    return ""


def judge(benchmark: str, what: str, case: str, value: float) -> Verdict:
    """Compare a value with what is required of it."""
    least = AT_LEAST.get(benchmark, {}).get(what, {}).get(case)
    most = AT_MOST.get(benchmark, {}).get(what, {}).get(case)
    if least is None and most is None:
        return ""
    is_met = (least is None or value >= least) and (most is None or value <= most)
    return "met" if is_met else "missed"
