"""A graph made ready once, for any number of models trained on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeGuard

import numpy as np
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.matrix import DenseFeatures, Inputs, SparseMatrix
from crossgcn.graph.normalise import EdgeKind, edges_of_kind
from crossgcn.graph.sampling.blocks import BlockMaker
from crossgcn.graph.sampling.source import Features, GraphSource
from crossgcn.kernels import has_triton


@dataclass(frozen=True)
class ReceptiveField:
    """What a stack of graph convolutions must compute to know its output at some nodes.

    Attributes:
        input_rows: The nodes whose features enter the first layer.
        blocks: One rectangular piece of the adjacency per propagation, first to
            last; the last one's rows are the target nodes in the order given. Each
            row's own node is among the columns, and ``own`` says where, unless rows and
            columns are the same nodes.
    """

    input_rows: Tensor
    blocks: tuple[SparseMatrix, ...]


def receptive_field(hops: Sequence[SparseMatrix], targets: Tensor) -> ReceptiveField:
    """Cut a graph down to what some propagations need to reach ``targets``.

    Nothing is sampled or approximated: running a model over the blocks gives
    the same rows, and the same gradients, as running it over the whole graph
    and reading off ``targets``.

    Args:
        hops: The whole graph as each propagation sees it, first to last; row ``i`` sums
            into node ``i``. None for a model that looks at no neighbour.
        targets: The nodes whose outputs are wanted.
    """
    rows = targets.numpy()
    blocks: list[SparseMatrix] = []
    for adjacency in reversed(hops):
        everyone = np.arange(adjacency.shape[1])
        if np.array_equal(rows, everyone):
            blocks.append(adjacency)
            continue
        block = adjacency.to_scipy()[rows]
        reached = np.zeros(everyone.size, dtype=bool)
        reached[block.indices] = reached[rows] = True
        needed = reached.nonzero()[0]
        if needed.size < everyone.size:
            block = block[:, needed]
        blocks.append(SparseMatrix.from_scipy(block))
        if not np.array_equal(needed, rows):
            blocks[-1].own = torch.from_numpy(np.searchsorted(needed, rows))
        rows = needed
    return ReceptiveField(torch.from_numpy(rows.astype(np.int64)), tuple(reversed(blocks)))


class PreparedGraph:
    """Features and normalised adjacency, and the piece of both that some nodes need.

    Sparse features stay sparse and the adjacency is normalised here, once.

    Args:
        x: Node features, dense ``[nodes, features]`` or ``torch.sparse_csr``.
        edge_index: Sources and targets, ``[2, edges]``.
        edge_weight: One weight per edge; all one when left out.
        dtype: Of features and adjacency; features as they are, and 32 bits, when left out.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        if dtype is not None:
            self.x = _cast(self.x, dtype)
        self._make: Callable[[EdgeKind], SparseMatrix] = partial(
            edges_of_kind,
            edge_index=edge_index,
            num_nodes=x.size(0),
            edge_weight=edge_weight,
            dtype=dtype or torch.float32,
        )
        self._kinds: dict[EdgeKind, SparseMatrix] = {}
        self.adjacency = self.edges("gcn")

    @classmethod
    def from_source(cls, source: GraphSource) -> Self:
        """A graph that is there by rows, which are weighed as they are: none is sorted again.

        Args:
            source: A graph in memory or on disk; it is read as a whole.
        """
        graph = cls.__new__(cls)
        graph.x = source.features(torch.arange(source.num_nodes))
        graph._make = BlockMaker(source).whole
        graph._kinds = {}
        graph.adjacency = graph.edges("gcn")
        return graph

    def edges(self, kind: EdgeKind) -> SparseMatrix:
        """The adjacency as :func:`~crossgcn.graph.edges_of_kind` makes it, made once."""
        if kind not in self._kinds:
            self._kinds[kind] = self._make(kind)
        return self._kinds[kind]

    def view(
        self, targets: Tensor, hops: int | Sequence[EdgeKind]
    ) -> tuple[Features, tuple[SparseMatrix, ...]]:
        """Inputs of a model that give it just ``targets``.

        Args:
            targets: The nodes whose outputs are wanted.
            hops: The model's ``propagations``; a number of them is that many of GCN's.

        Returns:
            Features of the nodes in the receptive field, and one adjacency
            block per propagation: ``model(*view)`` has a row per target.
        """
        whole = (
            [self.adjacency] * hops
            if isinstance(hops, int)
            else [self.edges(kind) for kind in hops]
        )
        field = receptive_field(whole, targets)
        if field.input_rows.equal(torch.arange(self.x.size(0))):
            return self.x, field.blocks
        if isinstance(self.x, SparseMatrix):
            return self.x.select_rows(field.input_rows), field.blocks
        return self.x[field.input_rows], field.blocks


def _cast(x: Features, dtype: torch.dtype) -> Features:
    return x.with_values(x.values.to(dtype)) if isinstance(x, SparseMatrix) else x.to(dtype)


_MOST_ROWS = 128 * 65535


def choose_device(name: str | torch.device) -> torch.device:
    """A device by name; ``"auto"`` is a GPU where there is one.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise BadInput(f"device is {name!r}; give 'auto', 'cpu' or 'cuda'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BadInput(
            f"device is {name!r}, but torch sees {torch.cuda.device_count()} CUDA devices; "
            "give 'cpu', or install a CUDA build of torch where there is a GPU"
        )
    return device


def move_inputs(inputs: Inputs, device: torch.device) -> Inputs:
    """What a model takes, on a device.

    Sparse features stay sparse; the dense ones of one model become
    :class:`~crossgcn.graph.DenseFeatures` on a GPU.

    Args:
        inputs: From :meth:`~crossgcn.graph.PreparedGraph.view`, or stacked.
        device: Where to.
    """
    x, blocks = inputs
    assert not isinstance(x, DenseFeatures)
    moved: Tensor | SparseMatrix | DenseFeatures = x.to(device)
    if device.type == "cuda" and _is_one_models(moved) and has_triton():
        moved = DenseFeatures(moved)
    return moved, tuple(block.to(device) for block in blocks)


def _is_one_models(x: object) -> TypeGuard[Tensor]:
    """Whether these are dense features of one model, and no more rows than a launch can have."""
    return (
        isinstance(x, Tensor)
        and x.dim() == 3
        and x.size(0) == 1
        and x.size(1) < _MOST_ROWS
        and x.dtype == torch.float32
    )
