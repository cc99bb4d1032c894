"""Several processes that train one model, on one machine or on several.

``torchrun`` starts them and tells each its place (:mod:`~crossgcn.training.launch`). They
speak through ``torch.distributed``: NCCL between GPUs, gloo between CPUs and for all that is
not a tensor on a GPU. Objects travel as JSON, never as pickles.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from crossgcn.errors import BadInput, CrossGCNError
from crossgcn.graph.prepared import choose_device
from crossgcn.training.launch import Launch, LostProcess

_PAUSE = 0.05


def meet(store: Store, launch: Launch, timeout: float) -> Store:
    """A part of the store that only the processes of this start use.

    Args:
        store: One that all processes reach; it may hold anything.
        launch: This process's place.
        timeout: Seconds to wait for the others.

    Raises:
        LostProcess: If they do not come.
    """
    token, end = secrets.token_hex(8), time.monotonic() + timeout
    if launch.rank == 0:
        number = store.add("crossgcn/round", 1)
        names = [token]
        for rank in range(1, launch.world_size):
            _wait_for(store, f"crossgcn/{number}/{rank}", end, launch)
            names.append(store.get(f"crossgcn/{number}/{rank}").decode())
        store.set(f"crossgcn/{number}/all", ",".join(names))
        return PrefixStore(f"crossgcn/{number}/work", store)
    while True:
        number = store.add("crossgcn/round", 0)
        store.set(f"crossgcn/{number}/{launch.rank}", token)
        everyone = f"crossgcn/{number}/all"
        if store.check([everyone]) and token in store.get(everyone).decode().split(","):
            return PrefixStore(f"crossgcn/{number}/work", store)
        _pause(end, launch)


def _wait_for(store: Store, key: str, end: float, launch: Launch) -> None:
    while not store.check([key]):
        _pause(end, launch)


def _pause(end: float, launch: Launch) -> None:
    if time.monotonic() > end:
        raise LostProcess(
            f"{launch.name} waited in vain for the others: look for their messages, and start "
            f"all {launch.world_size} again"
        )
    time.sleep(_PAUSE)


TIMEOUT = "CROSSGCN_PROCESS_TIMEOUT"
"""Environment variable: seconds after which a process that says nothing counts as lost."""

_SECONDS = 600.0
_SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe", "tcpstore")

State = dict[str, Tensor]


@dataclass(frozen=True)
class Processes:
    """The processes of this training, as one of them sees them.

    Attributes:
        rank: This one's number, from 0.
        world_size: How many there are; with one, nothing is sent anywhere.
    """

    rank: int = 0
    world_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the one that prints and writes."""
        return self.rank == 0

    def add_up(self, values: Tensor) -> Tensor:
        """The sum over all processes, in all of them."""
        if self.world_size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def most(self, number: int) -> int:
        """The largest number of any process."""
        if self.world_size == 1:
            return number
        largest = torch.tensor([number])
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def share(self, make: Callable[[], Any]) -> Any:
        """What the leading process makes, in all of them.

        Args:
            make: Called there only; gives something that JSON can hold.
        """
        if self.world_size == 1:
            return make()
        content = json.dumps(make()).encode() if self.leads else b""
        size = torch.tensor([len(content)])
        dist.broadcast(size, 0)
        text = torch.zeros(int(size), dtype=torch.uint8)
        if self.leads:
            text = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        dist.broadcast(text, 0)
        return json.loads(text.numpy().tobytes())

    def share_tensors(self, state: State | None) -> State | None:
        """The leading process's tensors, in all of them; ``None`` where it has none.

        Args:
            state: On the CPU; not looked at in the other processes.
        """
        if self.world_size == 1:
            return state

        def describe() -> dict[str, Any] | None:
            if state is None:
                return None
            return {
                name: [str(value.dtype).removeprefix("torch."), list(value.shape)]
                for name, value in state.items()
            }

        kinds = self.share(describe)
        if kinds is None:
            return None
        shared = {}
        for name, (dtype, shape) in kinds.items():
            if self.leads:
                assert state is not None
                shared[name] = state[name].contiguous()
            else:
                shared[name] = torch.empty(shape, dtype=getattr(torch, dtype))
            if shared[name].numel():
                dist.broadcast(shared[name], 0)
        return shared

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model, whose gradients are averaged over the processes as they are computed.

        All processes start from the leading one's weights.
        """
        if self.world_size == 1 or not any(p.requires_grad for p in model.parameters()):
            return model
        # No buffer changes in training.
        return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


def processes() -> Processes:
    """Those that were joined; this one alone where none were."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes()


def process_device(name: str, launch: Launch) -> torch.device:
    """Where one of several processes trains: each has a GPU of its machine to itself.

    Args:
        name: ``auto``, ``cpu`` or ``cuda``.
        launch: This process's place.

    Raises:
        BadInput: If there are more processes than GPUs, or one GPU is named for all.
    """
    device = choose_device(name)
    if device.type != "cuda" or launch.world_size == 1:
        return device
    if ":" in name:
        raise BadInput(
            f"--device {name} names one GPU for {launch.world_size} processes: give --device cuda, "
            "and each takes its own"
        )
    if launch.local_rank >= torch.cuda.device_count():
        raise BadInput(
            f"{launch.name} is number {launch.local_rank} on this machine, which has "
            f"{torch.cuda.device_count()} GPUs: give torchrun --nproc-per-node "
            f"{torch.cuda.device_count()}, or --device cpu"
        )
    return torch.device("cuda", launch.local_rank)


@contextmanager
def joined_processes(launch: Launch, device: torch.device) -> Iterator[Processes]:
    """Meet the other processes, and part from them at the end.

    Args:
        launch: This process's place.
        device: Where it trains.

    Raises:
        LostProcess: If they cannot be met, or if one is lost within the block.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with lost_processes_named():
        timeout = timedelta(seconds=_timeout())
        store, _, _ = next(rendezvous("env://", timeout=timeout))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            timeout=timeout,
            store=meet(store, launch, timeout.total_seconds()),
            rank=launch.rank,
            world_size=launch.world_size,
        )
        yield processes()
        # Not after an error: it would wait for those that are lost.
        dist.destroy_process_group()


@contextmanager
def lost_processes_named() -> Iterator[None]:
    """Turn what gloo and NCCL say of a connection that broke into one line."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if isinstance(error, CrossGCNError) or not _is_of_others(error):
            raise
        raise LostProcess(
            "another process of this training ended or cannot be reached; what is on disk is "
            "kept, and the same command with --resume continues, on any number of processes"
        ) from None


def _is_of_others(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(sign in text for sign in _SIGNS)


def _timeout() -> float:
    text = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"{TIMEOUT} is {text!r}; give a number of seconds, or unset it")
    return seconds
