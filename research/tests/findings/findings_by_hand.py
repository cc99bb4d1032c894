"""A small table over a graph file, which takes a moment to train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from research.findings.tables import Column, FindingsTable, Row


def small_table(graph: Path, **more: Any) -> FindingsTable:
    settings = {"splits": "random", "train": 5, "num_splits": 2, "epochs": 3, "hidden_channels": 4}
    return FindingsTable(
        name="peers",
        title="A small table",
        compares="crosses against none",
        settings=settings,
        columns=(Column(label="here", settings={"dataset": str(graph)}, target=10.0),),
        rows=(
            Row(label="plain", settings={"model": "cross-gcn", "order": 1}),
            Row(label="crossed", settings={"model": "cross-gcn"}, against=("plain",)),
        ),
        **more,
    )
