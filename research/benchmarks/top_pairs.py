"""Time to find the exact top-20 pairs of every class without enumerating all pairs.

Where plain enumeration, a product of all features with all others, fits into memory, both are
compared. Large cases are checked on random blocks of pairs: no block may contain a pair that is
stronger than the weakest pair found. Features of equal frequency with weights of equal norm are
the worst case, because no bound separates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.explanation.occurrence import Best
from crossgcn.explanation.pairs import PairFactors, top_pairs
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, quartiles, ratio_of
from research.pages.benchmarks import BenchmarkResult

TOP, CLASSES, RANK, THREADS = 20, 6, 32, 2
BLOCK, BLOCKS = 1000, 20
ALLOWED = "share of the time allowed"

Words = Literal["Zipf", "uniform", "none"]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One search.

    Attributes:
        features: Number of features.
        nodes: Number of nodes.
        stored: Nonzero features per node.
        words: Distribution of the feature frequencies: Zipf's law or uniform; or no frequencies,
            only weights.
        allowed: Time limit of the search in seconds.
    """

    features: int
    nodes: int
    stored: int
    words: Words
    allowed: float

    @property
    def name(self) -> str:
        """Return the name of the case in the results."""
        counted = "weights alone" if self.words == "none" else f"{self.words} words"
        return f"D {self.features:,}, {counted}"

    def draw(self, seed: int) -> tuple[PairFactors, sp.csr_array | None]:
        """Draw the weights of all pairs and the features of the nodes."""
        generator = np.random.default_rng(seed)
        left, right = generator.normal(size=(2, self.features, RANK)) / self.features**0.5
        if self.words == "uniform":
            left /= np.linalg.norm(left, axis=1, keepdims=True)
            right /= np.linalg.norm(right, axis=1, keepdims=True)
        factors = PairFactors(left, right, generator.normal(size=(CLASSES, RANK)))
        if self.words == "none":
            return factors, None
        share = 1.0 / np.arange(1, self.features + 1) if self.words == "Zipf" else None
        chances = None if share is None else share / share.sum()
        drawn = generator.choice(self.features, size=(self.nodes, self.stored), p=chances)
        rows = np.repeat(np.arange(self.nodes), self.stored)
        words = sp.csr_array(
            (np.ones(rows.size), (rows, drawn.ravel())), shape=(self.nodes, self.features)
        )
        words.sum_duplicates()
        words.data[:] = 1.0
        return factors, words


KINDS: Final[tuple[Words, ...]] = ("Zipf", "uniform", "none")
SMALL: Final = [Case(3703, 3327, 32, words, 1.0) for words in KINDS]
LARGE: Final = [Case(100_000, 20_000, 30, words, 120.0) for words in KINDS]


def measure(options: Options) -> Measurement:
    """Time every case."""
    large = [Case(20_000, 4000, 30, "Zipf", 10.0)] if options.quick else LARGE
    return measure_cases(SMALL, large, options)


def measure_cases(small: Sequence[Case], large: Sequence[Case], options: Options) -> Measurement:
    """Time the given cases; compare the small ones with plain enumeration.

    Args:
        small: Cases in which every pair can be enumerated.
        large: Cases that are checked on random blocks.
    """
    found = Measurement()
    for case in (*small, *large):
        factors, words = case.draw(options.seed)
        best = top_pairs(factors, words, TOP)
        sides = [Side("ours", partial(top_pairs, factors, words, TOP), THREADS)]
        if case in small:
            enumerated = enumerate_pairs(factors, words)
            found.checks.append(compare(case, best, enumerated).require())
            sides.append(Side("enumeration", partial(enumerate_pairs, factors, words), THREADS))
        else:
            found.checks.append(check_blocks(case, factors, words, best, options.seed).require())
        timings = interleave(case.name, sides, options.pace(case.name))
        found.timings += timings.values()
        ours = timings["ours"]
        low, high = (100 * seconds / case.allowed for seconds in quartiles(ours.seconds))
        share = 100 * ours.median / case.allowed
        found.results.append(BenchmarkResult(case.name, ALLOWED, share, "%", low=low, high=high))
        found.notes.append(f"{case.name}: {ours.median:.3g} s of {case.allowed:g} s allowed")
        if case in small:
            found.results.append(ratio_of(timings, "enumeration", "ours"))
    found.notes.append(
        f"the {TOP} strongest pairs of each of {CLASSES} classes, weights of rank {RANK}, on "
        f"{THREADS} threads; reading a model is not counted"
    )
    return found


def together(words: Any, rows: Ints, columns: Ints) -> Any:
    """Count co-occurrences of features; 1 if frequencies are not used."""
    if words is None:
        return 1.0
    return (words[rows] @ words[columns].T).toarray() / words.shape[1]


def strengths(
    factors: PairFactors, label: int, occurrence: Any, rows: Ints, columns: Ints
) -> NDArray[np.float64]:
    """Return the strengths of all pairs whose first feature precedes the second."""
    scale = factors.scale[label]
    weights = (factors.left[rows] * scale) @ factors.right[columns].T
    weights += (factors.right[rows] * scale) @ factors.left[columns].T
    size: NDArray[np.float64] = np.abs(weights) * occurrence
    size[rows[:, np.newaxis] >= columns] = 0.0
    return size


def enumerate_pairs(factors: PairFactors, words: Any) -> list[NDArray[np.float64]]:
    """Return the largest strengths of each class by enumerating all pairs."""
    everything = np.arange(len(factors.left))
    occurrence = together(None if words is None else words.T.tocsr(), everything, everything)
    out = []
    for label in range(CLASSES):
        sizes = strengths(factors, label, occurrence, everything, everything)
        sizes = sizes[sizes > 0]
        out.append(np.sort(np.partition(sizes, -TOP)[-TOP:])[::-1])
    return out


def compare(case: Case, best: Sequence[Best], expected: Sequence[NDArray[np.float64]]) -> Check:
    """Compare the strengths found with those of plain enumeration."""
    errors = [
        np.linalg.norm(np.abs(found.weight) * found.occurrence - sizes) / np.linalg.norm(sizes)
        for found, sizes in zip(best, expected, strict=True)
    ]
    return Check(case.name, "strengths, ours and by enumeration", float(max(errors)), 1e-9)


def check_blocks(
    case: Case, factors: PairFactors, words: Any, best: Sequence[Best], seed: int
) -> Check:
    """Check random blocks for pairs that are stronger than the weakest pair found."""
    generator = np.random.default_rng([seed, 1])
    by_feature = None if words is None else words.T.tocsr()
    excess = 0.0
    for number in range(BLOCKS):
        rows, columns = (
            generator.choice(case.features, min(BLOCK, case.features), replace=False)
            for _ in range(2)
        )
        label = number % CLASSES
        held = {tuple(pair) for pair in best[label].features.tolist()}
        sizes = strengths(factors, label, together(by_feature, rows, columns), rows, columns)
        weakest = float(best[label].threshold)
        for row, column in np.argwhere(sizes > weakest * (1 + 1e-9)):
            if (int(rows[row]), int(columns[column])) not in held:
                excess = max(excess, float(sizes[row, column]) / weakest - 1)
    return Check(case.name, "pairs in random blocks beyond those found", excess, 1e-9)


if __name__ == "__main__":
    main("top_pairs", measure)
