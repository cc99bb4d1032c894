"""One table of feature-crossing modules: accuracy, cost, and growth of the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from crossgcn.reports.format import markdown_table
from research.findings.records import FindingsRecord
from research.findings.tables import FindingsTable, Row

_MODULES: Final = {
    "cross": "cross",
    "mlp": "MLP",
    "hofm": "HOFM",
    "dcn": "DCN",
    "dcn-v2": "DCN-v2, rank 32",
    "cin": "CIN",
}
"""Benchmark labels of the findings' transforms, by name and settings."""
_OURS: Final = "cross"
_SLOPES: Final = (("time", "D"), ("memory", "D"), ("time", "K"), ("memory", "K"))

Benchmark = Mapping[str, Any]


def peers_markdown(
    table: FindingsTable, record: FindingsRecord | None, benchmark: Benchmark | None
) -> str:
    """Combine accuracies of the findings with costs of the benchmark; empty if one is missing.

    Args:
        table: The findings table whose rows set a ``transform``.
        record: The record of that table.
        benchmark: The record of ``crossgcn bench peers``; a quick record is ignored.
    """
    if record is None or benchmark is None or benchmark["quick"]:
        return ""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(_transform(row), []).append(row)
    features, order = _common_size(benchmark)
    costs = {
        entry["transform"]: entry
        for entry in benchmark["peers"]
        if (entry["features"], entry["order"]) == (features, order)
    }
    slopes = {(each["case"], each["what"]): each["value"] for each in benchmark["results"]}
    columns = [column.label for column in table.columns]
    rows = []
    for transform, members in groups.items():
        module = _MODULES.get(transform, transform)
        accuracies = [_accuracies(members, column, record) for column in columns]
        grown = [
            slopes.get((f"growth with {letter}", f"{what} of {module}")) for what, letter in _SLOPES
        ]
        rows.append(
            [
                transform,
                *accuracies,
                *_costs(costs.get(module), costs[_OURS]),
                *("—" if slope is None else f"{slope:.2f}" for slope in grown),
            ]
        )
    header = [
        "module",
        *columns,
        "parameters",
        "time, × cross",
        "memory, MB",
        *(f"exponent of {what} in {letter}" for what, letter in _SLOPES),
    ]
    layers = " / ".join(_layers(row) for row in next(iter(groups.values())))
    return (
        f"All in one: test accuracies in percent ({layers}) beside what one pass, forward and "
        f"backward, of the module alone costs (D {features:,}, K {order}), and the exponents "
        "with which time and memory grow with D and with K, from the "
        "[benchmark](../research/benchmarks/README.md).\n\n" + markdown_table(header, rows)
    )


def _transform(row: Row) -> str:
    """Return the transform of the first layer."""
    transform = row.settings["transform"]
    return str(transform if isinstance(transform, str) else transform[0])


def _common_size(benchmark: Benchmark) -> tuple[int, int]:
    """Return the size at which both growth series start: most others share its D or K."""
    sizes = {(entry["features"], entry["order"]) for entry in benchmark["peers"]}
    return max(
        sizes,
        key=lambda size: sum((size[0] == other[0]) + (size[1] == other[1]) for other in sizes),
    )


def _layers(row: Row) -> str:
    number = row.settings["num_layers"]
    return f"{number} layer{'s' * (number > 1)}"


def _accuracies(rows: Sequence[Row], column: str, record: FindingsRecord) -> str:
    cells = [record.find(row.label, column) for row in rows]
    return " / ".join("—" if c is None else f"{100 * fmean(c.test_accuracy):.1f}" for c in cells)


def _costs(entry: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> list[str]:
    if entry is None:
        return ["—"] * 3
    return [
        f"{entry['parameters']:,}",
        f"{entry['seconds'] / ours['seconds']:.2f}",
        f"{entry['memory_bytes'] / 1e6:.1f}",
    ]
