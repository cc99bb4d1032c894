"""Who the customers of the example shop are, given what they buy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.shop_columns import CLASSES, PAIRED_COLUMNS, PLANTED, Categories

__all__ = ["allot", "draw_customers", "plant_pair"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

TOGETHER, APART = 6.0, -3.0
"""How much the log-odds of a planted pair are raised within its class, and elsewhere."""

HINTS, HINTS_ALONE = 0.9, 1.3
"""How much single columns give away, beside planted crosses and without them."""

MISSING = {"gender": 0.02, "age": 0.02, "income": 0.02, "city": 0.02, "payment": 0.02}
"""Share of empty cells."""

OTHER_COLUMNS = (
    Categories("visits", {"weekly": 0.3, "monthly": 0.4, "rarely": 0.3}),
    Categories("delivery", {"home": 0.5, "locker": 0.3, "pickup": 0.2}),
    Categories("language", {"Portuguese": 0.6, "English": 0.25, "Spanish": 0.15}),
)
COMMON_TAGS = ("music", "travel", "film", "cooking")
CLASS_TAGS = (
    ("poetry", "history"),
    ("roses", "herbs"),
    ("running", "sailing"),
    ("puzzles", "trains"),
)
RARITY = 0.4
"""How likely a word of a class is, one that all like being 1."""

def draw_customers(
    classes: Integers, *, crosses: bool, random: np.random.Generator
) -> pd.DataFrame:
    """Every column but the id and what is bought.

    Columns of a planted pair have the same distribution in every class, cell by cell;
    within the pair's class they occur together. The other columns hint at the class.

    Args:
        classes: What each customer buys, as a position in :data:`CLASSES`.
        crosses: Whether to plant the pairs; without them hints are stronger instead.
        random: Source of randomness.
    """
    hints = HINTS if crosses else HINTS_ALONE
    columns: dict[str, Any] = {}
    for pair, (first, second) in enumerate(PAIRED_COLUMNS):
        cell = tuple(
            column.features.index(member)
            for column, member in zip((first, second), PLANTED[pair].members, strict=True)
        )
        cells = np.empty((2, len(classes)), np.int64)
        for label in range(len(CLASSES)):
            strength = 0.0 if not crosses else TOGETHER if label == pair else APART
            joint = plant_pair(first.probabilities, second.probabilities, cell, strength)
            here = np.flatnonzero(classes == label)
            cells[:, here] = np.unravel_index(allot(joint.ravel(), len(here), random), joint.shape)
        for column, chosen in zip((first, second), cells, strict=True):
            columns[column.name] = column.fill(chosen, random)
    for column in OTHER_COLUMNS:
        columns[column.name]=column.fill(allot(column.probabilities,len(classes),random),random)
    columns["newsletter"] = (random.random(len(classes)) < 0.35).astype(np.int64)
    columns["tags"] = _draw_tags(classes, hints, random)
    frame = pd.DataFrame(columns)
    for name, share in MISSING.items():
        if frame[name].dtype == np.int64:
            frame[name] = frame[name].astype("Int64")
        frame.loc[random.random(len(frame)) < share, name] = pd.NA if frame[name].dtype != float else np.nan
    return frame


def plant_pair(first: Floats, second: Floats, cell: tuple[int, ...], strength: float) -> Floats:
    r"""The joint distribution of two columns in which one pair of values stands out.

    .. math:: \log P(i, j) = a_i + b_j + s \, [(i, j) = (i^*, j^*)]

    with :math:`a` and :math:`b` such that each column on its own is distributed as
    given: they are found by scaling rows and columns in turn.

    Args:
        first: Distribution of the first column.
        second: Distribution of the second.
        cell: The pair.
        strength: How much its log-odds are raised (:math:`s`); 0 makes the columns
            independent.
    """
    joint = np.outer(first, second)
    joint[cell] *= np.exp(strength)
    for _ in range(200):
        joint *= (first / joint.sum(axis=1))[:, np.newaxis]
        joint *= second / joint.sum(axis=0)
    return joint


def allot(probabilities: Floats, count: int, random: np.random.Generator) -> Integers:
    """Draw positions in random order, each as often as its probability says, to within one."""
    reach = np.cumsum(probabilities)
    points = (np.arange(count) + random.random()) / count * reach[-1]
    drawn = np.minimum(np.searchsorted(reach, points, side="right"), len(reach) - 1)
    return random.permutation(drawn)


def _draw_tags(classes: Integers, hints: float, random: np.random.Generator) -> list[str]:
    """One to four words each, the first ones by a noisy ranking."""
    words = (*COMMON_TAGS, *(word for own in CLASS_TAGS for word in own))
    likely = np.where(np.arange(len(words)) < len(COMMON_TAGS), 1.0, RARITY)
    liking = np.log(likely) + random.gumbel(size=(len(classes), len(words)))
    for label, own in enumerate(CLASS_TAGS):
        columns = [words.index(word) for word in own]
        liking[np.ix_(classes == label, columns)] += hints
    ranked = np.argsort(-liking, axis=1)
    counts = random.integers(1, 5, len(classes))
    return [
        ";".join(sorted(words[word] for word in row[:count]))
        for row, count in zip(ranked, counts, strict=True)
    ]
