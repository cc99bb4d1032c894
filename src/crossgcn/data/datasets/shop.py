"""An example dataset of tables: customers of a shop, with known crosses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from crossgcn.data.datasets.generated import Floats, Integers, WeightedNodes
from crossgcn.data.files import replacing
from crossgcn.data.stored.format import check_target
from crossgcn.data.tables.frames import write_table
from crossgcn.errors import BadInput

CLASSES: Mapping[str, float] = {"books": 0.28, "garden": 0.26, "sports": 0.24, "toys": 0.22}
"""What customers buy, and the share of each class."""


@dataclass(frozen=True)
class Column:
    """A column of words or of whole numbers.

    Attributes:
        features: Names of the encoded words or ranges.
        shares: Share of each feature.
        values: The words; or where each range begins and the last ends, divided by ``step``.
        step: Numbers are multiples of it; 0 for words.
    """

    name: str
    features: tuple[str, ...]
    shares: Floats
    values: NDArray[Any]
    step: int = 0

    def draw(self, cells: Integers, random: np.random.Generator) -> NDArray[Any]:
        """Return the words at some positions, or draw a number from each range uniformly."""
        if self.step == 0:
            return self.values[cells]
        return random.integers(self.values[cells], self.values[cells + 1]) * self.step


def _words(name: str, **shares: float) -> Column:
    features = tuple(f"{name}={word}" for word in shares)
    return Column(name, features, np.array([*shares.values()]), np.array([*shares], dtype=object))


def _ranges(name: str, *bounds: int, step: int = 1) -> Column:
    """Give each range an equal share: the ranges are then the encoder's quantile buckets."""
    inner = [f"{name}=[{low}, {high})" for low, high in pairwise(bounds[1:-1])]
    features = (f"{name}<{bounds[1]}", *inner, f"{name}≥{bounds[-2]}")
    shares = np.full(len(features), 1 / len(features))
    return Column(name, features, shares, np.array(bounds) // step, step)


@dataclass(frozen=True)
class PlantedCross:
    """Two features that together predict a class, and alone predict nothing."""

    buys: str
    members: tuple[str, str]
    columns: tuple[Column, Column]

    @property
    def name(self) -> str:
        """Name of the cross as in an explanation."""
        return " & ".join(self.members)


_COLUMNS = (
    _words("gender", female=0.42, male=0.4, undisclosed=0.18),
    _ranges("age", 16, 20, 25, 30, 40),
    _words("membership", basic=0.3, silver=0.25, gold=0.25, family=0.2),
    _ranges("income", 900, 3000, 5000, 10_000, 20_000, step=10),
    _words("channel", search=0.24, social=0.22, friend=0.2, flyer=0.18, radio=0.16),
    _words("payment", card=0.3, wallet=0.25, invoice=0.25, transfer=0.2),
    _words("city", Lisbon=0.25, Porto=0.22, Braga=0.2, Faro=0.17, Coimbra=0.16),
    _words("device", phone=0.32, laptop=0.26, tablet=0.24, desktop=0.18),
)
_MEMBERS = (
    ("gender=female", "age=[20, 25)"),
    ("membership=gold", "income=[5000, 10000)"),
    ("channel=social", "payment=wallet"),
    ("city=Porto", "device=tablet"),
)
PLANTED = tuple(
    PlantedCross(*each)
    for each in zip(CLASSES, _MEMBERS, zip(_COLUMNS[::2], _COLUMNS[1::2], strict=True), strict=True)
)
"""One cross per class, in the order of the classes, and its columns."""

_NOISE = (
    _words("visits", weekly=0.3, monthly=0.4, rarely=0.3),
    _words("delivery", home=0.5, locker=0.3, pickup=0.2),
    _words("language", Portuguese=0.6, English=0.25, Spanish=0.15),
    _words("newsletter", **{"0": 0.65, "1": 0.35}),
)
_COMMON_TAGS = ("cooking", "film", "music", "travel")
_OWN_TAGS = {
    "books": ("history", "poetry"),
    "garden": ("herbs", "roses"),
    "sports": ("running", "sailing"),
    "toys": ("puzzles", "trains"),
}
_SURVEY_ANSWERS = np.array(["never", "seldom", "sometimes", "often", "always"], dtype=object)

_MISSING = {"gender": 0.02, "age": 0.01, "income": 0.03, "payment": 0.02, "city": 0.02}
"""Share of the cells that are empty."""
_TOGETHER, _APART = 7.0, -4.0
"""Added to the log-odds of a planted pair within its class, and in the others."""
_ALONE = 1.6
"""Added to the log-odds of each feature of a pair within its class, without crosses."""
_HINTS = 0.9
"""Added to the log-odds of a class's own tags."""
_LIKED, _LIKED_BY_FEW = 0.35, 0.12
"""Share of customers with a common tag, and with a tag of another class."""


def _draw_customers(
    classes: Integers, *, crosses: bool, random: np.random.Generator
) -> pd.DataFrame:
    """Draw every column but the id and the target, for customers of these classes.

    With ``crosses``, columns of planted pairs have the same distribution in all classes, so that
    one alone predicts nothing. Without, each feature of a pair is more frequent in the pair's
    class, independently of the other. Tags are related to the class, and the remaining columns
    are noise.
    """
    columns: dict[str, Any] = {}
    for own, cross in enumerate(PLANTED):
        cells = np.empty((2, len(classes)), np.int64)
        for label in range(len(CLASSES)):
            joint = _joint_in_class(cross, label == own, crosses)
            members = np.flatnonzero(classes == label)
            drawn = allot(joint.ravel(), len(members), random)
            cells[:, members] = np.unravel_index(drawn, joint.shape)
        for column, of_column in zip(cross.columns, cells, strict=True):
            columns[column.name] = column.draw(of_column, random)
    for column in _NOISE:
        columns[column.name] = column.draw(allot(column.shares, len(classes), random), random)
    columns["tags"] = _draw_tags(classes, random)
    frame = pd.DataFrame(columns).convert_dtypes().astype({"newsletter": "Int64"})
    for name, share in _MISSING.items():
        frame.loc[random.random(len(frame)) < share, name] = pd.NA
    return frame


def plant_pair(first: Floats, second: Floats, cell: tuple[int, int], strength: float) -> Floats:
    r"""Return a joint distribution of two columns with more or less of one pair of values.

    .. math:: \log P(i, j) = a_i + b_j + s \, [(i, j) = (i^*, j^*)]

    with :math:`a` and :math:`b` such that each column alone keeps its distribution. The pair
    against all other pairs is a two-by-two table with known margins and odds ratio
    :math:`\psi = e^s`, so the probability :math:`x` of the pair solves a quadratic equation,

    .. math:: \psi \, (p - x)(q - x) = x \, (1 - p - q + x),

    and within each of the other three parts the columns are independent.

    Args:
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


def _joint_in_class(cross: PlantedCross, own: bool, crosses: bool) -> Floats:
    first, second = cross.columns
    cell = first.features.index(cross.members[0]), second.features.index(cross.members[1])
    if crosses:
        return plant_pair(first.shares, second.shares, cell, _TOGETHER if own else _APART)
    share = CLASSES[cross.buys]
    return np.outer(
        _prefer(first.shares, cell[0], share, own), _prefer(second.shares, cell[1], share, own)
    )


def _prefer(shares: Floats, value: int, class_share: float, own: bool) -> Floats:
    """Make a value more frequent in a class and rarer in others, with the same total share."""
    overall = shares[value]
    odds = overall / (1 - overall) * np.exp(_ALONE)
    within = odds / (1 + odds)
    wanted = within if own else (overall - class_share * within) / (1 - class_share)
    preferred: Floats = shares * (1 - wanted) / (1 - overall)
    preferred[value] = wanted
    return preferred


def _draw_tags(classes: Integers, random: np.random.Generator) -> list[str | None]:
    """Draw each tag independently of the others, given the class; ``None`` for no tags."""
    words = [*_COMMON_TAGS, *(word for own in _OWN_TAGS.values() for word in own)]
    liked = np.full((len(classes), len(words)), _LIKED_BY_FEW)
    liked[:, : len(_COMMON_TAGS)] = _LIKED
    odds = liked / (1 - liked)
    for label, buys in enumerate(CLASSES):
        own = [words.index(word) for word in _OWN_TAGS[buys]]
        odds[np.ix_(classes == label, own)] *= np.exp(_HINTS)
    likes = random.random(odds.shape) < odds / (1 + odds)
    return [";".join(sorted(compress(words, row))) or None for row in likes]


FEWEST_NODES = 300
"""With fewer, the encoder may find other ranges of numbers than those planted."""
FEWEST_COLUMNS = 15
"""The id, the target, and thirteen features."""

_EDGES_PER_NODE, _NEW_PER_NODE, _UNLABELLED = 5, 0.05, 0.03
_ALIKE = 0.35
"""Share of friends drawn from the same class; others are drawn from all customers."""
_POPULARITY_TAIL, _MOST_POPULAR = 2.5, 10.0
"""Exponent of the power law of popularity, and its largest value."""


@dataclass(frozen=True)
class Shop:
    """Tables of a shop's customers and their friends, and of new customers to score.

    ``nodes`` has a row per ``customer`` with features and ``buys``, of which some are missing;
    ``edges`` a row per pair of a ``customer`` and a ``friend``. New customers have edges to each
    other and to the others, and what they buy is in ``new_answers``.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    new_nodes: pd.DataFrame
    new_edges: pd.DataFrame
    new_answers: pd.DataFrame
    crosses: tuple[PlantedCross, ...]


def make_shop(
    num_nodes: int = 2000,
    *,
    num_columns: int = FEWEST_COLUMNS,
    seed: int = 0,
    crosses: bool = True,
) -> Shop:
    """Draw a shop in which pairs of features predict what a customer buys.

    Each class has a pair of features, such as ``gender=female & age=[20, 25)``, that many of its
    customers and few others have both of, while each feature alone is as frequent in every
    class. Favourite tags are related to the class without any cross, so that models without
    crosses learn something too. Friends tend to buy alike.

    Args:
        num_nodes: Customers to learn from; there are 5 % as many new ones, and five edges each.
        num_columns: Of the node table; random answers to a survey fill it up.
        crosses: Whether to plant the pairs. Without them, each of the features is more frequent
            in its class by itself, independently of the other.
    """
    small, narrow = "a shop of {} customers is too small to learn from", "a table of {} columns has"
    for value, least, problem in (
        (num_nodes, FEWEST_NODES, small),
        (num_columns, FEWEST_COLUMNS, f"{narrow} no room for the shop's own"),
    ):
        if value < least:
            raise BadInput(f"{problem.format(value)}; give at least {least}")
    if seed < 0:
        raise BadInput(f"seed is {seed}; give 0 or more")
    random, survey_random = (np.random.default_rng([seed, num_nodes, part]) for part in (0, 1))
    num_new = round(_NEW_PER_NODE * num_nodes)
    shares = np.array(list(CLASSES.values()))
    classes = np.concatenate([allot(shares, count, random) for count in (num_nodes, num_new)])
    known, new = np.split(np.arange(len(classes)), [num_nodes])
    ids = pd.Series([f"u_{number}" for number in range(1, len(classes) + 1)], name="customer")
    edges = _draw_friends(classes[known], known, ids, random)
    new_edges = _draw_friends(classes, new, ids, random)
    questions = num_columns - FEWEST_COLUMNS
    answers = survey_random.integers(len(_SURVEY_ANSWERS), size=(len(classes), questions))
    width = max(2, len(str(questions)))
    names = [f"q{number:0{width}}" for number in range(1, questions + 1)]
    drawn = _draw_customers(classes, crosses=crosses, random=random)
    survey = pd.DataFrame(_SURVEY_ANSWERS[answers], columns=names)
    customers = pd.concat([ids, drawn, survey], axis=1)
    buys = pd.Series(np.array(list(CLASSES), dtype=object)[classes], name="buys")
    labels = buys[known].mask(random.random(num_nodes) < _UNLABELLED)
    return Shop(
        nodes=customers.iloc[known].assign(buys=labels),
        edges=edges,
        new_nodes=customers.iloc[new].reset_index(drop=True),
        new_edges=new_edges,
        new_answers=pd.concat([ids, buys], axis=1).iloc[new].reset_index(drop=True),
        crosses=PLANTED if crosses else (),
    )


def _draw_friends(
    classes: Integers, askers: Integers, ids: pd.Series, random: np.random.Generator
) -> pd.DataFrame:
    """Draw pairs of an asker and a friend, who can be any customer; popular ones more often."""
    nodes = WeightedNodes(classes, _POPULARITY_TAIL, _MOST_POPULAR, random)
    num_edges = _EDGES_PER_NODE * len(askers)
    asking = nodes.weights[askers] / nodes.weights[askers].sum()

    def draw_askers() -> Integers:
        return np.concatenate([askers, random.choice(askers, num_edges, p=asking)])

    ends = nodes.draw_edges(num_edges, _ALIKE, draw_askers, random)
    customers, friends = ids.to_numpy(dtype=object)[ends]
    return pd.DataFrame({"customer": customers, "friend": friends})


def write_shop(
    folder: Path, shop: Shop, file_format: Literal["csv", "parquet"] = "csv"
) -> tuple[Path, ...]:
    """Write the tables and ``README.md`` to a new or empty folder, and return the files.

    The ``README.md`` describes the tables and the planted crosses, and has commands to run.
    """
    check_target(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be made ({error.strerror}); give another folder"
        ) from None
    paths = []
    for name in ("nodes", "edges", "new_nodes", "new_edges", "new_answers"):
        paths.append(folder / f"{name}.{file_format}")
        write_table(paths[-1], getattr(shop, name))
    environment = Environment(
        loader=PackageLoader("crossgcn.data.datasets", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    tags = [f"{buys} ({' and '.join(words)})" for buys, words in _OWN_TAGS.items()]
    members = [f"`{member}`" for cross in PLANTED for member in cross.members]
    ids = shop.nodes["customer"]
    readme = environment.get_template("shop_readme.md").render(
        suffix=file_format,
        shop=shop,
        num_unlabelled=int(shop.nodes["buys"].isna().sum()),
        classes=_list([*CLASSES], "or"),
        tags=_list(tags, "or"),
        members=_list(members, "and"),
        one_customer="u_881" if (ids == "u_881").any() else ids.iloc[-1],
    )
    paths.append(folder / "README.md")
    with replacing(paths[-1]) as file:
        file.write(readme.encode())
    return tuple(paths)


def _list(words: list[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
