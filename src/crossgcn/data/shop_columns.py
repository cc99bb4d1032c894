"""The columns of the example shop, and the crosses planted in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLASSES",
    "COMMON_TAGS",
    "MISSING",
    "OTHER_COLUMNS",
    "OWN_TAGS",
    "PAIRED_COLUMNS",
    "PLANTED",
    "SURVEY_ANSWERS",
    "Categories",
    "PlantedCross",
    "Ranges",
]

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
