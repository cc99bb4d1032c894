"""Search settings of a model and of its baseline without crosses, by validation accuracy.

There are two searches: ``grand``, the recipe on the citation graphs, and ``orders``, planted
crosses of three and of four features. Settings are drawn at random, the same for both models, and
each is trained over several splits. No test node is read. Every result is a line of a file, so
that several processes and several calls can extend one search. ``--collect`` writes the lines to
``results/findings/NAME-search.json``. Settings with which a model diverges count as tried; their
line says why there is no accuracy.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from crossgcn import Experiment, RunConfig
from crossgcn.data.files import write_json
from crossgcn.errors import BadInput, CrossGCNError, WorkFailed
from crossgcn.graph.prepared import choose_device
from crossgcn.training.records import describe_environment
from research.findings.cells import parse_share

PROJECT = Path(__file__).parents[2]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Search:
    """A search space and the models to search for.

    Attributes:
        models: The model and its baseline, each with its fixed settings.
        settings: Settings of every training.
        space: Values to draw from.
        by_dataset: Further values, by dataset.
        starts: Settings that are tried before any is drawn, by dataset.
    """

    models: Mapping[str, Settings]
    settings: Settings
    space: Mapping[str, Sequence[Any]]
    by_dataset: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    starts: Mapping[str, Sequence[Settings]] = field(default_factory=dict)

    def draw(self, dataset: str, number: int) -> dict[str, Any]:
        """Return the settings of one trial; they depend only on its number."""
        starts = self.starts.get(dataset, ())
        if number < len(starts):
            return dict(starts[number])
        generator = random.Random(f"{dataset} {number}")
        space = {**self.space, **self.by_dataset.get(dataset, {})}
        return {name: generator.choice(values) for name, values in space.items()}


SEARCHES = {
    "grand": Search(
        models={"grand": {"model": "grand"}, "cross-grand": {"model": "cross-grand", "order": 2}},
        settings={"splits": "authors"},
        space={
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
            "epochs": [300],
        },
    ),
    "orders": Search(
        models={"no crosses": {"order": 1}, "crosses": {}},
        settings={"splits": "authors", "num_splits": 3, "train": "all", "model": "cross-gcn"},
        space={
            "hidden_channels": [16, 32, 64, 128],
            "order_weights": ["gated", "learned", "attention"],
            "scaling": ["none", "unit"],
            "dropout": [0.1, 0.2, 0.3, 0.4],
            "weight_decay": [1e-5, 5e-4, 1e-3, 2e-3, 4e-3],
            "learning_rate": [0.01, 0.02],
            "epochs": [500, 800],
            "bias": [True],
        },
        by_dataset={
            "citeseer-cross-3": {"order": [[3], [3, 1], [3, 3], [3, 1, 1]]},
            "citeseer-cross-4": {
                "order": [[4, 1], [4, 1, 1], [4, 1, 1, 1]],
                "hidden_channels": [64, 128, 256, 512],
                "aggr": ["gcn", "appnp"],
            },
        },
        starts={
            "citeseer-cross-3": [
                {
                    "hidden_channels": 16,
                    "order_weights": "gated",
                    "dropout": 0.2,
                    "weight_decay": 1e-5,
                    "learning_rate": 0.02,
                    "epochs": 500,
                    "bias": True,
                    "order": [3, 3],
                }
            ],
            "citeseer-cross-4": [
                {
                    "hidden_channels": 128,
                    "order_weights": "learned",
                    "dropout": 0.3,
                    "weight_decay": 2e-3,
                    "learning_rate": 0.02,
                    "epochs": 800,
                    "bias": True,
                    "order": [4, 1, 1, 1],
                }
            ],
        },
    ),
}


def try_settings(
    search: Search, dataset: str, number: int, model: str, device: str, workers: int
) -> dict[str, Any]:
    """Train a model with the settings of a trial."""
    settings = search.draw(dataset, number)
    if "order" in settings:
        settings["num_layers"] = len(settings["order"])
    config = RunConfig.create(
        dataset=dataset, **{**search.settings, **settings, **search.models[model]}
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
    """Run the unfinished trials of one share, until the time is up."""
    end = time.monotonic() + options.seconds
    chosen = SEARCHES[options.search]
    share, shares = options.share
    options.folder.mkdir(parents=True, exist_ok=True)
    done = {_place(row) for row in read_rows(options.folder)}
    lines = options.folder / f"{options.dataset}-{share}-of-{shares}.jsonl"
    for number in range(share, options.trials, shares):
        left = [model for model in chosen.models if (options.dataset, number, model) not in done]
        if left and time.monotonic() > end:
            return
        for model in left:
            row = try_settings(
                chosen, options.dataset, number, model, options.device, options.workers
            )
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            mean = row["validation_mean"]
            said = row["failure"] if mean is None else f"{mean:.4f}"
            print(f"{options.dataset} {number} {model}: {said}", flush=True)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Read all lines; of repeated trials of a model, keep the one that finished."""
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
    """Collect all lines in one record."""
    rows = read_rows(options.folder)
    for row in rows:
        accuracies = row["validation_accuracy"]
        row["validation_mean"] = None if accuracies is None else fmean(accuracies)
    record = {**vars(SEARCHES[options.search]), "rows": rows}
    write_json(options.out, record | describe_environment(choose_device(options.device)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Search or collect, and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    name = f"{options.search}-search"
    options.folder = options.folder or PROJECT / "runs" / name
    options.out = options.out or PROJECT / "results" / "findings" / f"{name}.json"
    if not (options.collect or options.dataset):
        parser.error("give a dataset to search on, or --collect")
    try:
        (collect if options.collect else search)(options)
    except CrossGCNError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("search", choices=SEARCHES)
    parser.add_argument("dataset", nargs="?", help="dataset; --collect uses all datasets")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no trial after this time")
    parser.add_argument(
        "--share",
        type=parse_share,
        default=(0, 1),
        metavar="I/N",
        help="every N-th trial from the I-th, counted from 0",
    )
    parser.add_argument("--folder", type=Path, help="folder of results (runs/NAME-search)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--collect", action="store_true", help="only write the record")
    parser.add_argument("--out", type=Path, help="the record (results/findings/NAME-search.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
