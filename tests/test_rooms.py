"""The rooms of the package: who imports whom, and that everything in it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "crossgcn"
ROOMS = (
    *("data", "kernels", "graph", "layers", "models", "training", "experiments", "estimator"),
    *("explanation", "export", "reports", "tables_api", "cli"),
)
"""A room imports only from rooms before it. CONTRIBUTING.md shows the same order."""
FOR_ALL = ("errors", "lazy_names")
"""Modules outside the rooms that every room may import."""
PUBLIC_ONLY = ("paper", "benchmarks", "examples")
"""Folders that import the package by its public names, ``ours.py`` of the benchmarks excepted."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


@cache
def imports(path: Path) -> frozenset[str]:
    """All modules of the package that a file names: in imports, or in strings to import later."""
    package = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
    named = set(_named(ast.parse(path.read_text(encoding="utf-8")), package))
    named |= {name.rpartition(".")[0] for name in named - MODULES.keys()}
    return frozenset(named & MODULES.keys())


def _named(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            yield from (name, f"{package}.{name}")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], *FOR_ALL, ""}
    for module, path in MODULES.items():
        if room_of(module) == room:
            below = {each for each in imports(path) if room_of(each) not in allowed}
            assert not below, f"{module} imports {', '.join(sorted(below))}"


def test_every_module_is_in_a_room_and_imported_by_another() -> None:
    outside = {module for module in MODULES if room_of(module) not in ROOMS}
    assert outside == {"crossgcn", "crossgcn.__main__", *(f"crossgcn.{name}" for name in FOR_ALL)}
    used = {"crossgcn.__main__"}.union(
        *(imports(path) - {module} for module, path in MODULES.items()),
        *map(imports, PACKAGE.rglob("*.pyi")),
    )
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    assert not MODULES.keys() - used - packages


def test_paper_benchmarks_and_examples_import_public_names() -> None:
    import crossgcn

    for path in (path for folder in PUBLIC_ONLY for path in (PROJECT / folder).rglob("*.py")):
        if path.name == "ours.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "crossgcn":
                assert {alias.name for alias in node.names} <= {*crossgcn.__all__, "__version__"}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossgcn."):
                # `crossgcn.data` and the like are public; modules below them are not.
                assert node.module is not None and node.module.count(".") == 1, (path, node.module)


def test_contributing_shows_the_rooms_in_this_order() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = [text.index(f"\n  {room}") for room in ROOMS]
    assert places == sorted(places)
