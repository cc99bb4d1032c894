"""Targets that cannot be learned, and options that do not fit a target: exit code 2, one remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd
import pytest

Command = Callable[..., CompletedProcess[str]]
NUM_NODES = 90
QUICK = ("--epochs", 2, "--bags", 1, "--workers", 1, "--out", "run")
CLASSES = ["yes", "no"] * (NUM_NODES // 2)
NUMBERS = [f"{(row * 37 % 101) / 7:.2f}" for row in range(NUM_NODES)]
PARTS = ["train"] * 50 + ["validation"] * 20 + ["test"] * 20


def write_tables(y: Sequence[object], **columns: Sequence[object]) -> tuple[str, ...]:
    draws = np.random.default_rng(0)
    ids = [f"n{row}" for row in range(NUM_NODES)]
    sizes = draws.normal(size=NUM_NODES).round(4)
    nodes = pd.DataFrame({"id": ids, "size": sizes, "y": y, **columns})
    nodes.to_csv("nodes.csv", index=False)
    edges = pd.DataFrame({"source": ids, "target": ids[1:] + ids[:1]})
    edges.to_csv("edges.csv", index=False)
    return "nodes.csv", "edges.csv", "--target", "y"


def with_values(values: Sequence[str], at: slice, value: str) -> list[str]:
    changed = list(values)
    changed[at] = [value] * len(changed[at])
    return changed


@pytest.mark.parametrize(
    ("y", "options", "words"),
    [
        (["a"] * NUM_NODES, "", "nodes.csv, column y: all 90 labelled nodes are 'a'"),
        (["2.5"] * NUM_NODES, "", "row 2, column y: all 90 numbers to predict are '2.5'"),
        (
            with_values(NUMBERS, slice(4, 5), "inf"),
            "",
            "nodes.csv, row 6, column y: 'inf' is not a finite number",
        ),
        (CLASSES, "--metric r2", "nodes.csv, column y: metric 'r2' does not fit a target of cl"),
        (NUMBERS, "--metric roc_auc", "column y: metric 'roc_auc' does not fit a target of a num"),
        (NUMBERS, "--class-weight balanced", "column y: --class-weight is for classes"),
        (CLASSES, "--class-weight 1,2,3", "column y: --class-weight has 3 weights for 2 classes"),
        (
            with_values(CLASSES, slice(3, 4), "maybe"),
            "--rare-classes refuse",
            "nodes.csv, row 5, column y: class 'maybe' has 1 node",
        ),
    ],
)
def test_a_target_that_cannot_be_learned_is_refused(
    y: list[str], options: str, words: str, crossgcn: Command, tmp_path: Path
) -> None:
    tables = write_tables(y)
    done = crossgcn("train", *tables, *options.split(), *QUICK)
    assert done.returncode == 2 and words in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(("part", "rows"), [("validation", slice(50, 70)), ("test", slice(70, 90))])
def test_a_class_missing_from_a_split_is_refused(part: str, rows: slice, crossgcn: Command) -> None:
    tables = write_tables(with_values(CLASSES, rows, "yes"), split=PARTS)
    done = crossgcn("train", *tables, *QUICK)
    assert done.returncode == 2
    assert "nodes.csv, row 3, column split: class 'no' has 35 nodes" in done.stderr
    assert f"none of them for {part}; write {part} for some of them" in done.stderr


@pytest.mark.parametrize("rare_classes", ["drop", "merge"])
def test_a_class_of_one_node_is_dropped_or_merged(rare_classes: str, crossgcn: Command) -> None:
    y = with_values(CLASSES, slice(3, 4), "maybe")
    if rare_classes == "merge":
        y = with_values(y, slice(10, 13), "perhaps")
    tables = write_tables(y)
    balanced = ("--rare-classes", rare_classes, "--class-weight", "balanced", "--num-splits", 2)
    done = crossgcn("train", *tables, *balanced, *QUICK, "--json")
    assert done.returncode == 0, done.stderr
    classes = json.loads(Path("run/preprocess.json").read_bytes())["classes"]
    assert classes == ["no", "yes", *(["other"] if rare_classes == "merge" else [])]
    (warning, *_) = json.loads(done.stdout)["warnings"]
    assert "row 5, column y: class 'maybe' has 1 node" in warning
    predicted = crossgcn("predict", "run", "--out", "p.csv")
    assert predicted.returncode == 0 and set(pd.read_csv("p.csv")["predicted"]) <= set(classes)
