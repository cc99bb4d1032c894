"""Which inputs and settings of cross-hops pay on real tables? Judged on validation nodes alone.

All splits and bags of one setting are trained at once, as one stack of matrix products, so a
setting takes about a second on a GPU. Epochs are chosen on one half of the validation nodes and
judged on the other, both ways round. Test nodes are never read.

    python -m research.scripts.search_hop_settings facebook100/Amherst41 us-county
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.data.datasets.real import load_real
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.workflows.table_settings import hop_settings

RECORD = Path(__file__).parents[2] / "results" / "hop_settings.json"
NUM_SPLITS = 10
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

DEFAULTS: Mapping[str, Any] = {
    "order": 2,
    "hops": 2,
    "labels": True,  # neighbours' training labels, of one and two hops
    "least": 1,  # cells that a category must be in to have a column
    "units": 8,
    "bags": 8,
    "share": 0.9,  # of the training nodes, in each bag
    "dropout": 0.5,  # 0.1 for a table of few columns
    "decay": 1e-3,  # 1e-2 for a table of few columns
    "strength": None,  # of the smoothing of means; None if estimated
    "rate": 0.003,
    "batch": 512,
    "epochs": 100,
    "patience": 20,
}
"""Further settings are off unless given: see :data:`VARIANTS`."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "as chosen": {},
    "twin without crosses": {"order": 1},
    "order 3": {"order": 3},
    "one hop": {"hops": 1},
    "three hops": {"hops": 3},
    "means not smoothed": {"strength": 0.0},
    "means smoothed by 3": {"strength": 3.0},
    "means smoothed by 30": {"strength": 30.0},
    "no labels of neighbours": {"labels": False},
    "categories in one cell left out": {"least": 2},
    "categories in two cells left out": {"least": 3},
    "spread of neighbours' numbers": {"spread": True},
    "labels of neighbours by common neighbours": {"triangles": True},
    "labels of neighbours of the same category": {"alike": True},
    "labels of nodes of the same category": {"category_labels": 5.0},
    "no dropout": {"dropout": 0.0},
    "dropout 0.1": {"dropout": 0.1},
    "dropout 0.2": {"dropout": 0.2},
    "dropout 0.7": {"dropout": 0.7},
    "no weight decay": {"decay": 0.0},
    "weight decay 1e-2": {"decay": 1e-2},
    "learning rate 0.001": {"rate": 0.001},
    "learning rate 0.01": {"rate": 0.01},
    "batches of 256": {"batch": 256},
    "one batch": {"batch": 10**9, "epochs": 200, "patience": 60},
    "4 units": {"units": 4},
    "16 units": {"units": 16},
    "one bag": {"bags": 1, "share": 1.0},
    "16 bags": {"bags": 16},
    "bags of all nodes": {"share": 1.0},
    "bootstrap bags": {"bootstrap": True, "share": 1.0},
    "label smoothing 0.1": {"smoothing": 0.1},
    "moving average of weights": {"average": 0.95},
    "linear terms in a loss of their own": {"two_streams": True},
    "crosses from the start (gates at 0.5)": {"gate": 0.5},
}


