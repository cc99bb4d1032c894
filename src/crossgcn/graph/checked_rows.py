"""A graph's rows, checked as they are read: a file may have changed since it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.data.stored.changed_file import changed_file
from crossgcn.errors import BadInput
from crossgcn.graph.graph_source import GraphSource
from crossgcn.kernels.sampling import NoRow, loops

__all__ = ["CheckedRows"]

Array = NDArray[Any]


class CheckedRows:
    """Reads rows of a graph, and refuses those that would lead out of its arrays.

    Only what is read is looked at, so the arrays may be memory-mapped.

    Args:
        offsets: Start of each node's neighbours, ``[nodes + 1]``, int64.
        neighbours: All of them, int32 or int64.
        folder: The graph folder they are from, for messages.
    """

    def __init__(self, offsets: Tensor, neighbours: Tensor, folder: Path | None = None) -> None:
        self._offsets, self._neighbours, self._folder = offsets, neighbours, folder

    @classmethod
    def of(cls, source: GraphSource) -> CheckedRows:
        """The rows of a graph."""
        return cls(source.offsets, source.neighbours, getattr(source, "folder", None))

    @property
    def num_nodes(self) -> int:
        """One row each."""
        return self._offsets.numel() - 1

    def draw(
        self, nodes: Array, fanout: int, key: int, skip_own: bool
    ) -> tuple[Array, Array, Array]:
        """See :func:`~crossgcn.kernels.plain_sampling.draw_entries`.

        Returns:
            Where the drawn of each node start, their entries, and the neighbours themselves.
        """
        offsets, neighbours = self._arrays()
        try:
            starts, entries = loops().draw_entries(
                offsets, neighbours, nodes, fanout, key, skip_own
            )
        except NoRow as error:
            self._refuse_row(error.node)
        drawn = neighbours[entries]
        self._check(drawn)
        return starts, entries, drawn

    def find_own(self, nodes: Array) -> Array:
        """See :func:`~crossgcn.kernels.plain_sampling.find_own`."""
        try:
            own: Array = loops().find_own(*self._arrays(), nodes)
        except NoRow as error:
            self._refuse_row(error.node)
        return own

    def weigh(self, weights: Array, own: bool, first: int, last: int) -> Array:
        """See :func:`~crossgcn.kernels.plain_sampling.row_weights`."""
        try:
            total: Array = loops().row_weights(*self._arrays(), weights, own, first, last)
        except NoRow as error:
            self._refuse_row(error.node)
        return total

    def check_all(self) -> None:
        """Look at every row, where all are about to be read anyway."""
        offsets, neighbours = self._arrays()
        wrong = (offsets[1:] < offsets[:-1]) | (offsets[1:] > neighbours.size)
        wrong[:1] |= offsets[:1] != 0
        wrong[-1:] |= offsets[-1:] != neighbours.size
        if wrong.any():
            self._refuse_row(int(wrong.argmax()))
        self._check(neighbours)

    def _arrays(self) -> tuple[Array, Array]:
        return self._offsets.numpy(), self._neighbours.numpy()

    def _check(self, neighbours: Array) -> None:
        # As unsigned numbers, negative ones are larger than any node: one pass finds both.
        unsigned = neighbours.view(np.uint32 if neighbours.itemsize == 4 else np.uint64)
        if unsigned.size and unsigned.max() >= self.num_nodes:
            node = int(neighbours[unsigned.argmax()])
            self._refuse("neighbours", f"node {node} is none of {self.num_nodes:,}")

    def _refuse_row(self, node: int) -> NoReturn:
        first, end = self._offsets[node : node + 2].tolist()
        size = self._neighbours.numel()
        self._refuse("offsets", f"row {node} is from {first} to {end} of {size:,} neighbours")

    def _refuse(self, array: str, what: str) -> NoReturn:
        if self._folder is None:
            raise BadInput(f"{array} are of no graph: {what}; see GraphSource for what they hold")
        raise changed_file(self._folder, array, what)
