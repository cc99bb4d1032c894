r"""The strongest pairs of features, exactly, without listing all of them.

A class weighs the pair :math:`x_ix_j` by :math:`\sum_r a_r(p_{ri}q_{rj} + p_{rj}q_{ri})`, which
is at most :math:`\|\mathbf{u}_i\|\|\mathbf{u}_j\|` with :math:`\mathbf{u}` the two factors below
each other, and the pair occurs at most :math:`\sqrt{n_in_j}`, :math:`n_i` being the mean of
:math:`x_i^2`. Both by Cauchy and Schwarz. Two ways use these bounds. Where features are
sparse, only pairs that occur together are looked at, feature by feature, and weighed where
their bound reaches the best so far. Where most pairs occur, blocks of features are
multiplied, the longest vectors first, and those out of reach are skipped.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from crossgcn.explanation.best import Best
from crossgcn.explanation.blocked_pairs import search_blocks
from crossgcn.explanation.cross_rule import CrossRule
from crossgcn.explanation.meeting_pairs import count_meetings, search_meetings
from crossgcn.explanation.occurrence import PairOccurrence, root_mean_square
from crossgcn.explanation.pair_factors import PairFactors

__all__ = ["top_pairs"]

MEETINGS = 500_000_000
"""Most pairs of entries of one node, over all nodes, for which meetings are counted."""


def top_pairs(
    factors: PairFactors,
    inputs: sp.csr_array | None,
    top: int,
    rule: CrossRule | None = None,
) -> list[Best]:
    """The pairs of different features with the largest weight × occurrence, for each class.

    Args:
        factors: Weights of all pairs.
        inputs: The features, ``[nodes, features]``; ``None`` ranks by weight alone.
        top: How many pairs per class.
        rule: Which pairs may be named; all of them when left out.
    """
    # One class at a time: the factors of all would be as many copies of the weights.
    classes = map(factors.of_class, range(len(factors.scale)))
    best = [Best(top, 2) for _ in factors.scale]
    if inputs is not None and count_meetings(inputs).sum() <= MEETINGS:
        lengths = np.stack([each.lengths() for each in classes])
        search_meetings(factors, lengths, inputs, rule, best)
    else:
        occurrence = None if inputs is None else PairOccurrence(inputs)
        size = None if inputs is None else root_mean_square(inputs)
        for each, found in zip(classes, best, strict=True):
            search_blocks(each, size, occurrence, rule, found)
    return best
