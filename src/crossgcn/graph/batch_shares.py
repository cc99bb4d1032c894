"""Which nodes make which batch, and which of them are whose."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.kernels.sampling import draw_key, shuffle

__all__ = ["BatchShares"]


class BatchShares:
    """Which nodes make which batch, and one process's part of each.

    Args:
        nodes: All of them, each once.
        batch_size: Nodes of a batch, in all processes together.
        seed: Decides on the order.
        shuffled: Have another order in each epoch; else the nodes' own in all.
        rank: Which process this is.
        world_size: Of how many.
    """

    def __init__(
        self,
        nodes: Tensor,
        batch_size: int,
        seed: int,
        shuffled: bool,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if batch_size < 1:
            raise BadInput(f"batch_size must be at least 1; got {batch_size}")
        if not 0 <= rank < world_size:
            raise BadInput(f"rank is from 0 to world_size - 1 = {world_size - 1}; got {rank}")
        if torch.unique(nodes).numel() < nodes.numel():
            raise BadInput("a node is named twice: give each once")
        self.nodes, self.batch_size, self.seed = nodes, batch_size, seed
        self._shuffled, self._rank, self._world_size = shuffled, rank, world_size

    def __len__(self) -> int:
        return -(-self.nodes.numel() // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, int]]:
        """This process's part of each batch of an epoch, and the size of the whole batch."""
        nodes = self.nodes
        if self._shuffled:
            nodes = torch.from_numpy(shuffle(nodes.numpy(), draw_key(self.seed, number)))
        for first in range(0, nodes.numel(), self.batch_size):
            batch = nodes[first : first + self.batch_size]
            yield batch.tensor_split(self._world_size)[self._rank], batch.numel()
