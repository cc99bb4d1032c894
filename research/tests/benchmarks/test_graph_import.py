from __future__ import annotations

import pytest

from research.benchmarks import graph_import
from research.benchmarks.harness.command import Options

pytestmark = pytest.mark.usefixtures("one_thread")


def test_both_sides_make_the_same_rows_and_are_measured_in_time_and_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"import_ours": 4, "import_in_memory": 10, "start_only": 3}
    monkeypatch.setattr(graph_import, "peak_rss", lambda work, *_: sizes[work.__name__])
    found = graph_import.measure_file(20_000, Options(quick=True, rounds=2))
    assert [check.error for check in found.checks] == [0.0]
    time, memory = found.results
    ours, peer = found.timings
    ratios = sorted(slow / fast for slow, fast in zip(peer.seconds, ours.seconds, strict=True))
    assert time.value == pytest.approx(sum(ratios) / 2)
    assert memory.value == 2.5 and "packages alone" in found.notes[1]
