"""Draw the customers of the example shop, given what they buy, and their friends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

CLASSES: Mapping[str, float] = {"books": 0.28, "garden": 0.26, "sports": 0.24, "toys": 0.22}
"""What customers buy, and the share of each class."""


@dataclass(frozen=True)
class Categories:
    """A column of words, and the share of each."""

    name: str
    shares: Mapping[str, float]

    @property
    def probabilities(self) -> Floats:
        """Shares in the order of the words."""
        return np.array(list(self.shares.values()))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded words."""
        return tuple(f"{self.name}={value}" for value in self.shares)

    def fill(self, cells: Integers, random: np.random.Generator) -> NDArray[np.object_]:
        """Return the words at the drawn positions."""
        return np.array(list(self.shares), dtype=object)[cells]


@dataclass(frozen=True)
class Ranges:
    """A column of whole numbers, with an equal share of them in each range.

    As the shares are equal, the ranges are the quantile buckets that the encoder finds.

    Attributes:
        bounds: Where each range begins, and where the last ends.
        step: Numbers are multiples of it.
    """

    name: str
    bounds: tuple[int, ...]
    step: int = 1

    @property
    def probabilities(self) -> Floats:
        """Equal shares, one per range."""
        ranges = len(self.bounds) - 1
        return np.full(ranges, 1 / ranges)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded ranges; the first and the last are open."""
        inner = [f"{self.name}=[{low}, {high})" for low, high in pairwise(self.bounds[1:-1])]
        return (f"{self.name}<{self.bounds[1]}", *inner, f"{self.name}≥{self.bounds[-2]}")

    def fill(self, cells: Integers, random: np.random.Generator) -> Integers:
        """Draw a number from each of the drawn ranges, uniformly."""
        steps = np.array(self.bounds) // self.step
        return random.integers(steps[cells], steps[cells + 1]) * self.step


@dataclass(frozen=True)
class PlantedCross:
    """Two features that together predict a class, and alone predict nothing."""

    buys: str
    members: tuple[str, str]

    @property
    def name(self) -> str:
        """Name of the cross as in an explanation."""
        return " & ".join(self.members)


PAIRED_COLUMNS: tuple[tuple[Categories | Ranges, Categories | Ranges], ...] = (
    (
        Categories("gender", {"female": 0.42, "male": 0.4, "undisclosed": 0.18}),
        Ranges("age", (16, 18, 20, 25, 30, 40)),
    ),
    (
        Categories("membership", {"basic": 0.3, "silver": 0.25, "gold": 0.25, "family": 0.2}),
        Ranges("income", (900, 2000, 3000, 5000, 10_000, 20_000), step=10),
    ),
    (
        Categories(
            "channel", {"search": 0.24, "social": 0.22, "friend": 0.2, "flyer": 0.18, "radio": 0.16}
        ),
        Categories("payment", {"card": 0.3, "wallet": 0.25, "invoice": 0.25, "transfer": 0.2}),
    ),
    (
        Categories(
            "city",
            {"Lisbon": 0.25, "Porto": 0.22, "Braga": 0.2, "Faro": 0.17, "Coimbra": 0.16},
        ),
        Categories("device", {"phone": 0.32, "laptop": 0.26, "tablet": 0.24, "desktop": 0.18}),
    ),
)
"""Columns that predict a class only in pairs; one pair per class, in their order."""

PLANTED = tuple(
    PlantedCross(buys, members)
    for buys, members in zip(
        CLASSES,
        (
            ("gender=female", "age=[20, 25)"),
            ("membership=gold", "income=[5000, 10000)"),
            ("channel=social", "payment=wallet"),
            ("city=Porto", "device=tablet"),
        ),
        strict=True,
    )
)
"""One cross per class."""

OTHER_COLUMNS = (
    Categories("visits", {"weekly": 0.3, "monthly": 0.4, "rarely": 0.3}),
    Categories("delivery", {"home": 0.5, "locker": 0.3, "pickup": 0.2}),
    Categories("language", {"Portuguese": 0.6, "English": 0.25, "Spanish": 0.15}),
    Categories("newsletter", {"0": 0.65, "1": 0.35}),
)
"""Columns of noise."""

COMMON_TAGS = ("cooking", "film", "music", "travel")
OWN_TAGS = {
    "books": ("history", "poetry"),
    "garden": ("herbs", "roses"),
    "sports": ("running", "sailing"),
    "toys": ("puzzles", "trains"),
}
"""Tags: common ones, and those of a class."""

SURVEY_ANSWERS = ("never", "seldom", "sometimes", "often", "always")
"""Random answers, for a table with more columns."""

MISSING = {"gender": 0.02, "age": 0.01, "income": 0.03, "payment": 0.02, "city": 0.02}
"""Share of the cells that are empty."""


TOGETHER, APART = 7.0, -4.0
"""Added to the log-odds of a planted pair within its class, and in the others."""

ALONE = 1.6
"""Added to the log-odds of each feature of a pair within its class, without crosses."""

HINTS = 0.9
"""Added to the log-odds of a class's own tags."""

