"""Batches with sampled neighbours from a graph on disk, compared with two samplers in NumPy.

PyG's neighbour sampler needs pyg-lib or torch-sparse, which PyPI does not offer as wheels. Our
compiled sampler is therefore compared with two others: the same algorithm in vectorised NumPy,
which must draw the same neighbours, and NumPy's ``choice`` in a loop over the nodes, which must
agree on average. A batch has everything a model needs: sampled edges, weighted blocks and
features. Memory is the peak of a separate process that opens the graph and iterates over batches;
it includes the pages of the graph that were read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from crossgcn.data.datasets.generated import large_graph
from crossgcn.data.stored.open import open_graph
from crossgcn.graph.sampling import sampler
from crossgcn.graph.sampling import source as graph_source
from crossgcn.graph.sampling.batches import Batch
from crossgcn.graph.sampling.source import GraphSource, source_of
from crossgcn.kernels import sampling as plain_sampling
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, ratio_of
from research.benchmarks.harness.sampled_batches import (
    BATCHES,
    Case,
    batches_of,
    endless,
    go_through,
    loop_batches,
)

PLAIN, LOOP = "vectorised NumPy", "NumPy, node by node"
STANDARD_ERRORS = 5.5
"""Tolerance for means over many draws, in standard errors. With some hundred means, the probability
of exceeding it by chance is about one in a million."""


def measure(options: Options) -> Measurement:
    """Measure one graph."""
    case = Case(20_000, 200_000) if options.quick else Case()
    return measure_case(case, options)


def measure_case(case: Case, options: Options, draws: int = 300) -> Measurement:
    """Check and time the three samplers.

    Args:
        case: The graph and its sampling settings.
        draws: Number of draws per mean.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "graph"
        options.show("drawing the graph", 0, 1)
        large_graph(folder, case.nodes, case.edges, case.features, 8, options.seed)
        source = source_of(open_graph(folder))
        checks = [
            same_draws(case, source, options.seed).require(),
            same_means(case, source, options, draws).require(),
        ]
        sides = [Side(side, step) for side, step in steps(case, source, options.seed).items()]
        timings = interleave(case.name, sides, options.pace(case.name))
        options.show("memory", 0, 1)
        held = peak_rss(go_through, folder, case, options.seed)
        started = peak_rss(go_through, None, case, options.seed)
        size = sum(path.stat().st_size for path in folder.iterdir())
    per_second = (f"{side} {1 / t.median:.3g}" for side, t in timings.items())
    return Measurement(
        results=[ratio_of(timings, PLAIN, "ours"), ratio_of(timings, LOOP, "ours")],
        timings=list(timings.values()),
        checks=checks,
        notes=[
            f"batches of {case.batch_size:,} targets, fanout {', '.join(map(str, case.fanouts))}, "
            f"per second: {'; '.join(per_second)}",
            f"most memory held over {BATCHES} batches: {held / 2**20:.0f} MiB, of which the "
            f"package itself {started / 2**20:.0f} MiB; the graph has {size / 2**20:.0f} MiB",
        ],
        extra={"peak_bytes": held, "peak_bytes_of_package": started, "graph_bytes": size},
    )


def steps(case: Case, source: GraphSource, seed: int) -> dict[str, Callable[[], object]]:
    """Return, for each side, a function that makes the next batch."""
    compiled, plain = (endless(batches_of(case, source, seed)) for _ in range(2))
    looping = loop_batches(case, source, seed)

    def next_plain() -> object:
        with plain_loops():
            return next(plain)

    return {"ours": lambda: next(compiled), PLAIN: next_plain, LOOP: lambda: next(looping)}


@contextmanager
def plain_loops() -> Iterator[None]:
    """Disable the compiled sampler within the block."""

    def plain() -> object:
        return plain_sampling

    with ExitStack() as patches:
        for module in (graph_source, sampler):
            patches.enter_context(patch.object(module, "loops", plain))
        yield


def same_draws(case: Case, source: GraphSource, seed: int) -> Check:
    """Compare the batches of the compiled and the NumPy sampler bit for bit."""
    ours = next(endless(batches_of(case, source, seed)))
    with plain_loops():
        plain = next(endless(batches_of(case, source, seed)))
    different = sum(
        not torch.equal(getattr(one, part), getattr(other, part))
        for one, other in zip(ours.blocks, plain.blocks, strict=True)
        for part in ("row_offsets", "columns", "values")
    )
    return Check(case.name, f"arrays of a batch, ours and {PLAIN}", float(different), 0.0)


def same_means(case: Case, source: GraphSource, options: Options, draws: int) -> Check:
    """Compare the mean neighbour sums of some nodes, in standard errors."""
    nodes = torch.arange(0, source.num_nodes, source.num_nodes // 16)[:16]
    ours = endless(batches_of(case, source, options.seed, nodes))
    theirs = loop_batches(case, source, options.seed, nodes)
    sums: tuple[list[Tensor], list[Tensor]] = ([], [])
    for done in range(draws):
        options.show("checking", done, draws)
        for batches, kept in zip((ours, theirs), sums, strict=True):
            batch = next(batches)
            kept.append(_sums(batch)[batch.targets.argsort()])
    (mean, variance), (other, other_variance) = (
        (torch.stack(kept).mean(dim=0), torch.stack(kept).var(dim=0) / draws) for kept in sums
    )
    error = ((mean - other).abs() / (variance + other_variance).sqrt()).max()
    what = f"mean sums over {draws} draws, ours and {LOOP}, in standard errors"
    return Check(case.name, what, float(error), STANDARD_ERRORS)


def _sums(batch: Batch) -> Tensor:
    assert isinstance(batch.x, Tensor)
    return batch.blocks[1] @ (batch.blocks[0] @ batch.x.double())


if __name__ == "__main__":
    main("sampler", measure)
