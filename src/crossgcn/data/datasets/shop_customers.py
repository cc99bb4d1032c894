"""Who the customers of the example shop are, given what they buy."""

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
"""What customers buy, and how large a share of them."""


@dataclass(frozen=True)
class Categories:
    """A column of words.

    Attributes:
        name: Its header.
        shares: How often each word occurs.
    """

    name: str
    shares: Mapping[str, float]

    @property
    def probabilities(self) -> Floats:
        """The shares, in order."""
        return np.array(list(self.shares.values()))

    @property
    def features(self) -> tuple[str, ...]:
        """What the words are called once encoded."""
        return tuple(f"{self.name}={value}" for value in self.shares)

    def fill(self, cells: Integers, random: np.random.Generator) -> NDArray[np.object_]:
        """The words of the drawn cells."""
        return np.array(list(self.shares), dtype=object)[cells]


@dataclass(frozen=True)
class Ranges:
    """A column of whole numbers that fall into ranges, an equal share of them into each.

    As the shares are equal, the ranges are the quantile buckets an encoder finds.

    Attributes:
        name: Its header.
        bounds: Where the ranges begin, and at last where they end.
        step: What the numbers are multiples of.
    """

    name: str
    bounds: tuple[int, ...]
    step: int = 1

    @property
    def probabilities(self) -> Floats:
        """Equal ones, one per range."""
        ranges = len(self.bounds) - 1
        return np.full(ranges, 1 / ranges)

    @property
    def features(self) -> tuple[str, ...]:
        """What the ranges are called once encoded, open at both ends."""
        inner = [f"{self.name}=[{low}, {high})" for low, high in pairwise(self.bounds[1:-1])]
        return (f"{self.name}<{self.bounds[1]}", *inner, f"{self.name}≥{self.bounds[-2]}")

    def fill(self, cells: Integers, random: np.random.Generator) -> Integers:
        """A number from each of the drawn ranges, any of its numbers as likely."""
        steps = np.array(self.bounds) // self.step
        return random.integers(steps[cells], steps[cells + 1]) * self.step


@dataclass(frozen=True)
class PlantedCross:
    """Two features that say together what a customer buys, and say nothing alone.

    Attributes:
        buys: The class they speak for.
        members: Their names.
    """

    buys: str
    members: tuple[str, str]

    @property
    def name(self) -> str:
        """As an explanation writes it."""
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
"""Columns in which a class shows in pairs only; the pairs are in the order of the classes."""

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
"""Columns that say nothing."""

COMMON_TAGS = ("cooking", "film", "music", "travel")
OWN_TAGS = {
    "books": ("history", "poetry"),
    "garden": ("herbs", "roses"),
    "sports": ("running", "sailing"),
    "toys": ("puzzles", "trains"),
}
"""Words of the column of favourite things: those everyone likes, and those of a class."""

SURVEY_ANSWERS = ("never", "seldom", "sometimes", "often", "always")
"""Of questions that say nothing, for a table with more columns."""

MISSING = {"gender": 0.02, "age": 0.01, "income": 0.03, "payment": 0.02, "city": 0.02}
"""Share of the cells that are empty."""


TOGETHER, APART = 7.0, -4.0
"""What is added to the log-odds of a planted pair within its class, and in any other."""

ALONE = 1.6
"""What is added to the log-odds of each member of a pair within its class, without crosses."""

HINTS = 0.9
"""What is added to the log-odds of a class's own tags."""

LIKED, LIKED_BY_FEW = 0.35, 0.12
"""How many like a tag that everyone may like, and one of a class that is not their own."""


def draw_customers(
    classes: Integers, *, crosses: bool, random: np.random.Generator
) -> pd.DataFrame:
    """Every column but the id and what is bought.

    A column of a planted pair is distributed alike in all classes, so that it says nothing
    alone. Favourite tags hint at the class, and the remaining columns are noise.

    Args:
        classes: What each customer buys, as a position in
            :data:`~crossgcn.data.datasets.shop_customers.CLASSES`.
        crosses: Whether to plant the pairs; without them each member is more frequent in
            the pair's class, and independent of the other there.
        random: Source of randomness.
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
    """Answers drawn at random, a column for each question.

    Args:
        num_nodes: How many customers were asked.
        num_questions: How many questions.
        random: Source of randomness.
    """
    answers = random.integers(len(SURVEY_ANSWERS), size=(num_nodes, num_questions))
    width = max(2, len(str(num_questions)))
    names = [f"q{number:0{width}}" for number in range(1, num_questions + 1)]
    return pd.DataFrame(np.array(SURVEY_ANSWERS, dtype=object)[answers], columns=names)


def plant_pair(first: Floats, second: Floats, cell: tuple[int, int], strength: float) -> Floats:
    r"""The joint distribution of two columns in which one pair of values stands out.

    .. math:: \log P(i, j) = a_i + b_j + s \, [(i, j) = (i^*, j^*)]

    with :math:`a` and :math:`b` such that each column on its own is distributed as given.
    For the pair against all else this is a table of two by two with known margins and odds
    ratio :math:`\psi = e^s`, so its probability :math:`x` solves a quadratic equation,

    .. math:: \psi \, (p - x)(q - x) = x \, (1 - p - q + x),

    and within each of the other three parts the columns are independent.

    Args:
        first: Distribution of the first column.
        second: Distribution of the second.
        cell: The pair.
        strength: What is added to its log-odds (:math:`s`); 0 makes the columns independent.

    Returns:
        ``[len(first), len(second)]``.
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
    """Draw positions in random order, each as often as its probability says, to within one.

    Args:
        probabilities: Of each position, adding up to 1.
        count: How many to draw.
        random: Source of randomness.
    """
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
    """Make one value more frequent in a class, and rarer elsewhere so that it is not overall."""
    overall = probabilities[value]
    odds = overall / (1 - overall) * np.exp(ALONE)
    within = odds / (1 + odds)
    wanted = within if own else (overall - share * within) / (1 - share)
    preferred: Floats = probabilities * (1 - wanted) / (1 - overall)
    preferred[value] = wanted
    return preferred


def _draw_tags(classes: Integers, random: np.random.Generator) -> list[str | None]:
    """Each tag independent of the others, given the class; nothing for who likes none."""
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
"""How often a friend is drawn among those who buy the same; else among all."""

POPULARITY_TAIL, MOST_POPULAR = 2.5, 10.0
"""Exponent of the power law of how popular customers are, and where it is cut off."""


def draw_friends(
    classes: Integers, askers: Integers, num_edges: int, random: np.random.Generator
) -> Integers:
    """Draw distinct pairs of two different customers, more of those who are popular.

    Args:
        classes: What each customer buys.
        askers: Those who have a friend to name: each of them once, then whoever comes.
        num_edges: How many pairs; at least one per asker.
        random: Source of randomness.

    Returns:
        ``[2, num_edges]``, an asker above the friend they named, who can be any customer.
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
    """Each pair where it first comes, whichever way round; nobody with themselves."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    _, first_come = np.unique(pairs.min(axis=0) * num_nodes + pairs.max(axis=0), return_index=True)
    return pairs[:, np.sort(first_come)]
