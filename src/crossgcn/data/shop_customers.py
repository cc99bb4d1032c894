"""Who the customers of the example shop are, given what they buy."""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.shop_columns import (
    CLASSES,
    COMMON_TAGS,
    MISSING,
    OTHER_COLUMNS,
    OWN_TAGS,
    PAIRED_COLUMNS,
    PLANTED,
    SURVEY_ANSWERS,
)

__all__ = ["allot", "draw_customers", "draw_survey", "plant_pair"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

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
            :data:`~crossgcn.data.shop_columns.CLASSES`.
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
