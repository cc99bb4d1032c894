"""Search settings of cross-grand and of its twin without crosses, by validation accuracy.

Settings are drawn at random, the same for both models, and each is trained over the 20
splits released with the paper. No test node is read. Every result is a line of a file, so
that several processes, and several calls, add to one search; ``--collect`` puts the lines into
``results/findings/grand-search.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from crossgcn import Experiment, RunConfig
from crossgcn.data.atomic_file import write_json
from crossgcn.graph.device_inputs import choose_device
from crossgcn.training.environment import describe_environment

PROJECT = Path(__file__).parents[1]
MODELS = {"grand": 1, "cross-grand": 2}
SPACE: dict[str, list[Any]] = {
    "hidden_channels": [32, 64],
    "dropout": [0.2, 0.4, 0.5, 0.6],
    "input_dropout": [0.0, 0.2, 0.5, 0.7],
    "hops": [4, 6, 8, 10],
    "node_drop": [0.3, 0.4, 0.5, 0.6],
    "consistency": [0.5, 0.7, 1.0, 1.5],
    "temperature": [0.1, 0.2, 0.3, 0.5],
    "warm_up": [50, 100, 200],
    "weight_decay": [5e-4, 1e-3, 2e-3],
    "learning_rate": [0.01, 0.02, 0.05],
    "aggregate_first": [True, True, False],
    "scaling": ["none", "none", "unit"],
    "draws": [2, 2, 2, 4],
}
EPOCHS = 300


def draw_settings(dataset: str, number: int) -> dict[str, Any]:
    """The settings of one trial, which depend on its number alone."""
    generator = random.Random(f"{dataset} {number}")
    return {name: generator.choice(values) for name, values in SPACE.items()}


def try_settings(dataset: str, number: int, device: str, workers: int) -> list[dict[str, Any]]:
    """Both models with the settings of a trial."""
    rows = []
    for model, order in MODELS.items():
        settings = draw_settings(dataset, number) | {"epochs": EPOCHS}
        config = RunConfig.create(
            dataset=dataset,
            splits="authors",
            model=model,
            order=order if order > 1 else None,
            **settings,
        )
        (runs,) = Experiment([config]).run(device=device, workers=workers, read_test=False)
        values = runs.validation_accuracy
        rows.append(
            {
                "dataset": dataset,
                "trial": number,
                "model": model,
                "settings": settings,
                "validation_accuracy": values,
                "best_epoch": [record["best_epoch"] for record in runs.records],
                "seconds": runs.seconds,
            }
        )
    return rows


def search(options: argparse.Namespace) -> None:
    """Trials of one share of the numbers, until the time is up."""
    end = time.monotonic() + options.seconds
    share, shares = (int(part) for part in options.share.split("/"))
    lines = options.folder / f"{options.dataset}-{share}-of-{shares}.jsonl"
    options.folder.mkdir(parents=True, exist_ok=True)
    known = lines.read_text().splitlines() if lines.exists() else []
    done = {json.loads(line)["trial"] for line in known}
    for number in range(share - 1, options.trials, shares):
        if number in done:
            continue
        if time.monotonic() > end:
            return
        rows = try_settings(options.dataset, number, options.device, options.workers)
        with lines.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        for row in rows:
            mean = sum(row["validation_accuracy"]) / len(row["validation_accuracy"])
            print(f"{options.dataset} {number} {row['model']}: {mean:.4f}", flush=True)


def collect(options: argparse.Namespace) -> None:
    """All lines in one record."""
    rows = [
        json.loads(line)
        for path in sorted(options.folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    rows.sort(key=lambda row: (row["dataset"], row["trial"], row["model"]))
    for row in rows:
        row["validation_mean"] = sum(row["validation_accuracy"]) / len(row["validation_accuracy"])
    record = {"space": SPACE, "epochs": EPOCHS, "splits": "authors", "rows": rows}
    write_json(options.out, record | describe_environment(choose_device(options.device)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dataset", nargs="?", default="citeseer")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no trial after these")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="the I-th of N processes")
    parser.add_argument("--folder", type=Path, default=PROJECT / "runs" / "grand-search")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--out", type=Path, default=PROJECT / "results/findings/grand-search.json")
    arguments = parser.parse_args()
    (collect if arguments.collect else search)(arguments)
