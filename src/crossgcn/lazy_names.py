"""Import the public names of a package on first use."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports fast.

    The names are read from the ``__init__.pyi`` beside ``file``, which type checkers read as well.
    Each line is ``from module import name as name``.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.M)
    modules = {name: module for module, name in lines}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    def list_names() -> list[str]:
        return [*vars(importlib.import_module(package)), *modules]

    return find, list_names, sorted(modules)
