r"""How well edges are told from pairs that are none, with ties broken by nobody's favour.

Every positive is ranked against one set of negatives, shared by all. With :math:`a` negatives
above a positive and :math:`e` level with it, its rank is anything from :math:`a + 1` to
:math:`a + e + 1`, each as likely: every number here is the mean over these. So a model that
scores all pairs alike gets what guessing gets, and not what a lucky or unlucky order of
equals would give it. (The rank in the middle would not do: one over it is not the mean of
one over the ranks.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

__all__ = ["area_under_curve", "link_metrics", "metric_names"]

Scores = NDArray[np.floating]


def metric_names(hits_at: Sequence[int]) -> tuple[str, ...]:
    """What :func:`link_metrics` gives, in its order."""
    return ("auc", "ap", *(f"hits@{k}" for k in hits_at), "mrr")


def link_metrics(positives: Scores, negatives: Scores, hits_at: Sequence[int]) -> dict[str, float]:
    r"""All metrics of one set of scores, each from 0 to 1.

    ``auc`` is the chance that an edge scores above a pair that is none; ``ap`` is
    scikit-learn's average precision, whose level depends on how many negatives there are;
    ``hits@k`` is the share of edges with rank at most :math:`k`, and ``mrr`` the mean of one
    over the rank.

    Args:
        positives: Scores of edges.
        negatives: Scores of pairs that are none.
        hits_at: The ranks :math:`k`.
    """
    above, level = _count_rivals(positives, negatives)
    labels = np.repeat([1, 0], [len(positives), len(negatives)])
    harmonic = np.cumsum(1 / np.arange(1, len(negatives) + 2))
    harmonic = np.concatenate([[0.0], harmonic])
    reciprocal = (harmonic[above + level + 1] - harmonic[above]) / (level + 1)
    hits = {f"hits@{k}": np.clip((k - above) / (level + 1), 0, 1).mean() for k in hits_at}
    return {
        "auc": area_under_curve(positives, negatives),
        "ap": float(average_precision_score(labels, np.concatenate([positives, negatives]))),
        **{name: float(value) for name, value in hits.items()},
        "mrr": float(reciprocal.mean()),
    }


def area_under_curve(positives: Scores, negatives: Scores) -> float:
    """The chance that an edge scores above a pair that is none; half of it where level."""
    above, level = _count_rivals(positives, negatives)
    return float(1 - (above + level / 2).mean() / len(negatives))


def _count_rivals(
    positives: Scores, negatives: Scores
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each positive, how many negatives are above it and how many level with it."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    return len(ordered) - not_above, not_above - below
