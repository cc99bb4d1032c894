"""Whether words that count as missing are not, after all, categories or classes."""

from __future__ import annotations

from collections.abc import Iterator

from crossgcn.data.tables.check_places import Place, Rule, share_of
from crossgcn.data.tables.distinct import MISSING_WORDS, Distinct
from crossgcn.data.tables.findings import Finding, quote
from crossgcn.data.tables.table import Table

__all__ = ["check_missing_categories", "check_missing_classes", "tell_missing"]

FEWEST_CELLS = 3
SMALLEST_SHARE = 0.02
"""Of all cells: where fewer say a word, it matters little what it stands for."""


def check_missing_categories(nodes: Table, column: str) -> Iterator[Finding]:
    """Words that many cells say, and that are taken for a missing value.

    Args:
        nodes: The node table, read with the usual words for a missing value.
        column: One that is taken as categories.
    """
    for word, said in _frequent_words(nodes, column):
        others = ",".join(sorted(MISSING_WORDS - {word}))
        rule = Rule(
            "missing-word",
            "warning",
            f"{{value}} is in {said} and counts as missing, not as a category",
            f"if it is a category, leave {quote(word)} out of the words for a missing value: "
            f"--missing {others}",
        )
        yield from Place(nodes, column).at_values(nodes.distinct(column).says({word}), rule)


def check_missing_classes(nodes: Table, target: str) -> Iterator[Finding]:
    """Words that many cells of the target say, which elsewhere are taken for a missing value.

    Args:
        nodes: The node table, of whose target every word is a class.
        target: The column to predict.
    """
    for word, said in _frequent_words(nodes, target):
        rule = Rule(
            "missing-word",
            "warning",
            f"{{value}} is in {said} and counts as a class, where in other columns it counts as "
            "missing",
            "if it stands for an unknown class, empty these cells, or count such words as missing "
            f"here too: --missing {','.join(sorted(MISSING_WORDS))}",
        )
        yield from Place(nodes, target).at_values(nodes.distinct(target).says({word}), rule)


def tell_missing(distinct: Distinct) -> str:
    """How missing values are written in a column: ``empty``, ``'NA'``, ``empty or 'NA'``.

    Args:
        distinct: A column's values, of which some are missing.
    """
    words = {
        value.strip() for value, gone in zip(distinct.values, distinct.missing, strict=True) if gone
    }
    return " or ".join(quote(word) if word else "empty" for word in sorted(words))


def _frequent_words(nodes: Table, column: str) -> Iterator[tuple[str, str]]:
    """Each word for a missing value that many cells say, and how many of them."""
    distinct, num_cells = nodes.distinct(column), len(nodes)
    if not distinct.says(MISSING_WORDS).any():
        return
    for word in sorted(MISSING_WORDS):
        count = int(distinct.counts[distinct.says({word})].sum())
        if count >= max(FEWEST_CELLS, SMALLEST_SHARE * num_cells):
            yield word, f"{share_of(count, num_cells)} of the cells"
