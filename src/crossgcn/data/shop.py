"""An example to try everything on: a shop's customers, with crosses planted in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from crossgcn.data.shop_columns import CLASSES, PLANTED, PlantedCross
from crossgcn.data.shop_customers import allot, draw_customers
from crossgcn.data.shop_friends import draw_friends
from crossgcn.errors import BadInput

__all__ = ["Shop", "make_shop"]

UNLABELLED = 0.03
EDGES_PER_NODE = 5


@dataclass(frozen=True)
class Shop:
    nodes: pd.DataFrame
    edges: pd.DataFrame
    new_nodes: pd.DataFrame
    new_edges: pd.DataFrame
    new_answers: pd.DataFrame
    crosses: tuple[PlantedCross, ...]


def make_shop(num_nodes: int = 2000, *, seed: int = 0, crosses: bool = True) -> Shop:
    random = np.random.default_rng([seed, num_nodes])
    num_new = max(num_nodes // 20, 20)
    shares = np.array(list(CLASSES.values()))
    classes = np.concatenate([allot(shares, n, random) for n in (num_nodes, num_new)])
    customers = draw_customers(classes, crosses=crosses, random=random)
    ids = np.array([f"u_{n}" for n in range(1, len(classes) + 1)], dtype=object)
    known, new = np.arange(num_nodes), np.arange(num_nodes, len(classes))
    edges = draw_friends(classes[:num_nodes], known, EDGES_PER_NODE * num_nodes, random)
    new_edges = draw_friends(classes, new, EDGES_PER_NODE * num_new, random)
    customers.insert(0, "customer", ids)
    buys = np.array(list(CLASSES), dtype=object)[classes]
    labelled = customers.assign(buys=buys)
    nodes = labelled[:num_nodes].copy()
    nodes.loc[random.random(num_nodes) < UNLABELLED, "buys"] = pd.NA
    E = lambda e: pd.DataFrame({"customer": ids[e[0]], "friend": ids[e[1]]})
    return Shop(nodes, E(edges), customers[num_nodes:], E(new_edges), labelled[num_nodes:][["customer", "buys"]], PLANTED if crosses else ())
