"""An example dataset of tables: customers of a shop, with known crosses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from crossgcn.data.datasets.shop_customers import (
    CLASSES,
    OWN_TAGS,
    PLANTED,
    PlantedCross,
    allot,
    draw_customers,
    draw_survey,
)
from crossgcn.data.datasets.weighted_nodes import Integers, WeightedNodes
from crossgcn.data.files import replacing
from crossgcn.data.stored.format import check_target
from crossgcn.data.tables.export import write_table
from crossgcn.errors import BadInput

FEWEST_NODES = 300
"""With fewer, the encoder may find other ranges of numbers than those planted."""

FEWEST_COLUMNS = 15
"""The id, the target, and thirteen features."""

EDGES_PER_NODE = 5
NEW_PER_NODE = 0.05
UNLABELLED = 0.03

ALIKE = 0.35
"""Share of friends drawn from the same class; others are drawn from all customers."""

POPULARITY_TAIL, MOST_POPULAR = 2.5, 10.0
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
    _check_sizes(num_nodes, num_columns, seed)
    random, survey_random = (np.random.default_rng([seed, num_nodes, part]) for part in (0, 1))
    num_new = round(NEW_PER_NODE * num_nodes)
    shares = np.array(list(CLASSES.values()))
    classes = np.concatenate([allot(shares, count, random) for count in (num_nodes, num_new)])
    known, new = np.split(np.arange(len(classes)), [num_nodes])
    edges = _draw_friends(classes[known], known, random)
    new_edges = _draw_friends(classes, new, random)
    ids = pd.Series([f"u_{number}" for number in range(1, len(classes) + 1)], name="customer")
    customers = pd.concat(
        [
            ids,
            draw_customers(classes, crosses=crosses, random=random),
            draw_survey(len(classes), num_columns - FEWEST_COLUMNS, survey_random),
        ],
        axis=1,
    )
    buys = pd.Series(np.array(list(CLASSES), dtype=object)[classes], name="buys")
    labels = buys[known].mask(random.random(num_nodes) < UNLABELLED)
    return Shop(
        nodes=customers.iloc[known].assign(buys=labels),
        edges=_name_ends(edges, ids),
        new_nodes=customers.iloc[new].reset_index(drop=True),
        new_edges=_name_ends(new_edges, ids),
        new_answers=pd.concat([ids, buys], axis=1).iloc[new].reset_index(drop=True),
        crosses=PLANTED if crosses else (),
    )


def _check_sizes(num_nodes: int, num_columns: int, seed: int) -> None:
    if num_nodes < FEWEST_NODES:
        raise BadInput(
            f"a shop of {num_nodes} customers is too small to learn from; "
            f"give at least {FEWEST_NODES}"
        )
    if num_columns < FEWEST_COLUMNS:
        raise BadInput(
            f"a table of {num_columns} columns has no room for the shop's own; "
            f"give at least {FEWEST_COLUMNS}"
        )
    if seed < 0:
        raise BadInput(f"seed is {seed}; give 0 or more")


def _draw_friends(classes: Integers, askers: Integers, random: np.random.Generator) -> Integers:
    """Draw pairs of an asker and a friend, who can be any customer; popular ones more often."""
    nodes = WeightedNodes(classes, POPULARITY_TAIL, MOST_POPULAR, random)
    num_edges = EDGES_PER_NODE * len(askers)
    asking = nodes.weights[askers] / nodes.weights[askers].sum()

    def draw_askers() -> Integers:
        return np.concatenate([askers, random.choice(askers, num_edges, p=asking)])

    return nodes.draw_edges(num_edges, ALIKE, draw_askers, random)


def _name_ends(pairs: Integers, ids: pd.Series) -> pd.DataFrame:
    names = ids.to_numpy(dtype=object)
    return pd.DataFrame({"customer": names[pairs[0]], "friend": names[pairs[1]]})


FileFormat = Literal["csv", "parquet"]


def write_shop(folder: Path, shop: Shop, file_format: FileFormat = "csv") -> tuple[Path, ...]:
    """Write the tables and ``README.md`` to a new or empty folder, and return the files."""
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
    paths.append(folder / "README.md")
    with replacing(paths[-1]) as file:
        file.write(describe_shop(shop, file_format).encode())
    return tuple(paths)


def describe_shop(shop: Shop, file_format: FileFormat = "csv") -> str:
    """Return the ``README.md``: the tables, the planted crosses, and commands to run."""
    environment = Environment(
        loader=PackageLoader("crossgcn.data.datasets", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    tags = [f"{buys} ({' and '.join(words)})" for buys, words in OWN_TAGS.items()]
    members = [f"`{member}`" for cross in PLANTED for member in cross.members]
    ids = shop.nodes["customer"]
    return environment.get_template("shop_readme.md").render(
        suffix=file_format,
        num_nodes=f"{len(shop.nodes):,}",
        num_unlabelled=int(shop.nodes["buys"].isna().sum()),
        num_edges=f"{len(shop.edges):,}",
        num_new=f"{len(shop.new_nodes):,}",
        num_new_edges=f"{len(shop.new_edges):,}",
        classes=_list(list(CLASSES), "or"),
        crosses=shop.crosses,
        tags=_list(tags, "or"),
        members=_list(members, "and"),
        one_customer="u_881" if (ids == "u_881").any() else ids.iloc[-1],
    )


def _list(words: list[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
