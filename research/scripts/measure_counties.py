"""Train and explain a model of the bundled counties, as the README's four lines do.

The script runs the commands a user would type and writes what they print, and the cells of the
cross in the README's picture, to ``results/counties.json``. It takes about a minute on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from crossgcn import TableModel
from crossgcn.data import read_real
from crossgcn.data.files import write_json

PROJECT = Path(__file__).parents[2]
OUT = PROJECT / "results" / "counties.json"

TRAIN = "train us-county --target democratic_share --out share"
EXPLAIN = "explain share --top 5"
NODE = "explain share --node 6075 --top 5"
"""San Francisco."""
CROSS = ("bachelor_rate", "rural_urban_code")
RANGES = (0, 12, 15, 19, 26, 100)
"""Of the number, in percent: about a fifth of the counties in each."""


def run(folder: Path, command: str) -> str:
    """Run a command of ``crossgcn`` and return what it prints."""
    words = [sys.executable, "-m", "crossgcn", *command.split()]
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
    labels = [f"{low}–{high} %" for low, high in zip(RANGES[1:-2], RANGES[2:-1], strict=True)]
    labels = [f"under {RANGES[1]} %", *labels, f"{RANGES[-2]} % or more"]
    number = pd.cut(counties[CROSS[0]], RANGES, labels=labels, right=False)
    cells = pd.Series(term.contributions[:, 0]).groupby([counties[CROSS[1]], number], observed=False)
    means, counts = cells.mean().unstack(), cells.size().unstack()
    return {
        "columns": CROSS,
        "ranges": labels,
        "values": list(means.index),
        "means": [[None if pd.isna(m) else round(m, 6) for m in row] for row in means.to_numpy()],
        "counts": counts.to_numpy().tolist(),
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
