"""Train and explain a model of the bundled counties, as the README's four lines do.

The script runs the commands a user would type and writes what they print, and the cells of the
cross in the README's picture, to ``results/counties.json``. It takes about a minute on two cores.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from math import inf, isnan
from pathlib import Path
from typing import Any

import pandas as pd

from crossgcn import TableModel
from crossgcn.data import read_real
from crossgcn.data.files import write_json

PROJECT = Path(__file__).parents[2]
OUT = PROJECT / "results" / "counties.json"

TRAIN = "train us-county --target democratic_share --out share"
EXPLAIN = "explain share --top 3"
NODE = "explain share --node 'San Francisco County' --top 3"
CROSS = {
    "median_income": (35_000, 40_000, 45_000, 50_000, 60_000),
    "unemployment_rate": (3, 4, 5, 6, 7),
}
"""The cross of the picture: of the crosses of two own columns, the most important one. Each column
with the limits of its ranges."""


def run(folder: Path, command: str) -> str:
    """Run a command of ``crossgcn`` and return what it prints."""
    words = [sys.executable, "-m", "crossgcn", *shlex.split(command)]
    wide = os.environ | {"COLUMNS": "110"}
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, env=wide
    )
    return done.stdout


def measure_cross(model: TableModel) -> dict[str, Any]:
    """Return the mean contribution of the cross in each cell, and how many counties are in it."""
    terms = model.terms()
    term = next(term for term in terms.terms if set(term.columns) == set(CROSS))
    counties = read_real("us-county").nodes.iloc[terms.nodes].reset_index(drop=True)
    ranges = [pd.cut(counties[name], [-inf, *at, inf], right=False) for name, at in CROSS.items()]
    cells = pd.Series(term.contributions[:, 0]).groupby(ranges, observed=False)
    means = cells.mean().unstack().to_numpy()
    return {
        "columns": list(CROSS),
        "limits": list(CROSS.values()),
        "means": [[None if isnan(mean) else round(mean, 6) for mean in row] for row in means],
        "counts": cells.size().unstack().to_numpy().tolist(),
        "importance": float(term.importance[0]),
        "rank": 1 + terms.strongest(order=2).index(term),
        "num_crosses": len(terms.strongest(order=2)),
    }


def measure() -> dict[str, Any]:
    """Return the answers of the commands, without what is long or depends on the machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed = {command: run(folder, command) for command in (TRAIN, EXPLAIN, NODE)}
        trained = json.loads((folder / "share" / "result.json").read_bytes())
        cross = measure_cross(TableModel.load(folder / "share"))
    kept = ("dataset", "target", "model", "order", "splits", "metric", "test", "mean", "sd")
    return {
        "train": {name: trained[name] for name in (*kept, "seconds", "versions", "commit")},
        "printed": printed,
        "cross": cross,
    }


if __name__ == "__main__":
    write_json(OUT, measure())
