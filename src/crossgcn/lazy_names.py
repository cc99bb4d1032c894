"""Import the public names of a package on first use."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package that should import fast.

    The names stand once, in ``__init__.pyi``, which type checkers read: each line of it is
    ``from module import name as name``.

    Args:
        package: ``__name__`` of the package.
        file: Its ``__file__``.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    home_of = {
        name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.M)
    }

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home_of[name]), name)

    def list_names() -> list[str]:
        return [*vars(importlib.import_module(package)), *home_of]

    return find, list_names, sorted(home_of)
