"""JSON files that show when they, or files they speak of, were changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crossgcn.errors import BadInput

__all__ = ["digest_of_file", "digest_of_json", "is_sealed", "read_json_object", "sealed"]


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The same with a hash of itself."""
    return content | {"sha256": digest_of_json(content)}


def is_sealed(content: dict[str, Any]) -> bool:
    """Whether it is what :func:`sealed` gave."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return content.get("sha256") == digest_of_json(rest)


def digest_of_json(content: dict[str, Any]) -> str:
    """SHA-256 of an object, in whatever order its keys are."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str | None:
    """SHA-256 of what a file holds; none where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def read_json_object(path: Path, whence: str, remedy: str) -> dict[str, Any]:
    """The object in a file; an empty one where it holds something else.

    Args:
        path: The file.
        whence: What to give instead of a file that is not there.
        remedy: What to do about one that is damaged.

    Raises:
        BadInput: If it cannot be read, or is no JSON.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {whence}") from None
    except ValueError as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); {remedy}") from None
    return content if isinstance(content, dict) else {}
