"""Several processes that train one model, on one machine or on several.

``torchrun`` starts them and tells each its rank (:mod:`~crossgcn.training.launch`). They
communicate by ``torch.distributed``: NCCL for tensors on GPUs, gloo for everything else. Objects
are sent as JSON, never as pickles.
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
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from crossgcn.errors import BadInput, CrossGCNError
from crossgcn.graph.prepared import choose_device
from crossgcn.training.launch import Launch, LostProcess

_PAUSE = 0.05


def _store_of_this_start(store: Store, launch: Launch, timeout: float) -> Store:
    """Return a part of the store that only the processes of this start use.

    ``torchrun`` keeps its store when it restarts processes, with the keys of those before; and
    its count of restarts, which could tell them apart, differs between machines. So the first
    process numbers the starts and waits, up to ``timeout`` seconds, until the others joined.
    """
    token, end = secrets.token_hex(8), time.monotonic() + timeout
    if launch.rank == 0:
        number = store.add("crossgcn/round", 1)
        names = [token]
        for rank in range(1, launch.world_size):
            while not store.check([f"crossgcn/{number}/{rank}"]):
                _pause(end, launch)
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


def _pause(end: float, launch: Launch) -> None:
    if time.monotonic() > end:
        raise LostProcess(
            f"{launch.name} waited in vain for the others: look for their messages, and start "
            f"all {launch.world_size} again"
        )
    time.sleep(_PAUSE)


TIMEOUT = "CROSSGCN_PROCESS_TIMEOUT"
"""Environment variable: seconds after which a silent process counts as lost."""

_SECONDS = 600.0
_SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe", "tcpstore")

State = dict[str, Tensor]


@dataclass(frozen=True)
class Processes:
    """The processes of this training; with one, nothing is sent."""

    rank: int = 0
    world_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process prints and writes files."""
        return self.rank == 0

    def add_up(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, in all of them."""
        if self.world_size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def most(self, number: int) -> int:
        """Return the largest number of any process."""
        if self.world_size == 1:
            return number
        largest = torch.tensor([number])
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def share(self, make: Callable[[], Any]) -> Any:
        """Return in all processes what ``make`` returns in the leading one, as JSON."""
        if self.world_size == 1:
            return make()
        return json.loads(self._share_bytes(json.dumps(make()).encode() if self.leads else b""))

    def share_tensors(self, state: State | None) -> State | None:
        """Return the leading process's tensors, on the CPU, in all; ``None`` if it has none."""
        if self.world_size == 1:
            return state
        content = self._share_bytes(b"" if state is None else tensors_to_bytes(state))
        return tensors_from_bytes(content) if content else None

    def _share_bytes(self, content: bytes) -> bytes:
        size = torch.tensor([len(content)])
        dist.broadcast(size, 0)
        if not int(size):
            return b""
        buffer = torch.frombuffer(bytearray(content or int(size)), dtype=torch.uint8)
        dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with gradients that are averaged over the processes.

        All processes start from the weights of the leading one.
        """
        if self.world_size == 1 or not any(p.requires_grad for p in model.parameters()):
            return model
        # Buffers do not change in training.
        return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


def processes() -> Processes:
    """Return the processes that were joined; this one alone if none were."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes()


def process_device(name: str, launch: Launch) -> torch.device:
    """Return where a process trains: each has a GPU of its machine to itself."""
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
    """Join the other processes, and leave them at the end of the block."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with lost_processes_named():
        timeout = timedelta(seconds=_timeout())
        store, _, _ = next(rendezvous("env://", timeout=timeout))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            timeout=timeout,
            store=_store_of_this_start(store, launch, timeout.total_seconds()),
            rank=launch.rank,
            world_size=launch.world_size,
        )
        yield processes()
        # Not after an error: it would wait for lost processes.
        dist.destroy_process_group()


@contextmanager
def lost_processes_named() -> Iterator[None]:
    """Turn the errors of gloo and NCCL about a broken connection into one line."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        named = any(sign in str(error).lower() for sign in _SIGNS)
        if isinstance(error, CrossGCNError) or not (isinstance(error, dist.DistError) or named):
            raise
        raise LostProcess(
            "another process of this training ended or cannot be reached; what is on disk is "
            "kept, and the same command with --resume continues, on any number of processes"
        ) from None


def _timeout() -> float:
    text = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"{TIMEOUT} is {text!r}; give a number of seconds, or unset it")
    return seconds
