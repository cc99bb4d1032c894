"""Tables with nothing wrong, at which no alarm should go off."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["draw_edges", "make_customers", "make_random_nodes"]


def make_customers(num_nodes: int = 600, seed: int = 0) -> pd.DataFrame:
    """Customers as a company has them: eleven columns, some cells empty, two classes."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 80, num_nodes)
    income = np.exp(random.normal(8, 0.5, num_nodes)).round(2)
    visits = random.poisson(4, num_nodes)
    plan = random.choice(["basic", "plus", "pro"], num_nodes, p=[0.5, 0.3, 0.2])
    gender = random.choice(["female", "male", ""], num_nodes, p=[0.5, 0.45, 0.05])
    words = np.array(["sale", "new", "gift", "garden", "books"])
    score = (age < 40) + (plan == "pro") + random.normal(0, 1, num_nodes)
    return pd.DataFrame(
        {
            "customer": [f"c-{number:04}" for number in range(num_nodes)],
            "gender": gender,
            "age": np.where(random.random(num_nodes) < 0.03, "", age.astype(str)),
            "income": income,
            "city": random.choice([f"city {letter}" for letter in "ABCDEFGH"], num_nodes),
            "plan": plan,
            "newsletter": random.random(num_nodes) < 0.4,
            "visits": visits,
            "rating": random.integers(1, 6, num_nodes),
            "tags": [";".join(words[random.random(5) < 0.4]) for _ in range(num_nodes)],
            "leaves": np.where(score > 0.7, "yes", "no"),
        }
    )


def make_random_nodes(seed: int) -> pd.DataFrame:
    """A few hundred nodes with columns of kinds drawn at random, and two to five classes."""
    random = np.random.default_rng([1, seed])
    num_nodes = int(random.integers(200, 800))
    columns: dict[str, NDArray[np.generic]] = {"id": random.permutation(num_nodes) * 7 + 10**17}
    for number in range(int(random.integers(3, 15))):
        kind = random.choice(["few", "many", "normal", "heavy", "count", "flag"])
        columns[f"{kind}{number}"] = {
            "few": random.choice(list("abc"), num_nodes, p=[0.6, 0.3, 0.1]),
            "many": random.choice([f"town {i}" for i in range(15)], num_nodes),
            "normal": random.normal(50, 10, num_nodes).round(2),
            "heavy": np.exp(random.normal(3, 2, num_nodes)).round(3),
            "count": random.poisson(20, num_nodes),
            "flag": random.random(num_nodes) < 0.2,
        }[str(kind)]
    num_classes = int(random.integers(2, 6))
    columns["label"] = np.array(list("vwxyz"))[random.integers(0, num_classes, num_nodes)]
    return pd.DataFrame(columns)


def draw_edges(ids: pd.Series, classes: pd.Series, seed: int) -> pd.DataFrame:
    """A ring through all nodes, and three edges each, most of them within a class."""
    random = np.random.default_rng([2, seed])
    size = len(ids)
    pairs = {(number, number + 1) for number in range(size - 1)}
    for number in range(size):
        like = np.flatnonzero((classes == classes.iloc[number]).to_numpy())
        for other in (*random.choice(like, 2), random.integers(size)):
            low, high = sorted((number, int(other)))
            if low < high:
                pairs.add((low, high))
    source, target = np.array(sorted(pairs)).T
    named = ids.to_numpy()
    return pd.DataFrame({"source": named[source], "target": named[target]})
