"""Tables with one thing wrong with each, and what a user should read about it."""

from __future__ import annotations

from dataclasses import replace

from tables_with_errors import ERRORS
from tables_with_warnings import WARNINGS
from unreadable_tables import CANNOT_BE_READ

__all__ = ["BAD_TABLES"]

BAD_TABLES = (
    *CANNOT_BE_READ,
    *ERRORS,
    *(replace(table, is_error=False) for table in WARNINGS),
)
