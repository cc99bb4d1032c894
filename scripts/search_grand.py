"""Search settings of cross-grand and of its twin without crosses, by validation accuracy.

Settings are drawn at random, the same for both models, and each is trained over the 20
splits released with the paper. No test node is read. Every result is a line of a file, so
that several processes, and several calls, add to one search; ``--collect`` puts the lines into
``results/findings/grand-search.json``. Settings with which a model diverges count as tried, and
their line says why there is no accuracy.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from crossgcn import Experiment, RunConfig
from crossgcn.data.atomic_file import write_json
from crossgcn.errors import BadInput, CrossGCNError, WorkFailed
from crossgcn.evaluation.findings_shares import parse_share
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


def try_settings(
    dataset: str, number: int, model: str, device: str, workers: int
) -> dict[str, Any]:
    """A model with the settings of a trial."""
    settings = draw_settings(dataset, number) | {"epochs": EPOCHS}
    order = MODELS[model]
    config = RunConfig.create(
        dataset=dataset,
        splits="authors",
        model=model,
        order=order if order > 1 else None,
        **settings,
    )
    row = {"dataset": dataset, "trial": number, "model": model, "settings": settings}
    try:
        (runs,) = Experiment([config]).run(device=device, workers=workers, read_test=False)
    except WorkFailed as error:
        nothing = {"validation_accuracy": None, "validation_mean": None}
        return row | nothing | {"failure": str(error)}
    return row | {
        "validation_accuracy": runs.validation_accuracy,
        "validation_mean": fmean(runs.validation_accuracy),
        "best_epoch": [record["best_epoch"] for record in runs.records],
        "seconds": runs.seconds,
    }


def search(options: argparse.Namespace) -> None:
    """Trials of one share of the numbers that no process has finished, until the time is up."""
    end = time.monotonic() + options.seconds
    share, shares = options.share
    options.folder.mkdir(parents=True, exist_ok=True)
    done = {_place(row) for row in read_rows(options.folder)}
    lines = options.folder / f"{options.dataset}-{share}-of-{shares}.jsonl"
    for number in range(share, options.trials, shares):
        left = [model for model in MODELS if (options.dataset, number, model) not in done]
        if left and time.monotonic() > end:
            return
        for model in left:
            row = try_settings(options.dataset, number, model, options.device, options.workers)
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            mean = row["validation_mean"]
            said = row["failure"] if mean is None else f"{mean:.4f}"
            print(f"{options.dataset} {number} {model}: {said}", flush=True)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Every line that was written, each trial of a model once: the one that came to an end."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise BadInput(
                    f"{path}, line {number}: is not JSON ({error}); delete that line"
                ) from None
    rows.sort(key=lambda row: (_place(row), row["validation_accuracy"] is None))
    once: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in rows:
        once.setdefault(_place(row), row)
    return list(once.values())


def _place(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["dataset"], row["trial"], row["model"]


def collect(options: argparse.Namespace) -> None:
    """All lines in one record."""
    rows = read_rows(options.folder)
    for row in rows:
        accuracies = row["validation_accuracy"]
        row["validation_mean"] = None if accuracies is None else fmean(accuracies)
    record = {"space": SPACE, "epochs": EPOCHS, "splits": "authors", "rows": rows}
    write_json(options.out, record | describe_environment(choose_device(options.device)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Search or collect, as asked; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        (collect if options.collect else search)(options)
    except CrossGCNError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dataset", nargs="?", default="citeseer")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no trial after these")
    parser.add_argument(
        "--share",
        type=parse_share,
        default=(0, 1),
        metavar="I/N",
        help="every N-th trial from the I-th, counted from 0",
    )
    parser.add_argument("--folder", type=Path, default=PROJECT / "runs" / "grand-search")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--collect", action="store_true", help="search nothing, write the record")
    parser.add_argument("--out", type=Path, default=PROJECT / "results/findings/grand-search.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
