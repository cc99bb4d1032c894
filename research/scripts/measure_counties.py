"""Train and explain a model of the bundled counties, as the README's first example does.

The script runs the commands a user would type and writes their answers to
``results/counties.json``. It takes about a minute on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from crossgcn.data.files import write_json

PROJECT = Path(__file__).parents[2]
OUT = PROJECT / "results" / "counties.json"

TRAIN = "train us-county --target democratic_share --out share"
EXPLAIN = "explain share --top 8"
NODE = "explain share --node 6075 --top 4"
"""San Francisco."""


def run(folder: str, command: str) -> dict[str, Any]:
    """Run a command of ``crossgcn`` and return its answer."""
    words = [sys.executable, "-m", "crossgcn", *command.split(), "--json"]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure() -> dict[str, Any]:
    """Return the answers of the commands, without what is long or depends on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        trained, terms, node = (run(folder, command) for command in (TRAIN, EXPLAIN, NODE))
    kept = ("dataset", "target", "model", "order", "splits", "metric", "test", "mean", "sd")
    return {
        "train": {name: trained[name] for name in (*kept, "seconds", "versions", "commit")},
        "terms": terms["terms"],
        "node": {name: node[name] for name in ("node", "score", "average", "terms", "other_terms")},
    }


if __name__ == "__main__":
    write_json(OUT, measure())
