"""``torchrun -m crossgcn train``: one command in several processes, the first of which prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from crossgcn.errors import BadInput, CrossGCNError
from crossgcn.training.launch import Launch, LostProcess, find_launch

if TYPE_CHECKING:
    from crossgcn.cli.options import RunOptions
    from crossgcn.training.config import RunConfig

SHARED_COMMANDS = ("train", "compare")


def leads() -> bool:
    """Whether this process prints and writes: the first one, or the only one."""
    launch = find_launch()
    return launch is None or launch.rank == 0


def refuse_other_commands(arguments: Sequence[str]) -> None:
    """Refuse a command line, the program's name first, that several processes cannot share."""
    launch = find_launch()
    if launch is None or launch.world_size == 1:
        return
    if set(SHARED_COMMANDS).isdisjoint(arguments[1:2]):
        raise BadInput(
            f"{' '.join(arguments[1:2]) or 'this'} cannot be shared by {launch.world_size} "
            f"processes, {' and '.join(SHARED_COMMANDS)} can: leave out torchrun"
        )


def refuse_unjoined(world_size: int) -> None:
    """Refuse work if ``torchrun`` started more processes than were joined."""
    launch = find_launch()
    if launch is not None and launch.world_size > world_size:
        raise BadInput(
            f"compare with tables cannot be shared by {launch.world_size} processes: leave out "
            "torchrun"
        )


def message_of(error: CrossGCNError, launch: Launch | None) -> str | None:
    """Return what this process prints about an error; ``None`` if another one prints it.

    All processes see bad input and a lost process, so the first one on each machine prints these.
    Other failures are printed by the process in which they happened.
    """
    if launch is None or launch.world_size == 1:
        return str(error)
    if isinstance(error, BadInput | LostProcess) and launch.local_rank > 0:
        return None
    return str(error) if launch.rank == 0 else f"{launch.name}: {error}"


@contextmanager
def join_others(configs: Sequence[RunConfig], run: RunOptions) -> Iterator[RunOptions]:
    """Join the processes that ``torchrun`` started, if any.

    Within the block only the first process writes; after the block the others exit.

    Yields:
        The options with the device of this process. A restarted command resumes.
    """
    launch = find_launch()
    if launch is None:
        yield run
        return
    if launch.world_size == 1:
        yield replace(run, resume=run.resume or (run.out is not None and launch.restarts > 0))
        return
    for config in configs:
        if config.batch_size is None:
            raise BadInput(
                f"{launch.world_size} processes were started, and processes share batches: give "
                "--batch-size, or leave out torchrun (--workers shares full-batch runs)"
            )
    if run.out is None:
        raise BadInput(
            "torchrun may restart processes, which must find their folder again: give --out"
        )
    from crossgcn.training.distributed import joined_processes, process_device

    device = process_device(run.device, launch)
    with joined_processes(launch, device) as group:
        resume = run.resume or group.most(launch.restarts) > 0
        yield replace(run, device=str(device), workers=1, resume=resume)
    if launch.rank > 0:
        raise typer.Exit(0)
