"""Many small launches on a GPU as one."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["WARM_UPS", "capture"]

WARM_UPS = 3
"""How often a function is called before it is recorded."""


def capture(
    function: Callable[[], None], restart: Callable[[], None], device: torch.device
) -> Callable[[], None]:
    """Record what a function launches on the GPU, to be launched again as a whole.

    Args:
        function: Works in place on tensors that stay where they are, waits for nothing
            and does the same at every call.
        restart: Undoes the calls that warm the function up.
        device: The GPU.

    Returns:
        What does the function's work at every call.
    """
    with torch.cuda.device(device):
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        restart()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
    replay: Callable[[], None] = graph.replay
    return replay
