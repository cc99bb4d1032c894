"""Values of new nodes that no node trained on had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.spelling import fold_spelling

__all__ = ["Unseen", "gather_unseen"]


@dataclass(frozen=True)
class Unseen:
    """What a column says that a model knows nothing of, and so takes for ``(other)``.

    Attributes:
        column: The header.
        count: How many cells hold such a value, or a list with such a word.
        example: One of the values; if some seem misspelt, one of those.
        known: The value that was probably meant: it differs from the example only in case or
            spaces; none where there is no such value.
    """

    column: str
    count: int
    example: str
    known: str | None


def gather_unseen(
    column: str, distinct: Distinct, found: Sequence[tuple[int, str]], known: Iterable[str]
) -> Unseen | None:
    """One answer for all that was not seen in a column; none where all was.

    Args:
        column: The header.
        distinct: The column's values.
        found: The position of a value, and a word of it that was not seen.
        known: The words that were, those to be preferred first.
    """
    if not found:
        return None
    spellings: dict[str, str] = {}
    for word in known:
        spellings.setdefault(fold_spelling(word), word)
    meant = ((word, spellings.get(fold_spelling(word))) for _, word in found)
    example, like = next((pair for pair in meant if pair[1] is not None), (found[0][1], None))
    holding = sorted({position for position, _ in found})
    return Unseen(column, int(distinct.counts[holding].sum()), example, like)