class Graph:
    """A dataset of two classes as dense tensors."""

    def __init__(self, name: str) -> None:
        table = load_real(name)
        data, space = table.data, table.encoder.space
        self.x = torch.from_numpy(table.matrix.toarray()).float().to(DEVICE)
        self.fields = np.array(space.fields)
        self.named = np.array([not n.endswith(("(missing)", "(other)")) for n in space.names])
        self.edges = torch.zeros(len(self.x), len(self.x), device=DEVICE)
        self.edges[data.edge_index[1], data.edge_index[0]] = 1.0
        self.edges.fill_diagonal_(0)
        self.y = data.y.to(DEVICE)
        splits = make_splits(data, "stratified", num_splits=NUM_SPLITS, seed=0)
        self.train = _stack([split.train for split in splits])
        self.validation = _stack([split.validation for split in splits])

    def columns(self, settings: Mapping[str, Any]) -> Tensor:
        """Return the standardised columns of each split, ``[splits, nodes, columns]``."""
        flags = ((self.x == 0) | (self.x == 1)).all(0)
        kept = ~flags | ((self.x != 0).sum(0) >= settings["least"])
        x, flags = self.x[:, kept], flags[kept]
        fields, named = self.fields[kept.cpu()], self.named[kept.cpu()]
        size = self.edges.sum(1, keepdim=True)
        means, prior = [x], torch.where(flags, 0.0, x.mean(0))
        for _ in range(settings["hops"]):
            strength = settings["strength"]
            if strength is None:
                strength = self._strength(means[-1])
            mean = _divide(self.edges @ means[-1], size)
            means.append(prior + size / (size + strength).clamp(min=1e-9) * (mean - prior))
        own = torch.where(flags, x, _standardise(x))
        shared = [own, *map(_standardise, means[1:]), _standardise(size.log1p())]
        if settings.get("spread"):
            numbers = x[:, ~flags]
            squares = _divide(self.edges @ numbers.square(), size)
            variance = squares - _divide(self.edges @ numbers, size).square()
            shared.append(_standardise(variance.clamp(min=0).sqrt()))
        base = torch.cat(shared, 1)
        groups = [x[:, (fields == f) & named] for f in np.unique(fields[flags.cpu().numpy()])]
        return torch.stack(
            [torch.cat([base, *self._labels(split, groups, settings)], 1) for split in self.train]
        )

    def _strength(self, x: Tensor) -> float:
        """Return the variance within neighbourhoods over that between them."""
        size = self.edges.sum(1, keepdim=True)
        x = (x - x.mean(0))[:, x.std(0) > 1e-6]
        x = x / x.std(0)
        mean = _divide(self.edges @ x, size)
        spread = _divide(self.edges @ x.square(), size) - mean.square()
        several = (size > 1).flatten()
        within = (spread * size / (size - 1).clamp(min=1))[several].clamp(min=0).mean(0).sum()
        some = (size > 0).flatten()
        between = mean[some].var(0).sum() - within * (1 / size[some]).mean()
        return min(float(within / between), 100.0) if between > 0 else 100.0

    def _labels(
        self, train: Tensor, groups: list[Tensor], settings: Mapping[str, Any]
    ) -> Iterator[Tensor]:
        """Yield columns of other nodes' training labels, never of a node's own."""
        known = torch.zeros(len(self.y), 1, device=DEVICE)
        known[train] = 1.0
        own = torch.cat([known * (self.y == 1).unsqueeze(1), known], 1)
        prior = own[:, 0].sum() / own[:, 1].sum()

        def mean(reached: Tensor, strength: float) -> Tensor:
            return _standardise((reached[:, :1] + strength * prior) / (reached[:, 1:] + strength))

        near = self.edges @ own
        far = self.edges @ near - self.edges.sum(1, keepdim=True) * own
        if settings["labels"]:
            for hop, reached in enumerate((near, far), 1):
                yield mean(reached, hop)
                yield _standardise(reached[:, 1:].log1p())
        if settings.get("triangles"):
            yield mean((self.edges * (self.edges @ self.edges)) @ own, 5.0)
        for group in groups:
            if settings.get("alike"):
                yield mean((self.edges * (group @ group.T)) @ own, 1.0)
            if strength := settings.get("category_labels"):
                others = group @ (group.T @ own) - own * group.sum(1, keepdim=True)
                yield mean(others, strength)


