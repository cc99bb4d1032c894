"""Train all runs of an experiment, on all cores or on a GPU.

Runs are independent and each has its own seed, so the number of processes does not change any
result. A finished run is on disk before the next starts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any

from crossgcn.errors import WorkFailed
from crossgcn.training.records import finished_run
from crossgcn.training.trainer import Record, Run, Trainer

Result = tuple[int, Record | WorkFailed]
"""The position of a run, and its record, or the error if it diverged."""


def train_all(
    trainer: Trainer,
    runs: Sequence[Run],
    *,
    workers: int = 1,
    on_epochs: Callable[[int], None] | None = None,
) -> list[Record]:
    """Train runs as :func:`train_each` does, and return their records in order.

    Raises:
        WorkFailed: If a run diverged, or if a worker died. Finished runs stay on disk.
    """
    records = {}
    with closing(train_each(trainer, runs, workers=workers, on_epochs=on_epochs)) as results:
        for position, result in results:
            if isinstance(result, WorkFailed):
                raise result
            records[position] = result
    return [records[position] for position in range(len(runs))]


def train_each(
    trainer: Trainer,
    runs: Sequence[Run],
    *,
    workers: int = 1,
    on_epochs: Callable[[int], None] | None = None,
) -> Generator[Result, None, None]:
    """Train runs, and yield each when it is done; a record found on disk is not trained again.

    Training starts in this process. If much work is left, worker processes take over.

    Args:
        workers: Processes that share the runs; a GPU uses one.
        on_epochs: Called regularly with the number of epochs done since the last call, including
            those of runs found on disk; negative when a run starts again.
    """
    report = on_epochs or (lambda count: None)
    queue: list[tuple[int, Run]] = []
    for position, run in enumerate(runs):
        found = None
        if run.folder is not None:
            found = finished_run(run.folder, trainer.identity(run), trainer.save_models)
        if found is None:
            queue.append((position, run))
        else:
            report(run.config.epochs)
            yield position, found
    trainer.prepare(run for _, run in queue)
    may_share = trainer.device.type != "cuda" and workers > 1
    total, done, done_in_run = sum(run.config.epochs for _, run in queue), 0, 0
    timed: tuple[float, int] | None = None  # the first epoch compiles and reads caches

    def count(epochs: int) -> None:
        nonlocal done, done_in_run, timed
        done, done_in_run, now = done + epochs, done_in_run + epochs, time.process_time()
        report(epochs)
        timed = timed or (now, done)
        if may_share and is_worth_sharing(now - timed[0], done - timed[1], total - done):
            report(-done_in_run)
            raise _Stopped

    for finished, (position, run) in enumerate(queue):
        left, done_in_run = queue[finished:], 0
        may_share = may_share and len(left) > 1
        try:
            result = trainer.train(run, count)
        except _Stopped:
            yield from _in_processes(trainer, left, min(workers, len(left)), report)
            return
        yield position, result


def count_epochs(
    runs: Iterable[Run], on_epochs: Callable[[int, int], None] | None
) -> Callable[[int], None]:
    """Return a function that adds up epochs, and reports how many are done and of how many."""
    total, done = sum(run.config.epochs for run in runs), 0

    def count(epochs: int) -> None:
        nonlocal done
        done += epochs
        if on_epochs is not None:
            on_epochs(done, total)

    return count


SECONDS_OF_WORK = 15.0
"""Workers are started if more work than this is left: each takes seconds to import torch."""

_SECONDS_OF_TIMING = 0.2
"""CPU seconds for which epochs are timed before the work left is estimated."""


class _Stopped(Exception):
    """Raised to end a run: workers will train it, or the main process has stopped."""


def is_worth_sharing(seconds: float, done: int, left: int) -> bool:
    """Whether to start workers.

    Args:
        seconds: CPU seconds that this process has worked.
        done: Units of work that were done in this time.
        left: Units of work that are left.
    """
    return done > 0 and seconds >= _SECONDS_OF_TIMING and seconds / done * left > SECONDS_OF_WORK


def _in_processes(
    trainer: Trainer, queue: list[tuple[int, Run]], workers: int, report: Callable[[int], None]
) -> Generator[Result, None, None]:
    """Train in worker processes, while this process reports their progress."""
    context, reported = multiprocessing.get_context("spawn"), 0
    done, stop = context.Value("q", 0), context.Event()
    executor = ProcessPoolExecutor(workers, context, _start_worker, (trainer, done, stop))
    try:
        with _interrupts_held():
            pending = {executor.submit(_work, position, run) for position, run in queue}
        while pending:
            finished, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            before, reported = reported, done.value
            report(reported - before)
            for future in finished:
                yield future.result()
        report(done.value - reported)
    except BrokenProcessPool:
        raise WorkFailed(
            "a worker process died, most likely for lack of memory: use fewer --workers; "
            "finished runs are kept and --resume continues from them"
        ) from None
    finally:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C; workers started within the block never receive it, even while importing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: tuple[Trainer, Any, Any] | None = None


def _start_worker(trainer: Trainer, done: Any, stop: Any) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = (trainer, done, stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent is killed; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(position: int, run: Run) -> Result:
    assert _worker is not None
    trainer, done, stop = _worker

    def count(epochs: int) -> None:
        if stop.is_set():
            raise _Stopped
        with done.get_lock():
            done.value += epochs

    return position, trainer.train(run, count)
