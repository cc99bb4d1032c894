"""Cost of other feature-crossing modules in place of the cross-feature transform.

Each module maps the same rows to 32 outputs, forward and backward, without a graph. Rows of 12
features are dense and Gaussian, as in Citeseer-Cross. All other rows are sparse with 32 stored
entries each, as in bags of words, so that growth with D is growth with parameters and not with
entries. The modules compute different functions, so only their cost is compared. Before timing,
each module is checked to give the same output for sparse and for dense rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix
from crossgcn.layers import FeatureTransform, make_transform
from research.benchmarks.growth import log_log_slope
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.gradients import apart
from research.benchmarks.harness.memory import peak_bytes
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Pace, Side, interleave, ratio_of, torch_threads
from research.pages.benchmarks import BenchmarkResult

THREADS = 1
ROWS, QUICK_ROWS = 2_000, 200
OUT_CHANNELS = 32
STORED = 32
DENSE_FEATURES, SPARSE_FEATURES = 12, (500, 3_703, 20_000)
ORDERS = (1, 2, 3, 4)
AROUND_FEATURES, AROUND_ORDER = 3_703, 2
BATCH_SECONDS = 0.1
MOST_PARAMETERS = 100_000_000
"""Largest module measured; beyond it, weights and gradients alone take a gigabyte."""


@dataclass(frozen=True)
class Transform:
    """A module to measure.

    Attributes:
        label: Name in the results.
        name: Name of the transform.
        settings: Arguments of the transform.
    """

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def make(self, features: int, order: int) -> FeatureTransform:
        """Build a new module."""
        return make_transform(self.name, features, OUT_CHANNELS, order, **self.settings)


OURS = Transform("cross", "cross")
OTHER_CROSSINGS = (
    Transform("DCN", "dcn"),
    Transform("DCN-v2, full", "dcn-v2", {"rank": None}),
    Transform("DCN-v2, rank 32", "dcn-v2", {"rank": 32}),
    Transform("CIN", "cin"),
    Transform("HOFM", "hofm"),
    Transform("MLP", "mlp"),
)


@dataclass(frozen=True)
class Case:
    """A problem size.

    Attributes:
        features: Number of features, D.
        order: K.
        rows: Number of rows.
    """

    features: int
    order: int
    rows: int

    @property
    def name(self) -> str:
        """Return the name of the case in tables."""
        return f"D {self.features:,}, K {self.order}"

    def draw(self, seed: int) -> Tensor | SparseMatrix:
        """Draw the rows."""
        random = np.random.default_rng(seed)
        if self.features == DENSE_FEATURES:
            return torch.from_numpy(random.standard_normal((self.rows, self.features), np.float32))
        columns = np.sort(
            [random.choice(self.features, STORED, replace=False) for _ in range(self.rows)]
        )
        offsets = STORED * np.arange(self.rows + 1)
        values = np.full(columns.size, 1 / STORED, np.float32)
        shape = (self.rows, self.features)
        return SparseMatrix.from_torch(csr_tensor(offsets, columns.ravel(), values, shape))


def measure(options: Options) -> Measurement:
    """Measure every size."""
    rows = QUICK_ROWS if options.quick else ROWS
    sizes = [(features, AROUND_ORDER) for features in (DENSE_FEATURES, *SPARSE_FEATURES)]
    sizes += [(AROUND_FEATURES, order) for order in ORDERS if order != AROUND_ORDER]
    return measure_cases([Case(*size, rows) for size in sizes], options)


def measure_cases(cases: Sequence[Case], options: Options) -> Measurement:
    """Measure parameters, time and memory of every module, and their growth."""
    found = Measurement(extra={"peers": []})
    for case in cases:
        measure_case(case, options, found)
    entries = found.extra["peers"]
    for transform in (OURS, *OTHER_CROSSINGS):
        own = [entry for entry in entries if entry["transform"] == transform.label]
        _add_slopes(transform, "D", "features", "order", AROUND_ORDER, own, found)
        _add_slopes(transform, "K", "order", "features", AROUND_FEATURES, own, found)
    found.notes += [
        f"ratios are to cross, ours; forward and backward of {cases[0].rows:,} rows to "
        f"{OUT_CHANNELS} outputs, {THREADS} thread; CIN has {OUT_CHANNELS} maps, embeddings of 8 "
        "and weights of rank 1, HOFM rank 1",
        "memory is the most that was held at once while weights were made and a pass was run, "
        "the rows not counted",
        "sparse rows are multiplied by our kernels in all of them; what DCN-v2 does beyond that, "
        "for single entries, is done by PyTorch's operations",
        f"growth with D is that of sparse rows of {STORED} entries at K {AROUND_ORDER}; growth "
        f"with K that at D {AROUND_FEATURES:,} from K 2 to 4, where a cost of K - 1 parts has a "
        "slope of 1.6 and one of K parts a slope of 1",
    ]
    return found


def measure_case(case: Case, options: Options, found: Measurement) -> None:
    """Measure all modules on the same rows.

    Args:
        case: The size.
        found: Measurement to which the results are added.
    """
    x = case.draw(options.seed)
    entries: list[dict[str, Any]] = []
    sides = []
    for number, transform in enumerate((OURS, *OTHER_CROSSINGS)):
        options.show(f"{case.name}, memory", number, 1 + len(OTHER_CROSSINGS))
        count = count_parameters(transform, case)
        if count > MOST_PARAMETERS:
            found.notes.append(
                f"{case.name}: {transform.label} was not measured, it has {count:,} parameters"
            )
            continue
        found.checks.append(check_rows(transform, case, x))
        start = starter(transform, case, x, options.seed)
        start()
        step, held = peak_bytes(start, options.device)
        sides.append(Side(transform.label, step, THREADS))
        entries.append(
            {
                "transform": transform.label,
                "features": case.features,
                "order": case.order,
                "parameters": count,
                "memory_bytes": held,
            }
        )
    pace = options.pace(f"{case.name}, time")
    pace = Pace(pace.rounds, min(pace.batch_seconds, BATCH_SECONDS), on_round=pace.on_round)
    timings = interleave(case.name, sides, pace)
    found.timings += timings.values()
    for entry in entries:
        entry["seconds"] = timings[entry["transform"]].median
    found.extra["peers"] += entries
    found.results += [
        ratio_of(timings, side.name, OURS.label, what=f"time of {side.name}") for side in sides[1:]
    ]
    found.notes.append(
        f"{case.name}, parameters, peak memory and median time: "
        + "; ".join(_describe(entry) for entry in entries)
    )


def count_parameters(transform: Transform, case: Case) -> int:
    """Count the parameters of a module without allocating them."""
    with torch.device("meta"):
        made: Any = transform.make(case.features, case.order)
    return sum(parameter.numel() for parameter in made.parameters())


def starter(
    transform: Transform, case: Case, x: Tensor | SparseMatrix, seed: int
) -> Callable[[], Callable[[], object]]:
    """Return a function that builds a module and runs it once, for memory measurement."""
    slope = torch.ones(case.rows, OUT_CHANNELS)

    def start() -> Callable[[], object]:
        torch.manual_seed(seed)
        made: Any = transform.make(case.features, case.order)
        weights = list(made.parameters())

        def step() -> object:
            return torch.autograd.grad(made(x), weights, slope)

        with torch_threads(THREADS):
            step()
        return step

    return start


def check_rows(transform: Transform, case: Case, x: Tensor | SparseMatrix) -> Check:
    """Check that a module gives the same output for sparse and for dense rows."""
    torch.manual_seed(0)
    made = transform.make(case.features, case.order)
    few = x[:8] if isinstance(x, Tensor) else x.select_rows(torch.arange(8))
    dense = few if isinstance(few, Tensor) else torch.from_numpy(few.to_scipy().toarray())
    with torch.no_grad():
        error = apart(made(few), made(dense))
    return Check(case.name, f"{transform.label} of sparse and of dense rows", error, 1e-5).require()


def _describe(entry: dict[str, Any]) -> str:
    return (
        f"{entry['transform']} {entry['parameters']:,}, {entry['memory_bytes'] / 1e6:.3g} MB, "
        f"{1e3 * entry['seconds']:.3g} ms"
    )


def _add_slopes(
    transform: Transform,
    letter: str,
    along: str,
    other: str,
    at: int,
    entries: Sequence[dict[str, Any]],
    found: Measurement,
) -> None:
    """Add the growth exponents along one size, for sparse rows and orders above 1."""
    chosen = [
        entry
        for entry in entries
        if entry[other] == at and entry["features"] != DENSE_FEATURES and entry["order"] > 1
    ]
    chosen.sort(key=lambda entry: entry[along])
    sizes = [entry[along] for entry in chosen]
    if len(sizes) < 2:
        return
    for what, key in (("time", "seconds"), ("memory", "memory_bytes")):
        slope = log_log_slope(sizes, [entry[key] for entry in chosen])
        name = f"{what} of {transform.label}"
        found.results.append(BenchmarkResult(f"growth with {letter}", name, slope, "slope"))


if __name__ == "__main__":
    main("peers", measure)
