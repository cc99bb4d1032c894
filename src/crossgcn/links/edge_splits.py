"""Splits of edges into training, validation and test, with negative pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.links.settings import NUM_EDGE_SPLITS, TEST_SHARE, VALIDATION_SHARE, check_at_least


@dataclass(frozen=True)
class EdgeSplit:
    """Pairs of different nodes, ``[2, pairs]``, the lower node first; all sets are disjoint.

    The first three are edges, the negatives are pairs without an edge.
    """

    train: Tensor
    validation: Tensor
    test: Tensor
    validation_negatives: Tensor
    test_negatives: Tensor


class OtherPairs:
    """All pairs of different nodes except some, numbered without gaps for drawing.

    ``count`` is the number of the remaining pairs; the lower node of an excluded pair is first.
    """

    def __init__(self, num_nodes: int, *excluded: Tensor) -> None:
        numbers = np.unique(np.concatenate([_number_pairs(pairs.numpy()) for pairs in excluded]))
        self.count = num_nodes * (num_nodes - 1) // 2 - len(numbers)
        # The number of remaining pairs before each excluded one.
        self._left_before = numbers - np.arange(len(numbers))

    def draw(self, count: int, generator: np.random.Generator) -> Tensor:
        """Draw different pairs uniformly, ``[2, count]``."""
        places = generator.choice(self.count, count, replace=False, shuffle=False)
        numbers = places + np.searchsorted(self._left_before, places, side="right")
        return torch.from_numpy(_pairs_of_numbers(numbers))


def find_pairs(data: Data) -> Tensor:
    """Return every undirected edge between different nodes once, the lower node first."""
    edge_index: Tensor = data.edge_index
    return edge_index[:, edge_index[0] < edge_index[1]]


def make_edge_splits(
    data: Data,
    *,
    num_splits: int = NUM_EDGE_SPLITS,
    validation_share: float = VALIDATION_SHARE,
    test_share: float = TEST_SHARE,
    negatives: int = 1,
    seed: int = 0,
) -> list[EdgeSplit]:
    """Split the edges of a graph at random, several times.

    An edge is a pair of nodes: both its directions are in the same set. Self-loops are in no
    set. Negative pairs are drawn from the pairs that are not edges of the graph, without
    repetition. Split ``i`` depends on ``seed`` and ``i`` only, so more splits do not change the
    others.

    Args:
        data: A graph from :func:`~crossgcn.data.load_dataset` or
            :func:`~crossgcn.data.canonical_graph`.
        negatives: Negative pairs for each validation and test edge.
    """
    check_at_least(1, num_splits=num_splits, negatives=negatives)
    check_at_least(0, seed=seed)
    for name, share in (("validation_share", validation_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise BadInput(f"{name} is {share}; give a share of the edges between 0 and 1")
    if data.get("directed"):
        raise BadInput(
            f"{data.name}: its edges are directed, and links are pairs of nodes without a "
            "direction; import the graph without --directed"
        )
    pairs = find_pairs(data)
    num_edges = pairs.size(1)
    held_out = [max(1, round(share * num_edges)) for share in (validation_share, test_share)]
    if sum(held_out) >= num_edges:
        raise BadInput(
            f"{data.name}: of {num_edges} edges between different nodes, {held_out[0]} for "
            f"validation and {held_out[1]} for test leave none to train on; give a graph with more "
            "edges, or smaller shares"
        )
    others = OtherPairs(data.num_nodes, pairs)
    wanted = negatives * sum(held_out)
    if wanted >= others.count:
        raise BadInput(
            f"{data.name}: {wanted} negative pairs are asked for, and the graph has "
            f"{others.count} pairs without an edge; ask for fewer negatives, or give a graph with "
            "fewer edges"
        )
    splits = []
    for index in range(num_splits):
        generator = np.random.default_rng([seed, index])
        order = torch.from_numpy(generator.permutation(num_edges))
        validation, test, train = (
            pairs[:, chosen.sort().values]
            for chosen in order.tensor_split((held_out[0], sum(held_out)))
        )
        drawn = others.draw(wanted, generator)
        drawn = drawn[:, torch.from_numpy(generator.permutation(wanted))]
        cut = negatives * held_out[0]
        splits.append(EdgeSplit(train, validation, test, drawn[:, :cut], drawn[:, cut:]))
    return splits


def training_negatives(split: EdgeSplit, num_nodes: int) -> OtherPairs:
    """Return the pairs from which negative pairs for training are drawn.

    They contain no edge of the graph, and no pair that is scored for validation or test:
    training sees none of these, so that having been seen does not reveal a label.
    """
    return OtherPairs(num_nodes, *vars(split).values())


def deal_folds(pairs: Tensor, num_folds: int, generator: np.random.Generator) -> list[Tensor]:
    """Divide pairs at random into folds whose sizes differ by one at most."""
    order = torch.from_numpy(generator.permutation(pairs.size(1)))
    return [pairs[:, fold.sort().values] for fold in order.tensor_split(num_folds)]


def message_edges(data: Data, pairs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return ``edge_index`` and ``edge_weight`` of a graph with these edges and self-loops only.

    ``pairs [2, pairs]`` are edges of it, the lower node first; both directions are kept.
    """
    ends = data.edge_index.sort(dim=0).values.numpy()
    loops = ends[0] == ends[1]
    kept = loops | (np.isin(_number_pairs(ends), _number_pairs(pairs.numpy())) & ~loops)
    mask = torch.from_numpy(kept)
    weight: Tensor | None = data.get("edge_weight")
    return data.edge_index[:, mask], None if weight is None else weight[mask]


def _number_pairs(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the pairs (0, 1), (0, 2), (1, 2), (0, 3), ... from 0."""
    lower, upper = pairs
    numbers: NDArray[np.int64] = upper * (upper - 1) // 2 + lower
    return numbers


def _pairs_of_numbers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    upper = ((1 + np.sqrt(1 + 8 * numbers.astype(np.float64))) / 2).astype(np.int64)
    # The root of a large number may be off by one either way.
    upper -= upper * (upper - 1) // 2 > numbers
    upper += upper * (upper + 1) // 2 <= numbers
    return np.stack([numbers - upper * (upper - 1) // 2, upper])
