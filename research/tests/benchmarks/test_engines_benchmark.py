from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crossgcn.errors import WorkFailed
from research.benchmarks import engines
from research.benchmarks.harness.command import Options, why_not
from research.benchmarks.harness.engine_hops import store_from_folder, store_in_duckdb
from research.benchmarks.harness.peak_rss import ProcessCost
from research.benchmarks.harness.record import Measurement

pytest.importorskip("ibis")
pytest.importorskip("duckdb")
pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = engines.EngineSize(400, 1_500, 64 * engines.MIB)


def stay_here(work: Any, *arguments: Any) -> ProcessCost:
    """Run a side in this process, at a made-up cost."""
    seconds = 6.0 if work is store_in_duckdb else 4.0
    return ProcessCost(seconds, 2**30, 0, work(*arguments))


def test_duckdb_with_little_memory_and_a_graph_folder_agree_and_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "cost_of", stay_here)
    found = Measurement()
    engines.measure_duckdb(SIZE, Options(quick=True), found)
    assert [check.what for check in found.checks] == [
        *("columns of graph folder", "columns of DuckDB", "columns of DuckDB, 64 MiB")
    ]
    assert found.results[0].value == 1.5 and found.results[1].value == 1.0
    note, packages = found.notes
    assert packages == "The packages alone take 4 CPU s and 1.00 GiB at most"
    assert note.startswith("DuckDB, 400 nodes, 1,580 edges, ")
    assert "with 64 MiB for tables of 0 MiB, DuckDB spilled nothing and took 6 CPU s" in note
    assert [cost["cpu_seconds"] for cost in found.extra["costs"]] == [4.0, 6.0, 6.0]


def test_columns_that_differ_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_hops(nodes: str, edges: str, out: Path, *_: Any) -> int:
        store_from_folder(edges=edges, nodes=_other_ages(nodes), out=out, threads=1)
        return 0

    monkeypatch.setattr(engines, "cost_of", stay_here)
    monkeypatch.setattr(engines, "store_in_duckdb", other_hops)
    found = Measurement()
    with pytest.raises(WorkFailed, match=r"columns of DuckDB differ by"):
        engines.measure_duckdb(SIZE, Options(quick=True), found)
    assert found.notes == [] and found.results == []


def _other_ages(path: str) -> str:
    nodes, other = pd.read_parquet(path), Path(path).with_name("other.parquet")
    nodes.assign(age=nodes["age"] + 0.1 * (nodes.index == 7)).to_parquet(other)
    return str(other)


def test_without_duckdb_the_benchmark_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert why_not("engines") is None
    monkeypatch.setattr("research.benchmarks.harness.command.find_spec", lambda name: None)
    assert why_not("engines") == ("engines needs Ibis and DuckDB: pip install 'crossgcn[duckdb]'")
