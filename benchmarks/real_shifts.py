"""Graphs that differ from those trained on: the next election, and another college.

``python -m benchmarks real --graph future`` and ``--graph transfer`` make the records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from benchmarks.harness import crossgcn
from benchmarks.real_graphs import Record, number
from benchmarks.records import markdown_table
from crossgcn import load_real
from crossgcn.data import make_splits, read_real

FUTURE_MODELS = ("linear", "cross-hops-1", "cross-hops-2", "boosting-hops", "perceptron-hops")
COLLEGES = ("facebook100/Amherst41", "facebook100/Haverford76")
NUM_SPLITS = 5

_SHARE, _LATER = "democratic_share", "democratic_share_2020"


def measure_future() -> dict[str, Any]:
    """Train and validate on the result of 2016, and test on that of 2020 in other counties.

    Neighbours show results of 2016 only. Splits are those of ``compare us-county``.
    """
    tables = read_real("us-county")
    folder = Path(os.environ["CROSSGCN_DATA"], "real", "us-county-2020")
    later = pd.read_csv(folder / "result.csv").set_index("fips")[_LATER]
    graph = load_real("us-county", target=_SHARE)
    nodes = tables.nodes.drop(columns=["winner", "state", "name"])
    id_column = graph.plan.id_column
    results: dict[str, list[float]] = {name: [] for name in FUTURE_MODELS}
    with TemporaryDirectory() as temporary:
        paths = [Path(temporary, f"{name}.csv") for name in ("nodes", "edges")]
        tables.edges.to_csv(paths[1], index=False)
        for number_, split in enumerate(
            make_splits(graph.data, "stratified", num_splits=NUM_SPLITS)
        ):
            changed = nodes.assign(part="")
            for part, places in zip(
                ("train", "validation", "test"), vars(split).values(), strict=True
            ):
                changed.loc[places.numpy(), "part"] = part
            is_test = changed["part"] == "test"
            changed.loc[is_test, _SHARE] = changed.loc[is_test, id_column].map(later)
            changed.to_csv(paths[0], index=False)
            words = (
                "--target",
                _SHARE,
                "--split-column",
                "part",
                "--models",
                ",".join(FUTURE_MODELS),
            )
            out = ("--workers", "1", "--out", f"{temporary}/{number_}")
            answer = crossgcn("compare", *map(str, paths), *words, *out).answer
            for model in answer["models"]:
                results[model["model"]] += model["test"]["r2"]
    about = {key: answer[key] for key in ("versions", "threads", "commit", "seed", "trials")}
    return {"record": "future", **about, "num_splits": NUM_SPLITS, "r2": results}


def measure_transfer() -> dict[str, Any]:
    """Train on one college, and predict every student of another, in both directions."""
    pairs = []
    for source, target in (COLLEGES, COLLEGES[::-1]):
        with TemporaryDirectory() as temporary:
            run, paths = Path(temporary, "run"), [Path(temporary, f"{i}.csv") for i in range(2)]
            trained = crossgcn("train", source, "--num-splits", "3", "--out", str(run)).answer
            tables = read_real(target)
            tables.nodes.assign(student="new" + tables.nodes["student"].astype(str)).to_csv(
                paths[0], index=False
            )
            ("new" + tables.edges.astype(str)).to_csv(paths[1], index=False)
            words = ("predict", str(run), *map(str, paths), "--out", f"{temporary}/predicted.csv")
            scored = crossgcn(*words).answer["scored"]
            pairs.append(
                {
                    "trained on": source,
                    "tested on": target,
                    "nodes": scored["nodes"],
                    "there": scored["metrics"],
                    "at home": trained["test"],
                }
            )
    about = {key: trained[key] for key in ("versions", "threads", "commit")}
    return {"record": "transfer", **about, "num_splits": 3, "pairs": pairs}


def future_markdown(record: Record, same: Record) -> str:
    """Return one table: R² on the next election, and on the one trained on.

    Args:
        same: The record of ``us-county`` with the same splits.
    """
    now = {model["model"]: model["test"]["r2"][: record["num_splits"]] for model in same["models"]}
    rows = [
        [f"`{name}`", number(mean(now[name]), "r2"), number(mean(values), "r2")]
        for name, values in record["r2"].items()
    ]
    return markdown_table(["trained on 2016", "tested on 2016", "tested on 2020"], rows)


def transfer_markdown(record: Record, records: Mapping[str, Record]) -> str:
    """Return one table: ROC-AUC on another college, and of a model trained there."""
    rows = []
    for pair in record["pairs"]:
        usual = (each for each in records.values() if each["train"] != "10%")
        found = next(each for each in usual if each["dataset"] == pair["tested on"])
        models = {model["model"]: model for model in found["models"]}
        there = models["cross-hops-2"]["test"]["roc_auc"]
        scores = mean(pair["at home"]["roc_auc"]), pair["there"]["roc_auc"], mean(there)
        rows.append(
            [pair["trained on"], pair["tested on"], *(number(s, "roc_auc") for s in scores)]
        )
    header = ["trained on", "tested on", "test nodes of the first", "all of the second"]
    return markdown_table([*header, "trained on the second"], rows)
