"""The rooms of the package: who imports whom, and that everything in it can be reached."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
ROOMS = (
    *("data", "kernels", "graph", "layers", "models", "training", "experiments", "estimator"),
    *("explanation", "reports", "workflows", "cli"),
)
"""A room imports only from rooms before it. CONTRIBUTING.md shows the same order."""
FOR_ALL = ("errors", "lazy_names")
"""Modules outside the rooms that every room may import."""


@dataclass(frozen=True)
class Import:
    module: str
    at_start: bool = True
    """Executed when the importing module is."""
    for_types: bool = False
    """Only seen by the type checker."""


@cache
def modules() -> dict[str, Path]:
    names = {}
    for path in sorted((SOURCE / "crossgcn").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        names[name.removesuffix(".__init__")] = path
    return names


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def lazy_homes(package: str) -> dict[str, str]:
    """Where the names live that a package imports on first use."""
    for node in ast.walk(tree_of(package)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            try:
                homes = ast.literal_eval(node.value)
            except ValueError:
                continue
            if all(isinstance(names, tuple) for names in homes.values()):
                return {
                    name: f"{package}.{home}" for home, names in homes.items() for name in names
                }
    return {}


def imported(node: ast.ImportFrom) -> Iterator[str]:
    assert node.level == 0 and node.module is not None
    for alias in node.names:
        inside = f"{node.module}.{alias.name}"
        if inside in modules():
            yield inside
        else:
            yield lazy_homes(node.module).get(alias.name, node.module)


def named(node: ast.AST, constants: dict[str, str]) -> str:
    """The module that a string names, as ``crossgcn.room.module:Class`` or without a class."""
    text = ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                text += constants.get(ast.unparse(part.value), "?")
            else:
                text += str(ast.literal_eval(part))
    module = text.partition(":")[0]
    return module if "." in module and module in modules() else ""


@cache
def imports(module: str) -> tuple[Import, ...]:
    """All imports of a module: statements, and strings that name a module to import later."""
    tree = tree_of(module)
    constants = {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    found = []
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, True, False)]
    while waiting:
        node, at_start, for_types = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] == "crossgcn":
                found += [Import(name, at_start, for_types) for name in imported(node)]
        elif isinstance(node, ast.Import):
            ours = [alias.name for alias in node.names if alias.name in modules()]
            found += [Import(name, at_start, for_types) for name in ours]
        elif name := named(node, constants):
            found.append(Import(name, False, for_types))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_start = False
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for_types = True
        waiting += [(child, at_start, for_types) for child in ast.iter_child_nodes(node)]
    return tuple(found)


def parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], *FOR_ALL}
    for module in modules():
        if room_of(module) != room:
            continue
        for each in imports(module):
            if each.module == "crossgcn":  # for its version and its folder, which bring no room in
                continue
            assert room_of(each.module) in allowed, f"{module} imports {each.module}"


def test_every_module_is_in_a_room() -> None:
    others = {module for module in modules() if room_of(module) not in ROOMS}
    assert others == {"crossgcn", "crossgcn.__main__", *(f"crossgcn.{name}" for name in FOR_ALL)}
    for name in FOR_ALL:
        assert not imports(f"crossgcn.{name}")


def test_no_module_imports_itself_by_a_detour() -> None:
    reached: dict[str, set[str]] = {}
    for module in modules():
        found: set[str] = set()
        waiting = [module]
        while waiting:
            for each in imports(waiting.pop()):
                if each.at_start and not each.for_types and each.module not in found:
                    found.add(each.module)
                    waiting.append(each.module)
        reached[module] = found
    circles = sorted(module for module, found in reached.items() if module in found)
    assert circles == []


def test_every_module_is_reached_from_the_command_or_from_a_public_name() -> None:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        script = tomllib.load(file)["project"]["scripts"]["crossgcn"]
    import crossgcn

    public = [lazy_homes("crossgcn")[name] for name in crossgcn.__all__]
    waiting = [script.partition(":")[0], "crossgcn.__main__", *public]
    reached: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in reached:
            continue
        reached.add(module)
        waiting += parents(module)
        waiting += [each.module for each in imports(module) if not each.for_types]
    assert sorted(modules().keys() - reached) == []


def test_the_wheel_holds_the_package_and_nothing_else() -> None:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/crossgcn"]}


def test_contributing_shows_the_rooms_in_this_order() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = [text.index(f"\n  {room}/") for room in ROOMS]
    assert places == sorted(places)
