"""How processes that were started anew find each other, and not the traces of those before.

After a restart ``torchrun`` may hand out the same key-value store again, in which the
addresses of the processes of before still stand. So the leading process opens a new round
in it, and the others go by that round once it has named them.
"""

from __future__ import annotations

import secrets
import time

from torch.distributed.distributed_c10d import PrefixStore, Store

from crossgcn.training.launch import Launch, LostProcess

__all__ = ["meet"]

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
