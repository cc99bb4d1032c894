"""Tables of a shop's customers and their friends: a pair of values decides what a customer buys."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

CLASSES = ("books", "garden", "sports", "toys")
WORDS = {
    "gender": ("female", "male", "undisclosed"),
    "membership": ("basic", "silver", "gold", "family"),
    "channel": ("search", "social", "friend", "flyer"),
    "payment": ("card", "wallet", "invoice", "transfer"),
    "city": ("Lisbon", "Porto", "Braga", "Faro"),
    "device": ("phone", "laptop", "tablet", "desktop"),
    "visits": ("weekly", "monthly", "rarely"),
    "delivery": ("home", "locker", "pickup"),
}
PAIRS: dict[str, dict[str, Any]] = {
    "books": {"gender": "female", "age": 22},
    "garden": {"membership": "gold", "income": 7000},
    "sports": {"channel": "social", "payment": "wallet"},
    "toys": {"city": "Porto", "device": "tablet"},
}
TAGS = ("cooking", "film", "music", "travel", "history", "herbs", "running", "puzzles")


class Shop(NamedTuple):
    nodes: pd.DataFrame
    edges: pd.DataFrame
    new_nodes: pd.DataFrame
    new_edges: pd.DataFrame
    new_answers: pd.DataFrame


def make_shop(num_nodes: int, seed: int = 0) -> Shop:
    random = np.random.default_rng([seed, num_nodes])
    size = num_nodes + num_nodes // 20
    classes = random.integers(len(CLASSES), size=size)
    frame = pd.DataFrame({"customer": [f"u_{number}" for number in range(1, size + 1)]})
    for name, words in WORDS.items():
        frame[name] = np.array(words, object)[random.integers(len(words), size=size)]
    frame["age"] = random.integers(16, 60, size)
    frame["income"] = random.integers(90, 2000, size) * 10
    frame["newsletter"] = random.integers(2, size=size)
    for label, pair in enumerate(PAIRS.values()):
        members = (classes == label) & (random.random(size) < 0.8)
        for name, value in pair.items():
            frame.loc[members, name] = value
    liked = random.random((size, len(TAGS))) < 0.25
    liked[np.arange(size), 4 + classes] |= random.random(size) < 0.4
    frame["tags"] = [";".join(np.array(TAGS)[row]) or None for row in liked]
    frame.loc[random.random(size) < 0.02, "city"] = None
    buys = pd.Series(np.array(CLASSES, object)[classes], name="buys")
    new = slice(num_nodes, None)
    answers = pd.concat([frame["customer"], buys], axis=1).iloc[new].reset_index(drop=True)
    return Shop(
        frame.iloc[:num_nodes].assign(buys=buys.mask(random.random(size) < 0.03)),
        _friends(frame["customer"], classes, np.arange(num_nodes), np.arange(num_nodes), random),
        frame.iloc[new].reset_index(drop=True),
        _friends(frame["customer"], classes, np.arange(num_nodes, size), np.arange(size), random),
        answers,
    )


def _friends(
    ids: pd.Series, classes: Any, askers: Any, others: Any, random: np.random.Generator
) -> pd.DataFrame:
    """Five friends each; a third of them buy the same."""
    first = np.repeat(askers, 5)
    second = random.choice(others, first.size)
    alike = random.random(first.size) < 0.35
    for label in range(len(CLASSES)):
        here = alike & (classes[first] == label)
        second[here] = random.choice(others[classes[others] == label], here.sum())
    ends = np.stack([first, second])[:, first != second]
    _, once = np.unique(np.sort(ends, axis=0), axis=1, return_index=True)
    names = ids.to_numpy(dtype=object)[ends[:, np.sort(once)]]
    return pd.DataFrame({"customer": names[0], "friend": names[1]})


def write_shop(folder: Path, num_nodes: int = 400, seed: int = 0) -> Shop:
    folder.mkdir(parents=True, exist_ok=True)
    shop = make_shop(num_nodes, seed)
    for name, table in shop._asdict().items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return shop
