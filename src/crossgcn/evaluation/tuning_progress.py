"""How far a search is, in epochs."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TuningProgress"]


class TuningProgress:
    """Trials, and the trainings after them, as epochs of one long training.

    A trial counts for as many as any other, also where it trains for longer.

    Args:
        trials: How many there will be.
        last: How many trainings follow.
        epochs: What each counts for.
        report: Called with epochs done and epochs in all.
    """

    def __init__(
        self, *, trials: int, last: int, epochs: int, report: Callable[[int, int], None] | None
    ) -> None:
        self.unit = epochs
        self.total = trials + last
        self.finished = 0
        self.part = 0.0
        self.report = report

    def add(self, share: float) -> None:
        """A share of the trial that is running is done."""
        self.part += share
        self._show()

    def final(self, done: int, total: int) -> None:
        """As much of the final runs is done."""
        self.part = done / total
        self._show()

    def finish_trial(self) -> None:
        """The trial that was running has ended."""
        self.finished += 1
        self.part = 0.0
        self._show()

    def _show(self) -> None:
        if self.report is not None:
            done = self.finished + min(self.part, 1.0)
            self.report(int(done * self.unit), self.total * self.unit)
