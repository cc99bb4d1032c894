"""Whether two texts are the same to a person."""

from __future__ import annotations

import unicodedata

__all__ = ["fold_spelling"]


def fold_spelling(text: str) -> str:
    """The text without what people overlook: case, spaces and how accents are encoded.

    Args:
        text: A value, a class, an id.
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())