LIKED, LIKED_BY_FEW = 0.35, 0.12
"""Share of customers with a common tag, and with a tag of another class."""


def draw_customers(
    classes: Integers, *, crosses: bool, random: np.random.Generator
) -> pd.DataFrame:
    """Draw every column but the id and the target.

    Columns of planted pairs have the same distribution in all classes, so that one alone
    predicts nothing. Tags are related to the class, and the remaining columns are noise.

    Args:
        classes: The class of each customer, as a position in :data:`CLASSES`.
        crosses: Whether to plant the pairs; without them each of the features is more frequent
            in the pair's class, independently of the other.
    """
    columns: dict[str, Any] = {}
    for position in range(len(PLANTED)):
        columns |= _draw_pair(position, classes, crosses, random)
    for column in OTHER_COLUMNS:
        cells = allot(column.probabilities, len(classes), random)
        columns[column.name] = column.fill(cells, random)
    columns["tags"] = _draw_tags(classes, random)
    frame = pd.DataFrame(columns).convert_dtypes().astype({"newsletter": "Int64"})
    for name, share in MISSING.items():
        frame.loc[random.random(len(frame)) < share, name] = pd.NA
    return frame


def draw_survey(num_nodes: int, num_questions: int, random: np.random.Generator) -> pd.DataFrame:
    """Draw random answers, one column per question."""
    answers = random.integers(len(SURVEY_ANSWERS), size=(num_nodes, num_questions))
    width = max(2, len(str(num_questions)))
    names = [f"q{number:0{width}}" for number in range(1, num_questions + 1)]
    return pd.DataFrame(np.array(SURVEY_ANSWERS, dtype=object)[answers], columns=names)


def plant_pair(first: Floats, second: Floats, cell: tuple[int, int], strength: float) -> Floats:
    r"""Return a joint distribution of two columns with more or less of one pair of values.

    .. math:: \log P(i, j) = a_i + b_j + s \, [(i, j) = (i^*, j^*)]

    with :math:`a` and :math:`b` such that each column alone keeps its distribution. The pair
    against all other pairs is a two-by-two table with known margins and odds ratio
    :math:`\psi = e^s`, so the probability :math:`x` of the pair solves a quadratic equation,

    .. math:: \psi \, (p - x)(q - x) = x \, (1 - p - q + x),

    and within each of the other three parts the columns are independent.

    Args:
        first: Distribution of the first column.
        second: Distribution of the second column.
        cell: The pair.
        strength: Added to the log-odds of the pair (:math:`s`); 0 for independent columns.
    """
    row, column = cell
    p, q, gain = first[row], second[column], np.expm1(strength)
    total = 1 + (p + q) * gain
    root = np.sqrt(total**2 - 4 * (1 + gain) * gain * p * q)
    together = 2 * (1 + gain) * p * q / (total + root)
    other_rows, other_columns = first / (1 - p), second / (1 - q)
    joint: Floats = (1 - p - q + together) * np.outer(other_rows, other_columns)
    joint[row] = (p - together) * other_columns
    joint[:, column] = (q - together) * other_rows
    joint[cell] = together
    return joint


def allot(probabilities: Floats, count: int, random: np.random.Generator) -> Integers:
    """Draw positions in random order, each ``count`` times its probability, to within one."""
    reach = np.cumsum(probabilities)
    points = (np.arange(count) + random.random()) / count * reach[-1]
    drawn = np.minimum(np.searchsorted(reach, points, side="right"), len(reach) - 1)
    return random.permutation(drawn)


