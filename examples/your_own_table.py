"""Two CSV files of your own: train, explain one term and one node, predict new rows.

python examples/your_own_table.py

The tables are drawn so that the answer is known: people in a city buy if they are young, or if they
are old and their friends are young.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from crossgcn import from_tables


def write_tables(folder: Path, people: int = 400) -> None:
    """Write people.csv and friends.csv, and new people with their friends in two more."""
    draw = np.random.default_rng(0)
    ids = [f"p{number}" for number in range(people + 5)]
    age = draw.integers(18, 80, people + 5)
    city = draw.choice(["Bern", "Basel", "Chur"], people + 5)
    first = np.repeat(np.arange(people + 5), 3)
    second = draw.integers(people, size=len(first))
    young_friends = np.bincount(first, weights=age[second] < 40, minlength=people + 5) >= 2
    buys = np.where((age < 40) | young_friends, "yes", "no")
    table = pd.DataFrame({"id": ids, "age": age, "city": city, "buys": buys})
    table[:people].to_csv(folder / "people.csv", index=False)
    table[people:].drop(columns="buys").to_csv(folder / "new.csv", index=False)
    names = np.array(ids)
    friends = pd.DataFrame({"from": names[first], "to": names[second]})
    friends[: 3 * people].to_csv(folder / "friends.csv", index=False)
    friends[3 * people :].to_csv(folder / "new_friends.csv", index=False)


def main() -> None:
    """Follow the path of a user."""
    write_tables(Path())
    model = from_tables(
        "people.csv", "friends.csv", "buys", relation="friends", num_splits=2, bags=2, epochs=40
    ).fit()
    print(model.scores.round(3).to_string())

    print("\nThe strongest terms:")
    print(model.explain().to_frame()[["term", "importance", "error"]].head(6).to_string())
    print("\nWhat the score of p7 is made of:")
    print(model.explain(node="p7").to_frame()[["term", "value", "shown"]].head(6).to_string())
    print("\nNew people:")
    print(model.predict("new.csv", "new_friends.csv").to_string())
    page = model.report("people.html")
    print(f"\n{page} shows it all")


if __name__ == "__main__":
    main()
