"""Edges given as arrays: refused where they make no graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput

__all__ = ["MOST_NODES", "check_ends", "check_weight"]

MOST_NODES = 2**32
"""Both ends of an edge make one key of 64 bits."""


def check_ends(
    source: NDArray[Any], target: NDArray[Any], num_nodes: int | None, before: int
) -> None:
    """Refuse ends that are no nodes.

    Args:
        source: First ends.
        target: Second ends.
        num_nodes: How many nodes there are, where that is known.
        before: Edges that came before these.

    Raises:
        BadInput: Naming the edge and the node.
    """
    most = MOST_NODES if num_nodes is None else num_nodes
    for end in (source, target):
        if end.shape != source.shape or end.ndim != 1 or end.dtype.kind not in "iu":
            raise BadInput(
                f"ends of edges are {end.dtype} {list(end.shape)}; give integers, as many targets "
                "as sources"
            )
        if not len(end) or (end.min() >= 0 and end.max() < most):
            continue
        at = int(np.flatnonzero((end < 0) | (end >= most))[0])
        raise BadInput(
            f"edge {before + at} ends in node {int(end[at])}, which does not exist; "
            f"nodes are numbered from 0 to {most - 1:,}"
        )


def check_weight(
    weight: NDArray[np.float32] | None, weighted: bool, num_edges: int, before: int
) -> None:
    """Refuse weights that are none.

    Args:
        weight: Of each edge, if they have any.
        weighted: Whether they should.
        num_edges: How many edges there are.
        before: Edges that came before these.

    Raises:
        BadInput: Naming the edge and its weight.
    """
    if weighted != (weight is not None):
        raise BadInput("some edges have weights and some have none; give every edge one, or none")
    if weight is None:
        return
    if weight.shape != (num_edges,):
        raise BadInput(f"weights are {list(weight.shape)} for {num_edges} edges; give each one")
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(
            f"edge {before + at} weighs {float(weight[at])}; weights are finite and not negative"
        )
