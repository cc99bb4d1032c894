"""Run compare and explain on several draws of the example shop and check their answers.

The script runs the commands a user would type, on shops with and without planted crosses, and
writes their answers to ``results/shop.json``. It takes about three minutes per seed on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from crossgcn.data.files import write_json

PROJECT = Path(__file__).parents[2]
TOP = 20


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a command and return its output."""
    command = [sys.executable, "-m", "crossgcn", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure(seed: int) -> dict[str, Any]:
    """Measure both shops of one seed."""
    tables = ("nodes.csv", "edges.csv", "--target", "buys")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = run(folder, "example", "with", "--seed", str(seed))
        run(folder, "example", "without", "--seed", str(seed), "--no-crosses")
        compared = run(folder / "with", "compare", *tables)
        plain = run(folder / "without", "compare", *tables)
        trained = run(folder / "with", "train", *tables, "--model", "cross-gcn", "--out", "run")
        crosses = run(folder / "with", "explain", "run", "--raw", "--top", str(TOP))["crosses"]
    planted = {cross["buys"]: cross["cross"] for cross in made["crosses"]}
    named = {label: [c["cross"] for c in crosses if c["class"] == label] for label in planted}
    return {
        "seed": seed,
        "crosses": _keep(compared),
        "no_crosses": _keep(plain),
        "trained": {"mean": trained["mean"], "sd": trained["sd"]},
        "planted": planted,
        "rank": {
            label: named[label].index(cross) + 1 if cross in named[label] else None
            for label, cross in planted.items()
        },
        "strongest": [cross for label in planted for cross in _first(crosses, label, 3)],
        "versions": compared["versions"],
        "commit": compared["commit"],
    }


def _keep(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a comparison without its environment."""
    dropped = ("out", "dataset", "versions", "commit", "wall_seconds")
    return {key: value for key, value in summary.items() if key not in dropped}


def _first(crosses: list[dict[str, Any]], label: str, count: int) -> list[dict[str, Any]]:
    return [cross for cross in crosses if cross["class"] == label][:count]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--out", type=Path, default=PROJECT / "results" / "shop.json")
    options = parser.parse_args()
    found = []
    for seed in range(options.seeds):
        found.append(measure(seed))
        write_json(options.out, {"shops": found})
        helped = [
            found[-1][key]["answers"]["crosses"]["verdict"] for key in ("crosses", "no_crosses")
        ]
        print(f"seed {seed}: crosses {helped}, ranks {found[-1]['rank']}", flush=True)
