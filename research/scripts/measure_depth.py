"""Train models of high order and of many layers, with and without techniques that stabilise them.

The script trains over three splits, against the order (with two layers) and against depth (with
order 2). It writes the test accuracies of the selected epochs and the gradients at initialisation
to ``results/depth.json``, and draws ``docs/figures/depth.png`` from that file. It takes about five
minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn import CrossGCN, PreparedGraph, load_dataset, train_full_batch
from crossgcn.data.files import write_json
from crossgcn.data.splits import Split, make_splits
from crossgcn.models.node_classifier import calibrate
from crossgcn.training.records import describe_environment
from crossgcn.training.selection import Diverged
from research.findings.depth import write_depth_figure

PROJECT = Path(__file__).parents[2]
ORDERS = tuple(range(1, 9))
DEPTHS = (1, 2, 4, 8, 16)
SPLITS = 3
SETTINGS: dict[str, Any] = {"hidden_channels": 16, "learning_rate": 0.02, "weight_decay": 5e-4}
DATASETS: dict[str, dict[str, Any]] = {
    "citeseer": {"train": 20, "dropout": 0.5},
    "citeseer-cross": {"train": "all", "dropout": 0.2},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"residual": "add"},
    "scaled": {"scaling": "unit"},
    "scaled, normed residual": {"scaling": "unit", "residual": "norm"},
}
CURVES = {
    "order": [name for name in VARIANTS if name != "residual"],
    "depth": list(VARIANTS),
}
"""Residual connections need layers of equal width; a two-layer model has none."""


class Case(NamedTuple):
    """One training: a model, a split, and the curve that the result belongs to."""

    dataset: str
    variant: str
    sweep: str
    value: int
    split: int

    @property
    def order(self) -> int:
        """Return the highest order of all layers."""
        return self.value if self.sweep == "order" else 2

    @property
    def num_layers(self) -> int:
        """Return the number of layers."""
        return self.value if self.sweep == "depth" else 2


def list_cases() -> Iterator[Case]:
    """Return all cases, longest first, so that no long one is left for the end."""
    for sweep, values in (("depth", DEPTHS[::-1]), ("order", ORDERS[::-1])):
        for value in values:
            for dataset in DATASETS:
                for variant in CURVES[sweep]:
                    for split in range(SPLITS):
                        yield Case(dataset, variant, sweep, value, split)


@cache
def prepare(dataset: str) -> tuple[Data, PreparedGraph, list[Split]]:
    """Load and prepare a dataset, once per process."""
    data = load_dataset(dataset)
    splits = make_splits(data, num_splits=SPLITS, train=DATASETS[dataset]["train"])
    return data, PreparedGraph(data.x, data.edge_index), splits


def build(case: Case) -> CrossGCN:
    """Build a newly initialised model."""
    data, graph, splits = prepare(case.dataset)
    torch.manual_seed(case.split)
    model = CrossGCN(
        data.x.size(1),
        SETTINGS["hidden_channels"],
        case.num_layers,
        data.num_classes,
        DATASETS[case.dataset]["dropout"],
        order=case.order,
        **VARIANTS[case.variant],
    )
    if not model.is_calibrated:
        calibrate(model, *graph.view(splits[case.split].train, model.propagations))
    return model


def train(case: Case, epochs: int) -> dict[str, float] | None:
    """Train and return the accuracies of the selected epoch, or none if training diverged."""
    torch.set_num_threads(1)
    data, graph, splits = prepare(case.dataset)
    try:
        result = train_full_batch(
            build(case),
            graph,
            data.y,
            splits[case.split],
            seed=case.split,
            epochs=epochs,
            learning_rate=SETTINGS["learning_rate"],
            weight_decay=SETTINGS["weight_decay"],
        )
    except Diverged:
        return None
    assert result.test_accuracy is not None
    return {"validation": result.validation_score, "test": result.test_accuracy}


def measure_gradients(dataset: str, variant: str, sweep: str) -> list[float]:
    """Return gradients of the first loss, without dropout, as medians over splits.

    In the sweep over the order: the absolute gradient of the first layer's order weights, from
    order 2 on. In the sweep over depth: the norm of the gradient of each layer's linear part.
    """
    value = ORDERS[-1] if sweep == "order" else DEPTHS[-1]
    found = []
    for split in range(SPLITS):
        case = Case(dataset, variant, sweep, value, split)
        data, graph, splits = prepare(dataset)
        model = build(case).eval()
        nodes = splits[split].train
        loss = cross_entropy(model(*graph.view(nodes, model.propagations)), data.y[nodes])
        if sweep == "order":
            (gates,) = torch.autograd.grad(loss, [_tensor(model.layers[0].order_weights)])
            found.append(gates[1:].abs().tolist())
        else:
            slopes = torch.autograd.grad(loss, [_tensor(layer.weight) for layer in model.layers])
            found.append([float(slope[0].norm()) for slope in slopes])
    return [median(values) for values in zip(*found, strict=True)]


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value


def measure(epochs: int, workers: int) -> dict[str, Any]:
    """Measure everything that the figure shows."""
    cases = list(list_cases())
    points: dict[tuple[str, str, str, int], list[dict[str, float] | None]] = defaultdict(list)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        results = pool.map(train, cases, [epochs] * len(cases))
        for done, (case, result) in enumerate(zip(cases, results, strict=True), start=1):
            points[case[:4]].append(result)
            if done % 24 == 0:
                print(f"{done} of {len(cases)} trainings", flush=True)
    torch.set_num_threads(1)
    return {
        "accuracy": [
            {
                "dataset": dataset,
                "variant": variant,
                "sweep": sweep,
                "value": value,
                "test_accuracy": [result["test"] for result in results if result],
                "validation_accuracy": [result["validation"] for result in results if result],
                "diverged": sum(result is None for result in results),
            }
            for (dataset, variant, sweep, value), results in sorted(points.items())
        ],
        "gradients": [
            {
                "dataset": dataset,
                "variant": variant,
                "sweep": sweep,
                "norms": measure_gradients(dataset, variant, sweep),
            }
            for dataset in DATASETS
            for sweep, variants in CURVES.items()
            for variant in variants
        ],
        "settings": {"epochs": epochs, "splits": SPLITS, **SETTINGS, "datasets": DATASETS},
        **describe_environment(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=150, help="epochs per training (default 150)")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default 2)")
    parser.add_argument("--out", type=Path, default=PROJECT / "results" / "depth.json")
    parser.add_argument(
        "--figure", type=Path, default=PROJECT / "docs" / "figures" / "depth.png", metavar="PNG"
    )
    options = parser.parse_args()
    record = measure(options.epochs, options.workers)
    write_json(options.out, record)
    write_depth_figure(options.figure, record)
