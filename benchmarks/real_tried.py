"""What was tried to score better, judged on validation nodes of several graphs.

``python -m benchmarks real --graph tried`` makes the record. The training nodes of a split are
split again, so that its validation nodes judge and its test nodes are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.real_graphs import COMPARISONS, Record, number
from benchmarks.records import markdown_table
from crossgcn import load_real, paired_difference
from crossgcn.data import make_splits
from crossgcn.data.splits import Split
from crossgcn.data.tables.graph import describe_encoding
from crossgcn.data.tables.kinds import numeric
from crossgcn.experiments.candidates import configure_for_tables
from crossgcn.training.records import describe_environment
from crossgcn.training.trainer import Run, Trainer, using_threads

GRAPHS = ("us-county", "us-county-democratic_share", "tolokers", "facebook100-Haverford76")
NUM_SPLITS = 6

USUAL = "as it is"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    USUAL: {},
    "8 ranges of each number instead of 4": {},
    "linear splines instead of ranges": {},
    "order 3": {"order": 3},
    "32 pairs of columns instead of 24": {"crosses": 32},
    "16 bags instead of 8": {"bags": 16},
    "all columns": {"columns": "all"},
}
"""Settings of each variant."""

Floats = NDArray[np.float64]


@contextmanager
def _encoding(variant: str) -> Iterator[None]:
    """Encode numbers as a variant does, within a block."""
    encode = numeric.NumberEncoder.encode_numbers

    def encode_splines(self: numeric.NumberEncoder, read: Floats) -> NDArray[np.float32]:
        """Let the feature of a range rise from 0 to 1 inside it, and stay 1 above it."""
        features, is_known = encode(self, read), np.isfinite(read)
        ends = np.array([self.known[0], *self.bounds, self.known[-1]])
        for place, (low, high) in enumerate(pairwise(ends)):
            risen = (read[is_known] - low) / max(high - low, 1e-300)
            features[is_known, place] = risen.clip(0, 1)
        return features

    if variant.startswith("8 ranges"):
        with patch.object(numeric, "NUM_RANGES", 8):
            yield
    elif variant.startswith("linear splines"):
        with patch.object(numeric.NumberEncoder, "encode_numbers", encode_splines):
            yield
    else:
        yield


def measure_tried() -> dict[str, Any]:
    """Train every variant on every graph, and return the scores of its validation nodes."""
    scores: dict[str, dict[str, list[float]]] = {}
    metrics = {}
    for name in GRAPHS:
        dataset, *option = COMPARISONS[name]
        scores[name] = {}
        for variant, settings in VARIANTS.items():
            with _encoding(variant):
                graph = load_real(dataset, option[1] if option else None)
            config = configure_for_tables(graph, settings)
            metrics[name] = config.metric
            drawn = make_splits(graph.data, "stratified", num_splits=NUM_SPLITS)
            splits = [_inner(split, seed) for seed, split in enumerate(drawn)]
            trainer = Trainer(graph.data, splits, preprocess=describe_encoding(graph))
            scores[name][variant] = []
            for place in range(NUM_SPLITS):
                run = Run(config, place)
                with using_threads(1):
                    result = trainer.fit(run, trainer.build(run))
                assert result.test is not None
                scores[name][variant].append(result.test[str(config.metric)])
    environment = describe_environment()
    about = {key: environment[key] for key in ("versions", "threads", "commit")}
    return {"record": "tried", **about, "num_splits": NUM_SPLITS, "metrics": metrics} | {
        "scores": scores
    }


def _inner(split: Split, seed: int) -> Split:
    """Return a split whose test nodes are the validation nodes of another."""
    generator = torch.Generator().manual_seed(seed)
    order = split.train[torch.randperm(split.train.numel(), generator=generator)]
    count = order.numel() // 4
    return Split(order[count:].sort().values, order[:count].sort().values, split.validation)


def tried_markdown(record: Record) -> str:
    """Return one table: what each variant gains over the usual model, with its standard error."""
    rows = []
    for variant in list(VARIANTS)[1:]:
        cells = [variant]
        for name in GRAPHS:
            scores, metric = record["scores"][name], record["metrics"][name]
            gain = paired_difference(scores[variant], scores[USUAL])
            error = number(gain.standard_error or 0.0, metric)
            cells.append(f"{number(gain.mean, metric, sign=True)} ± {error}")
        rows.append(cells)
    usual = [
        number(mean(record["scores"][name][USUAL]), record["metrics"][name]) for name in GRAPHS
    ]
    return markdown_table(["tried", *GRAPHS], [[USUAL, *usual], *rows])
