"""What the golden test runs: chains of commands, and what of each answer is kept.

``python tests/golden/stories.py`` runs all of them and writes ``results.json``. That is done once,
before a rebuilding: afterwards a result that differs is a change to explain, not to record.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).with_name("results.json")
Run = Callable[..., Any]
Answer = dict[str, Any]
Value = Any

BITS, ROUNDING = "bits", "rounding"
"""What may change: nothing; or what another order of sums in float32 changes."""


def scores(answer: Answer) -> Iterator[tuple[str, str, Value]]:
    """The test scores of a training, and how many weights it has."""
    yield "parameters", BITS, answer["parameters"]
    yield "task", BITS, [answer["task"], answer["metric"]]
    for metric, values in answer["test"].items():
        yield metric, ROUNDING, values


def splits(_: Answer) -> Iterator[tuple[str, str, Value]]:
    """Which nodes train, validate and test."""
    with np.load("run/splits.npz", allow_pickle=False) as arrays:
        yield "splits", BITS, digest(arrays["roles"])


def encoded_table(_: Answer) -> Iterator[tuple[str, str, Value]]:
    """The features that the columns of a table became."""
    from crossgcn import read_graph

    graph = read_graph("run/graph.npz")
    x = graph.x.to_dense()
    names = json.loads(Path("run/preprocess.json").read_text())["feature_names"]
    yield "features", BITS, digest(x.numpy().astype(np.float32))
    yield "feature names", BITS, [len(names), digest(np.array(names, dtype="U64"))]
    yield "edges", BITS, digest(np.sort(graph.edge_index.numpy()[0]))


def compared(answer: Answer) -> Iterator[tuple[str, str, Value]]:
    """The score and the paired difference of each model."""
    for model in answer["models"]:
        difference = model.get("paired_difference") or 0.0
        yield model["model"], ROUNDING, [model["mean"], difference]


def terms(answer: Answer) -> Iterator[tuple[str, str, Value]]:
    """The five strongest terms of the first class, and the average score."""
    first = answer["classes"][-1]
    of_class = [term for term in answer["terms"] if term["class"] == first][:5]
    yield "terms", ROUNDING, {name(term): term["importance"] for term in of_class}
    yield "average", ROUNDING, [answer["average"][first]]


def one_node(answer: Answer) -> Iterator[tuple[str, str, Value]]:
    """The score of a node, and its five strongest terms."""
    of_node = {name(each): each.get("value", each.get("contribution")) for each in answer["terms"]}
    strongest = sorted(of_node, key=lambda each: -abs(of_node[each]))[:5]
    yield "score", ROUNDING, [answer["score"], answer["average"]]
    yield "terms of the node", ROUNDING, {each: of_node[each] for each in strongest}


def predictions(_: Answer) -> Iterator[tuple[str, str, Value]]:
    """The file that ``predict`` wrote: its columns, and what is predicted for some nodes."""
    with Path("predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ids = next(iter(rows[0]))
    yield "rows", BITS, [len(rows), ids, [row[ids] for row in rows[:3]]]
    of_class = [each for each in rows[0] if each.startswith(("probability: ", "p("))]
    number = of_class[0] if of_class else "predicted"
    yield "predicted", ROUNDING, [float(row[number]) for row in rows[:3]]


def problems(answer: Answer) -> Iterator[tuple[str, str, Value]]:
    """How columns are read."""
    kinds = {column["name"]: column["kind"] for column in answer["columns"]}
    yield "kinds of columns", BITS, kinds


def name(term: Answer) -> str:
    """The columns of a term."""
    return " × ".join(term["columns"])


def digest(array: Any) -> str:
    """A hash of an array's shape and bytes."""
    return hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()[:16]