def _draw_pair(
    position: int, classes: Integers, crosses: bool, random: np.random.Generator
) -> dict[str, Any]:
    first, second = PAIRED_COLUMNS[position]
    cells = np.empty((2, len(classes)), np.int64)
    for label in range(len(CLASSES)):
        joint = _joint_in_class(position, label == position, crosses)
        members = np.flatnonzero(classes == label)
        drawn = allot(joint.ravel(), len(members), random)
        cells[:, members] = np.unravel_index(drawn, joint.shape)
    return {
        column.name: column.fill(drawn, random)
        for column, drawn in zip((first, second), cells, strict=True)
    }


def _joint_in_class(position: int, own: bool, crosses: bool) -> Floats:
    first, second = PAIRED_COLUMNS[position]
    one, other = PLANTED[position].members
    cell = first.features.index(one), second.features.index(other)
    if crosses:
        strength = TOGETHER if own else APART
        return plant_pair(first.probabilities, second.probabilities, cell, strength)
    share = list(CLASSES.values())[position]
    columns = (first.probabilities, second.probabilities)
    return np.outer(
        *(
            _prefer(probabilities, value, share, own)
            for probabilities, value in zip(columns, cell, strict=True)
        )
    )


def _prefer(probabilities: Floats, value: int, share: float, own: bool) -> Floats:
    """Make a value more frequent in a class and rarer in others, with the same total share."""
    overall = probabilities[value]
    odds = overall / (1 - overall) * np.exp(ALONE)
    within = odds / (1 + odds)
    wanted = within if own else (overall - share * within) / (1 - share)
    preferred: Floats = probabilities * (1 - wanted) / (1 - overall)
    preferred[value] = wanted
    return preferred


def _draw_tags(classes: Integers, random: np.random.Generator) -> list[str | None]:
    """Draw each tag independently of the others, given the class; ``None`` for no tags."""
    words = [*COMMON_TAGS, *(word for own in OWN_TAGS.values() for word in own)]
    liked = np.full((len(classes), len(words)), LIKED_BY_FEW)
    liked[:, : len(COMMON_TAGS)] = LIKED
    odds = liked / (1 - liked)
    for label, buys in enumerate(CLASSES):
        own = [words.index(word) for word in OWN_TAGS[buys]]
        odds[np.ix_(classes == label, own)] *= np.exp(HINTS)
    likes = random.random(odds.shape) < odds / (1 + odds)
    return [";".join(sorted(compress(words, row))) or None for row in likes]


ALIKE = 0.35
"""Share of friends drawn from the same class; others are drawn from all customers."""

POPULARITY_TAIL, MOST_POPULAR = 2.5, 10.0
"""Exponent of the power law of popularity, and its largest value."""


def draw_friends(
    classes: Integers, askers: Integers, num_edges: int, random: np.random.Generator
) -> Integers:
    """Draw distinct pairs of customers, popular ones more often.

    Args:
        classes: The class of each customer.
        askers: Customers that name a friend, each at least once.
        num_edges: Number of pairs, at least one per asker.

    Returns:
        ``[2, num_edges]``: an asker, and a friend, who can be any customer.
    """
    num_nodes = len(classes)
    popularity = (1 - random.random(num_nodes)) ** (-1 / POPULARITY_TAIL)
    popularity = np.minimum(popularity, MOST_POPULAR)
    by_class = np.argsort(classes, kind="stable")
    reach = np.concatenate([[0.0], np.cumsum(popularity[by_class])])
    ends = np.cumsum(np.bincount(classes))
    start, stop = reach[np.concatenate([[0], ends[:-1]])], reach[ends]
    asking = popularity[askers] / popularity[askers].sum()
    pairs = np.empty((2, 0), np.int64)
    while pairs.shape[1] < num_edges:
        first = np.concatenate([askers, random.choice(askers, num_edges, p=asking)])
        alike = random.random(len(first)) < ALIKE
        low = np.where(alike, start[classes[first]], 0.0)
        high = np.where(alike, stop[classes[first]], reach[-1])
        position = low + random.random(len(first)) * (high - low)
        at = np.searchsorted(reach, position, side="right") - 1
        second = by_class[np.minimum(at, num_nodes - 1)]
        pairs = np.concatenate([pairs, np.stack([first, second])], axis=1)
        pairs = _keep_distinct(pairs, num_nodes)
    return pairs[:, :num_edges]


def _keep_distinct(pairs: Integers, num_nodes: int) -> Integers:
    """Keep the first of equal pairs, in either direction, and drop pairs of one customer."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    _, first_come = np.unique(pairs.min(axis=0) * num_nodes + pairs.max(axis=0), return_index=True)
    return pairs[:, np.sort(first_come)]
