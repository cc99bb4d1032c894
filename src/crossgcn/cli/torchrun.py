"""``torchrun -m crossgcn train``: one command in several processes, of which one speaks."""

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
    """Whether this process prints and writes; one that is alone does."""
    launch = find_launch()
    return launch is None or launch.rank == 0


def refuse_other_commands(arguments: Sequence[str]) -> None:
    """Refuse what several processes would each do as a whole.

    Args:
        arguments: Of the command line, the program's name first.

    Raises:
        BadInput: If ``torchrun`` started several processes for it.
    """
    launch = find_launch()
    if launch is None or launch.world_size == 1:
        return
    if set(SHARED_COMMANDS).isdisjoint(arguments[1:2]):
        raise BadInput(
            f"{' '.join(arguments[1:2]) or 'this'} cannot be shared by {launch.world_size} "
            f"processes, {' and '.join(SHARED_COMMANDS)} can: leave out torchrun"
        )


def refuse_unjoined(world_size: int) -> None:
    """Refuse work that each process would do as a whole, as no one has joined them for it.

    Args:
        world_size: How many have been joined.

    Raises:
        BadInput: If ``torchrun`` started more.
    """
    launch = find_launch()
    if launch is not None and launch.world_size > world_size:
        raise BadInput(
            f"compare with tables cannot be shared by {launch.world_size} processes: leave out "
            "torchrun"
        )


def message_of(error: CrossGCNError, launch: Launch | None) -> str | None:
    """What this process says of an error; ``None`` where another one says it.

    Input that cannot be used and a process that is lost are seen by all: the first on each
    machine speaks. What failed here alone is said here.
    """
    if launch is None or launch.world_size == 1:
        return str(error)
    if isinstance(error, BadInput | LostProcess) and launch.local_rank > 0:
        return None
    return str(error) if launch.rank == 0 else f"{launch.name}: {error}"


@contextmanager
def join_others(configs: Sequence[RunConfig], run: RunOptions) -> Iterator[RunOptions]:
    """Meet the processes that share the work, if there are any.

    Within the block only the leading one writes. After it, the others are done.

    Args:
        configs: What is to be trained.
        run: The user's options.

    Yields:
        The options with this process's device; a command that was started anew resumes.

    Raises:
        BadInput: If the work cannot be shared.
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
                f"{launch.world_size} processes were started, and they share batches: give "
                "--batch-size, or leave out torchrun (--workers shares full-batch runs)"
            )
    if run.out is None:
        raise BadInput(
            "torchrun may start processes anew, and they must find their folder again: give --out"
        )
    from crossgcn.training.distributed import joined_processes, process_device

    device = process_device(run.device, launch)
    with joined_processes(launch, device) as group:
        resume = run.resume or group.most(launch.restarts) > 0
        yield replace(run, device=str(device), workers=1, resume=resume)
    if launch.rank > 0:
        raise typer.Exit(0)