def write_tables() -> None:
    """Two hundred nodes with every kind of column, their edges, and two rows that are new."""
    random = np.random.default_rng(7)
    count = 200
    group = random.integers(0, 2, count)
    words = np.array(["red", "green", "blue", "gold"])
    nodes = pd.DataFrame(
        {
            "id": [f"n-{i:03}" for i in range(count)],
            "size": np.where(random.random(count) < 0.1, "", random.normal(50, 9, count).round(2)),
            "visits": random.poisson(4, count),
            "income": np.exp(random.normal(8, 0.5, count)).round(2),
            "plan": random.choice(["basic", "plus", "pro"], count, p=[0.5, 0.3, 0.2]),
            "member": random.random(count) < 0.4 + 0.2 * group,
            "joined": [f"20{10 + i % 9}-0{1 + i % 7}-1{i % 8}" for i in range(count)],
            "colours": [";".join(words[random.random(4) < 0.4]) for _ in range(count)],
            "town": random.choice([f"town {letter}" for letter in "ABCDEFGHIJ"], count),
            "left": np.where(group + random.normal(0, 0.7, count) > 0.5, "yes", "no"),
        }
    )
    ends = random.integers(0, count, (2, 500))
    ends[1] = np.where(random.random(500) < 0.6, ends[0] - ends[0] % 2 + group[ends[0]], ends[1])
    ends = ends[:, ends[0] != ends[1]]
    edges = pd.DataFrame(
        {"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]}
    ).drop_duplicates()
    nodes.to_csv("nodes.csv", index=False)
    edges.to_csv("edges.csv", index=False)
    new = nodes.drop(columns="left").head(3).assign(id=["new-1", "new-2", "new-3"], visits=9)
    new.to_csv("new.csv", index=False)
    pd.DataFrame({"source": ["new-1", "new-2"], "target": ["n-005", "n-006"]}).to_csv(
        "new-edges.csv", index=False
    )


COUNTIES = "--num-splits 2 --epochs 15 --out run"
CITATION = "train citeseer --num-splits 2 --epochs 60 --out run"
PLANTED = "train citeseer-cross --num-layers 1 --num-splits 2 --epochs 150 --out run"
Story = list[tuple[str, tuple[Callable[[Answer], Iterator[tuple[str, str, Value]]], ...]]]
STORIES: dict[str, Story] = {
    "share": [
        (f"train us-county --target democratic_share {COUNTIES}", (scores, splits, encoded_table)),
        ("explain run", (terms,)),
        ("explain run --node 6075", (one_node,)),
        ("predict run --out predictions.csv", (predictions,)),
    ],
    "winner": [
        (f"train us-county --target winner {COUNTIES}", (scores, splits, encoded_table)),
        ("explain run", (terms,)),
        ("explain run --node 6075", (one_node,)),
        ("predict run --out predictions.csv", (predictions,)),
    ],
    "every kind of column": [
        ("check nodes.csv edges.csv --target left", (problems,)),
        (
            "train nodes.csv edges.csv --target left --num-splits 2 --epochs 15 --out run",
            (scores, splits, encoded_table),
        ),
        ("explain run", (terms,)),
        ("predict run new.csv new-edges.csv --out predictions.csv", (predictions,)),
    ],
    "models of a table": [
        (
            "compare us-county --target winner --num-splits 2 --epochs 5 --out run --models "
            "majority-or-mean,linear,boosting,boosting-hops,cross-hops-1,cross-hops-2",
            (compared,),
        ),
    ],
    "citation": [
        (f"{CITATION} --model cross-gcn", (scores, splits)),
        (f"{CITATION}-gin --model gin --num-layers 1", (scores,)),
        (f"{CITATION}-fix --model cross-gcn-release-fix --num-layers 1", (scores,)),
    ],
    "citation, compared": [
        (
            "compare citeseer --models gcn,cross-gcn-paper --num-splits 2 --epochs 40 --out run",
            (compared,),
        ),
    ],
    "planted crosses": [
        (f"{PLANTED} --train all", (scores, splits)),
        (f"{PLANTED}-20 --train 20 --order-weights fixed", (scores,)),
    ],
}


def tell(story: Story, run: Run) -> Iterator[tuple[str, str, Value]]:
    """Run a story in the current folder; yield the label, mark and value of each result."""
    write_tables()
    for number, (command, readers) in enumerate(story):
        done = run(*shlex.split(command), "--json")
        assert done.returncode == 0, f"{command}: {done.stderr}"
        answer = json.loads(done.stdout)
        for read in readers:
            for label, mark, value in read(answer):
                yield f"{number} {shlex.split(command)[0]}: {label}", mark, value


def record() -> None:
    """Write ``results.json``."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
    from conftest_fixtures import run_command

    from crossgcn.training.records import describe_environment

    told: dict[str, Any] = {}
    for title, story in STORIES.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            told[title] = {
                label: {"may change": mark, "value": value}
                for label, mark, value in tell(story, run_command)
            }
    content = {"environment": describe_environment(), "stories": told}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    record()
