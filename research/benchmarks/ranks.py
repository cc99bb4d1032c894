"""Mini-batch training with two single-threaded processes against one, on a graph on disk.

Both sides use the same batches. Training steps are timed, including sampling; the start of
processes is not. Before timing, both sides run the same steps without dropout and must reach the
same loss.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from crossgcn.data.datasets.generated import large_graph
from crossgcn.errors import WorkFailed
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.rank_worker import Work
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Timing, ratio_of

SIDES: Final = {1: "1 process", 2: "2 processes"}
WORKER: Final = Path(__file__).parent / "harness" / "rank_worker.py"
SAME_LOSS: Final = 1e-4

Run = Callable[[Work, int], dict[str, Any]]


def measure(options: Options) -> Measurement:
    """Draw a graph and time training on it."""
    nodes, edges, steps = (20_000, 200_000, 6) if options.quick else (1_000_000, 10_000_000, 40)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "graph"
        options.show("drawing a graph", 0, 1)
        large_graph(folder, nodes, edges, 128, 16, seed=options.seed)
        work = Work(str(folder), 1024, (10, 10), 64, steps, options.seed)
        return measure_ranks(work, f"{nodes:,} nodes, batches of {work.batch_size}", options)


def measure_ranks(work: Work, case: str, options: Options, run: Run | None = None) -> Measurement:
    """Time both sides in turns.

    Args:
        work: The work of both sides.
        case: Name of the case.
        run: Runs the work in a number of processes; with ``torchrun`` if omitted.
    """
    run = run or start
    seconds: dict[int, list[float]] = {number: [] for number in SIDES}
    losses: dict[int, float] = {}
    for done in range(options.rounds):
        options.show(case, done, options.rounds)
        for number in sorted(SIDES, reverse=done % 2 == 1):
            found = run(work, number)
            losses[number] = found["loss"]
            seconds[number].append(found["seconds"])
        apart = abs(losses[1] - losses[2]) / losses[1]
        check = Check(case, "losses of 1 and 2 processes", apart, SAME_LOSS).require()
    timings = {
        name: Timing(case, name, tuple(seconds[number]), work.steps, 1)
        for number, name in SIDES.items()
    }
    targets = work.steps * work.batch_size
    rates = ", ".join(f"{name} {targets / timing.median:,.0f}" for name, timing in timings.items())
    return Measurement(
        results=[ratio_of(timings, SIDES[1], SIDES[2], what="one process")],
        timings=list(timings.values()),
        checks=[check],
        notes=[
            f"training nodes per second, each with {','.join(map(str, work.fanouts))} drawn "
            f"neighbours per hop: {rates}; seconds are of all {work.steps} steps",
        ],
    )


def start(work: Work, processes: int) -> dict[str, Any]:
    """Run the work in a number of single-threaded processes.

    Raises:
        WorkFailed: If a process fails.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), str(WORKER), json.dumps(asdict(work))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorkFailed(f"{processes} processes failed: {done.stderr.strip()[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    main("ranks", measure)
