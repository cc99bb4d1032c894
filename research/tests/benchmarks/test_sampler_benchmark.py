from __future__ import annotations

import pytest

from crossgcn.errors import WorkFailed
from research.benchmarks import sampler
from research.benchmarks.harness.command import Options
from research.benchmarks.harness.loop_sampler import LoopSampler
from research.benchmarks.harness.sampled_batches import Case

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = Case(400, 4000, 4, batch_size=32, fanouts=(4, 3))
LOOK = Options(quick=True, rounds=2)


def test_three_ways_of_sampling_are_checked_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "peak_rss", lambda work, *arguments: 2**20)
    found = sampler.measure_case(SMALL, LOOK, draws=40)
    assert [result.what for result in found.results] == [sampler.PLAIN, sampler.LOOP]
    same, means = found.checks
    assert same.error == 0.0 and 0.0 < means.error < sampler.STANDARD_ERRORS
    assert found.extra["graph_bytes"] > 4 * 4 * 400


def test_other_distributions_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy(LoopSampler):
        """A biased sampler that always takes the first neighbours."""

        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            self._random = self  # type: ignore[assignment]

        def choice(self, chosen: object, fanout: int, replace: bool) -> object:
            return chosen[:fanout]  # type: ignore[index]

    monkeypatch.setattr("research.benchmarks.harness.sampled_batches.LoopSampler", Greedy)
    monkeypatch.setattr(sampler, "peak_rss", lambda work, *arguments: 0)
    with pytest.raises(WorkFailed, match="nothing was timed"):
        sampler.measure_case(SMALL, LOOK, draws=40)
