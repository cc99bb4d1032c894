"""Train all runs of an experiment, on all cores or on a GPU.

Runs are independent and each has its own seed, so the number of processes does not change any
result. A finished run is on disk before the next starts.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any

from crossgcn.errors import WorkFailed
from crossgcn.training.records import finished_run
from crossgcn.training.trainer import Record, Run, RunTrainer

_LOGGER = logging.getLogger(__name__)


def train_many(
    trainer: RunTrainer,
    runs: Sequence[Run],
    *,
    workers: int = 1,
    on_epochs: Callable[[int], None] | None = None,
    on_record: Callable[[int, Record], None] | None = None,
    on_failure: Callable[[int, WorkFailed], None] | None = None,
) -> list[Record]:
    """Train all runs, except those whose records are on disk already, and return their records.

    Args:
        workers: Processes that share the runs; a GPU uses one.
        on_epochs: Called regularly with the number of epochs done since the last call, including
            those of runs found on disk; an epoch counts as many times as its run's ``cost``.
        on_record: Called with the position and the record of each run as soon as it is there.
        on_failure: Called with the position of each run that diverged and the reason; the other
            runs continue, and its record is left out of the result.

    Raises:
        WorkFailed: If a run diverged and ``on_failure`` was not given, or if a worker died.
            Finished runs stay on disk.
    """
    report = on_epochs or (lambda count: None)
    records: dict[int, Record] = {}

    def keep(position: int, record: Record) -> None:
        records[position] = record
        _LOGGER.info("%s", _describe(runs[position], record))
        if on_record is not None:
            on_record(position, record)

    for position, run in enumerate(runs):
        if run.folder is not None:
            found = finished_run(run.folder, trainer.identity(run), trainer.save_models)
            if found is not None:
                keep(position, found)
                report(run.config.epochs * run.cost)
    waiting = {position: run for position, run in enumerate(runs) if position not in records}
    trainer.prepare(waiting.values())

    queue = list(waiting.items())
    others = 0 if trainer.device.type == "cuda" else min(workers, len(queue)) - 1
    results = (
        _in_processes(trainer, queue, others, report)
        if others > 0
        else (_train(trainer, position, run, report) for position, run in queue)
    )
    with closing(results):
        for position, result in results:
            if not isinstance(result, WorkFailed):
                keep(position, result)
            elif on_failure is not None:
                on_failure(position, result)
            else:
                raise result
    return [records[position] for position in sorted(records)]


def count_epochs(
    runs: Iterable[Run], on_epochs: Callable[[int, int], None] | None, more: int = 0
) -> Callable[[int], None]:
    """Return a function that adds up work, and reports what is done and all there is.

    All there is are the epochs of the runs, times their cost, and ``more``.
    """
    total, done = sum(run.config.epochs * run.cost for run in runs) + more, 0

    def count(units: int) -> None:
        nonlocal done
        done += units
        if on_epochs is not None:
            on_epochs(done, total)

    return count


def _describe(run: Run, record: Record) -> str:
    """Return one line about a finished run."""
    words = [f"{run.config.model}, split {run.split}"]
    words += [f"repeat {run.repeat}"] if run.repeat else []
    words += [f"best epoch {record['best_epoch']}"] if "best_epoch" in record else []
    for name, value in (record.get("test") or {}).items():
        words.append(f"test {name} {value:.4f}")
    return ", ".join([*words, f"{record.get('seconds', 0):.1f} s"])


Waiting = tuple[int, Run]
"""A run and its position."""
Result = tuple[int, Record | WorkFailed]


def _train(trainer: RunTrainer, position: int, run: Run, report: Callable[[int], None]) -> Result:
    return position, trainer.train(run, lambda epochs: report(epochs * run.cost))


SECONDS_OF_WORK = 8.0
"""From this much work left, other processes are started: each imports torch for seconds first."""

_SECONDS_OF_LOOKING = 0.2
"""Epochs are timed this long before the work left is estimated, all in CPU time."""


def is_worth_sharing(seconds: float, done: int, left: int) -> bool:
    """Whether other processes should be started, after some CPU seconds of work in this one.

    Args:
        done: Units of work that were done in these seconds.
        left: Units of work that are left.
    """
    return done > 0 and seconds >= _SECONDS_OF_LOOKING and seconds / done * left > SECONDS_OF_WORK


def _in_processes(
    trainer: RunTrainer, queue: list[Waiting], others: int, report: Callable[[int], None]
) -> Generator[Result, None, None]:
    """Train in this process, and share the runs with other processes if much work is left.

    This process takes runs from the end of the queue. It works while the others start, which
    takes as long as several runs.
    """
    helpers = _Helpers(trainer, queue, others)
    total = sum(run.config.epochs * run.cost for _, run in queue)
    timed: tuple[float, int] | None = None  # the first epoch compiles and reads caches
    done = 0

    def count(units: int) -> None:
        nonlocal timed, done
        done += units
        report(units + helpers.new_units())
        now = time.process_time()
        timed = timed or (now, done)
        if is_worth_sharing(now - timed[0], done - timed[1], total - done):
            helpers.start()

    try:
        started = time.process_time()
        if sum(run.seconds for _, run in queue) > SECONDS_OF_WORK:
            helpers.start()
        for trained, number in enumerate(reversed(range(len(queue))), start=1):
            if helpers.leave_to_them(number):
                continue
            yield _train(trainer, *queue[number], count)
            yield from helpers.finished(timeout=0.0)
            if is_worth_sharing(time.process_time() - started, trained, number):
                helpers.start()
        while helpers.pending:
            yield from helpers.finished(timeout=0.1)
            report(helpers.new_units())
        report(helpers.new_units())
    except BrokenProcessPool:
        raise WorkFailed(
            "a worker process died, most likely for lack of memory: use fewer --workers; "
            "finished runs are kept and --resume continues from them"
        ) from None
    finally:
        helpers.stop()


class _Helpers:
    """Other processes that take runs from the start of the queue.

    Attributes:
        pending: Runs that other processes have not finished, or found taken.
    """

    def __init__(self, trainer: RunTrainer, queue: list[Waiting], others: int) -> None:
        self._trainer, self._queue, self._others = trainer, queue, others
        self._mine: set[int] = set()
        self._executor: ProcessPoolExecutor | None = None
        self._reported = 0
        self.pending: set[Future[Result | None]] = set()

    def start(self) -> None:
        """Start the processes, if they have not started and runs are left for them."""
        left = [number for number in range(len(self._queue)) if number not in self._mine]
        self._others = min(self._others, len(left))
        if self._executor is not None or not left:
            return
        context = multiprocessing.get_context("spawn")
        self._done, self._stop = context.Value("q", 0), context.Event()
        # Which runs a process has taken. Futures are not cancelled instead: where a worker
        # dies, Python 3.11 fails on cancelled ones.
        self._taken = context.Array("b", len(self._queue))
        for number in self._mine:
            self._taken[number] = 1
        shared = (self._trainer, self._done, self._stop, self._taken)
        self._executor = ProcessPoolExecutor(self._others, context, _start_worker, shared)
        with _interrupts_held():
            self.pending = {
                self._executor.submit(_work, number, self._queue[number]) for number in left
            }

    def leave_to_them(self, number: int) -> bool:
        """Return whether another process takes a run; else take it for this one."""
        if self._executor is None:
            self._mine.add(number)
            return False
        return number < self._others or not _take(self._taken, number)

    def finished(self, timeout: float) -> Iterator[Result]:
        """Yield what other processes have finished, and remove it from ``pending``."""
        finished, _ = wait(self.pending, timeout=timeout, return_when=FIRST_COMPLETED)
        for future in finished:
            self.pending.remove(future)
            result = future.result()
            if result is not None:
                yield result

    def new_units(self) -> int:
        """Return the units of work that they have done since the last call."""
        if self._executor is None:
            return 0
        before, self._reported = self._reported, self._done.value
        return self._reported - before

    def stop(self) -> None:
        """End the processes."""
        if self._executor is not None:
            self._stop.set()
            self._executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C; workers started meanwhile never see it, not even while importing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take(taken: Any, number: int) -> bool:
    """Take a run, unless another process has."""
    with taken.get_lock():
        is_free = not taken[number]
        taken[number] = 1
    return is_free


_worker: tuple[RunTrainer, Any, Any, Any] | None = None


class _Stopped(Exception):
    """The main process has stopped; end this run."""


def _start_worker(trainer: RunTrainer, done: Any, stop: Any, taken: Any) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = (trainer, done, stop, taken)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent is killed; it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(number: int, waiting: Waiting) -> Result | None:
    assert _worker is not None
    trainer, done, stop, taken = _worker
    if not _take(taken, number):
        return None

    def count(units: int) -> None:
        if stop.is_set():
            raise _Stopped
        with done.get_lock():
            done.value += units

    return _train(trainer, *waiting, count)
