"""The rank that ``torchrun`` gives each process. Nothing here imports torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from crossgcn.errors import BadInput, WorkFailed

_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_NAMES = (*_NUMBERS, "MASTER_ADDR", "MASTER_PORT")


class LostProcess(WorkFailed):
    """Another process of the same training has ended, and this one cannot continue alone."""


@dataclass(frozen=True)
class Launch:
    """The rank of this process among those that train together.

    Attributes:
        restarts: How often ``torchrun`` has restarted the processes.
        restarts_left: How often it would restart them again.
    """

    rank: int
    world_size: int
    local_rank: int
    restarts: int = 0
    restarts_left: int = 0

    @property
    def name(self) -> str:
        """For messages."""
        return f"process {self.rank} of {self.world_size}"


def find_launch(environment: Mapping[str, str] | None = None) -> Launch | None:
    """Read the variables that ``torchrun`` sets; ``None`` in a process that it did not start."""
    values = os.environ if environment is None else environment
    if not all(name in values for name in _NAMES):
        return None
    try:
        rank, world_size, local_rank = (int(values[name]) for name in _NUMBERS)
    except ValueError:
        rank, world_size, local_rank = -1, 0, 0
    if not 0 <= rank < world_size or not 0 <= local_rank < world_size:
        raise BadInput(
            f"the environment says RANK={values['RANK']}, WORLD_SIZE={values['WORLD_SIZE']} and "
            f"LOCAL_RANK={values['LOCAL_RANK']}, which are not ranks of processes: start with "
            "torchrun, or unset them"
        )
    restarts = _number(values, "TORCHELASTIC_RESTART_COUNT")
    left = max(0, _number(values, "TORCHELASTIC_MAX_RESTARTS") - restarts)
    return Launch(rank, world_size, local_rank, restarts, left)


def _number(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "0")
    return int(text) if text.isdecimal() else 0
