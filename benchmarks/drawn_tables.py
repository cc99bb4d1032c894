"""Tables of nodes and edges of any size, as a user might have them."""

from __future__ import annotations

import numpy as np
import pandas as pd


def draw_tables(
    num_nodes: int, num_edges: int, seed: int = 0, num_columns: int = 4
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw customers, a tenth of them isolated, and weighted edges between them.

    Columns are numbers with missing values, categories, flags and dates. Some edges weigh 0, a
    twentieth is given again with another weight, and some join a node to itself. The target
    ``buys`` depends on a product of two columns.

    Args:
        num_nodes: Rows of the table of nodes.
        num_edges: Edges drawn.
        seed: Seed of all values.
        num_columns: Columns beside the id and the target, at least 4.
    """
    random = np.random.default_rng(seed)
    age = random.normal(40, 12, num_nodes).round(1)
    member = random.random(num_nodes) < 0.3
    score = (age - 40) / 12 * np.where(member, 2, -1) + random.normal(0, 1, num_nodes)
    days = pd.to_timedelta(random.integers(0, 900, num_nodes), "D")
    nodes = pd.DataFrame(
        {
            "id": [f"n{number}" for number in random.permutation(num_nodes)],
            "age": np.where(random.random(num_nodes) < 0.1, np.nan, age),
            "city": random.choice(["Porto", "Lyon", "Gent", "", "NA"], num_nodes),
            "member": member,
            "joined": pd.Timestamp("2020-01-01") + days,
            **{
                f"spent_{number}": random.normal(50, 15, num_nodes).round(1)
                for number in range(4, num_columns)
            },
            "buys": np.where(score > np.median(score), "yes", "no"),
        }
    )
    linked = nodes["id"].to_numpy()[: num_nodes * 9 // 10]
    ends = random.choice(linked, num_edges), random.choice(linked[: num_nodes // 3], num_edges)
    weights = random.choice([0, 0.5, 1, 2.25], num_edges)
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "weight": weights})
    again = edges.head(num_edges // 20).rename(columns={"source": "target", "target": "source"})
    loops = pd.DataFrame({"source": linked[:5], "target": linked[:5], "weight": 1.0})
    return nodes, pd.concat([edges, again.assign(weight=3.0), loops], ignore_index=True)