def validate(graph: Graph, columns: Tensor, settings: Mapping[str, Any], seed: int) -> list[float]:
    """Train on every split; return the ROC-AUC on validation nodes, of each split."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    splits, bags, units = NUM_SPLITS, settings["bags"], settings["units"]
    order, width = settings["order"], columns.size(-1)
    rows = torch.arange(splits, device=DEVICE).unsqueeze(1)
    x, held = columns[rows, graph.train], columns[rows, graph.validation]
    y, held_y = graph.y[graph.train], graph.y[graph.validation]

    def draw(*shape: int, deviation: float) -> Tensor:
        return torch.randn(*shape, generator=generator, device=DEVICE).mul_(deviation)

    weight = draw(splits, width, bags * order * units, deviation=width**-0.5)
    gates = torch.full((splits, 1, bags, order - 1, units), settings.get("gate", 0.0))
    readout = draw(splits * bags, units, 2, deviation=units**-0.5)
    bias = torch.zeros(splits * bags, 1, 2)
    parameters = [p.to(DEVICE).requires_grad_() for p in (weight, gates, readout, bias)]
    groups = [
        {"params": [parameters[0], parameters[2]], "weight_decay": settings["decay"]},
        {"params": [parameters[1], parameters[3]], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.Adam(groups, lr=settings["rate"])
    bag = torch.rand(splits, bags, y.size(1), generator=generator, device=DEVICE)
    in_bag = (bag < settings["share"]).float()
    if settings.get("bootstrap"):
        in_bag = torch.poisson(torch.ones_like(bag), generator=generator)

    def score(rows: Tensor, parameters: list[Tensor], linear: bool = False) -> Tensor:
        weight, gates, readout, bias = parameters
        projections = torch.bmm(rows, weight).view(splits, -1, bags, order, units)
        product = total = projections[..., 0, :]
        for k in range(0 if linear else order - 1):
            product = product * projections[..., k + 1, :]
            total = total + gates[..., k, :] * product
        total = total.transpose(1, 2).reshape(splits * bags, -1, units)
        return torch.baddbmm(bias, total, readout).view(splits, bags, -1, 2)

    def loss_of(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
        each = functional.cross_entropy(
            scores.flatten(0, 2),
            labels.unsqueeze(1).expand(-1, bags, -1).flatten(),
            reduction="none",
            label_smoothing=settings.get("smoothing", 0.0),
        )
        count = float(settings["share"]) * labels.size(1)
        return (each * counted.flatten()).sum() / count

    average, steps, curve = [p.detach().clone() for p in parameters], 0, []
    for _ in range(settings["epochs"]):
        shuffled = torch.rand(y.shape, generator=generator, device=DEVICE).argsort(1)
        for part in torch.split(shuffled, settings["batch"], 1):
            inputs = functional.dropout(x[rows, part], settings["dropout"])
            counted = in_bag.gather(2, part.unsqueeze(1).expand(-1, bags, -1))
            loss = loss_of(score(inputs, parameters), y.gather(1, part), counted)
            if settings.get("two_streams"):
                loss = loss + loss_of(score(inputs, parameters, True), y.gather(1, part), counted)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            steps += 1
            kept = min(settings.get("average", 0.0), (1 + steps) / (10 + steps))
            with torch.no_grad():
                for mean, parameter in zip(average, parameters, strict=True):
                    mean.lerp_(parameter, 1 - kept)
        with torch.no_grad():
            scores = score(held, average).mean(1)
            margin, half = scores[..., 1] - scores[..., 0], held_y.size(1) // 2
            halves = (slice(None, half), slice(half, None))
            curve.append(torch.stack([_auc(margin[:, h], held_y[:, h]) for h in halves]))
    return _choose(torch.stack(curve).cpu().numpy(), settings["patience"])


def _choose(curve: np.ndarray[Any, Any], patience: int) -> list[float]:
    """Choose epochs on one half of the nodes, judge on the other; ``[epochs, 2, splits]``."""
    chosen = np.zeros(curve.shape[1:], int)
    for (half, split), _ in np.ndenumerate(chosen):
        best = 0
        for epoch, value in enumerate(curve[:, half, split]):
            if value > curve[best, half, split]:
                best = epoch
            elif epoch - best >= patience:
                break
        chosen[half, split] = best
    splits = np.arange(curve.shape[2])
    judged = [curve[chosen[1 - half], half, splits] for half in (0, 1)]
    return [round(float(value), 5) for value in np.mean(judged, axis=0)]


def _auc(scores: Tensor, y: Tensor) -> Tensor:
    ranks = scores.argsort(1).argsort(1).double() + 1
    positive = y.double()
    count = positive.sum(1)
    return ((ranks * positive).sum(1) - count * (count + 1) / 2) / (count * (y.size(1) - count))


def _stack(nodes: list[Tensor]) -> Tensor:
    """Put the nodes of all splits into one tensor; splits differ by a node at most."""
    shortest = min(len(each) for each in nodes)
    return torch.stack([each[:shortest] for each in nodes]).to(DEVICE)


def _divide(sums: Tensor, size: Tensor) -> Tensor:
    return torch.where(size > 0, sums / size.clamp(min=1), 0.0)


def _standardise(x: Tensor) -> Tensor:
    centered = x - x.mean(0)
    return centered / centered.square().mean(0).sqrt().clamp(min=1e-3)


def main() -> None:
    """Validate every variant on every graph and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+", help="names of datasets of two classes")
    parser.add_argument("--seeds", type=int, default=2, help="trainings of each setting")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record")
    options = parser.parse_args()
    machine = torch.cuda.get_device_name() if DEVICE.type == "cuda" else platform.processor()
    results: list[dict[str, Any]] = []
    for name in options.graphs:
        graph = Graph(name)
        chosen = hop_settings(graph.x.size(1))
        usual = {**DEFAULTS, "dropout": chosen["dropout"], "decay": chosen["weight_decay"]}
        for variant, changed in VARIANTS.items():
            settings = {**usual, **changed}
            started, columns = time.perf_counter(), graph.columns(settings)
            scores = [validate(graph, columns, settings, seed) for seed in range(options.seeds)]
            results.append({"graph": name, "variant": variant, "roc_auc": scores})
            mean, seconds = np.mean(scores), time.perf_counter() - started
            print(f"{name:28} {variant:44} {100 * mean:.2f} {seconds:5.1f} s", flush=True)
            record = {"defaults": DEFAULTS, "machine": machine, "results": results}
            write_json(options.out, record)


if __name__ == "__main__":
    main()
