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
"""The position of a run, and its record, or why it diverged."""


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
    """Train runs, except those whose records are on disk already; yield each when it is done.

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
    if trainer.device.type == "cuda" or min(workers, len(queue)) < 2:
        for position, run in queue:
            yield position, trainer.train(run, report)
    else:
        yield from _share(trainer, queue, workers, report)


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
"""From this much work left, other processes are started: each imports torch for seconds first."""

_SECONDS_OF_LOOKING = 0.2
"""Epochs are timed this long before the work left is estimated, all in CPU time."""


class _Stopped(Exception):
    """End this run: other processes train it, or the main process has stopped."""


def is_worth_sharing(seconds: float, done: int, left: int) -> bool:
    """Whether other processes should be started, after some CPU seconds of work in this one.

    Args:
        done: Units of work that were done in these seconds.
        left: Units of work that are left.
    """
    return done > 0 and seconds >= _SECONDS_OF_LOOKING and seconds / done * left > SECONDS_OF_WORK


def _share(
    trainer: Trainer, queue: list[tuple[int, Run]], workers: int, report: Callable[[int], None]
) -> Generator[Result, None, None]:
    """Train in this process until much work is left; then start others, and leave it to them."""
    total, done, of_run = sum(run.config.epochs for _, run in queue), 0, 0
    timed: tuple[float, int] | None = None  # the first epoch compiles and reads caches

    def count(epochs: int) -> None:
        nonlocal done, of_run, timed
        done, of_run, now = done + epochs, of_run + epochs, time.process_time()
        report(epochs)
        timed = timed or (now, done)
        if is_worth_sharing(now - timed[0], done - timed[1], total - done):
            report(-of_run)
            raise _Stopped

    for finished, (position, run) in enumerate(queue):
        of_run = 0
        try:
            result = trainer.train(run, count)
        except _Stopped:
            left = queue[finished:]
            yield from _in_processes(trainer, left, min(workers, len(left)), report)
            return
        yield position, result


def _in_processes(
    trainer: Trainer, queue: list[tuple[int, Run]], workers: int, report: Callable[[int], None]
) -> Generator[Result, None, None]:
    """Train in other processes, while this one reports what they have done."""
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
    """Delay Ctrl-C; workers started meanwhile never see it, not even while importing."""
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
    """End this worker when its parent is killed; it would wait for work for ever."""
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
