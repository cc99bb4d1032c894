"""Writing a file so that readers see the old one or the new one, never half of one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["replacing", "write_json"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary neighbour of ``path`` that takes its place on success.

    The bytes reach the disk before the name changes. If the block raises, the
    neighbour is removed and whatever stood at ``path`` is untouched.

    Args:
        path: The file to write; its folder must exist.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON as a whole or not at all."""
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
