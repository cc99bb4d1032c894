"""Mutation testing: change one operator, constant or return value, and see whether a test fails.

``python -m research.scripts.mutate`` draws mutants of each area and writes the
record ``results/mutation.json``.
Nothing is written to the sources: each mutant is compiled in a process of its own, which runs the
tests of its area. A survivor of an earlier record keeps the reason that was written beside it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[2]
RECORD = PROJECT / "results" / "mutation.json"

AREAS = {
    "layers": (
        ["layers/cross_feature_transform.py", "layers/feature_transform.py"],
        ["tests/layers/test_cross_feature_transform.py", "tests/layers/test_cross_gcn_conv.py"],
    ),
    "explanation": (
        ["explanation/purify.py", "explanation/polynomial.py"],
        ["tests/explanation/test_purify.py", "tests/explanation/test_columns.py"],
    ),
    "splits": (["data/splits.py"], ["tests/data/test_splits.py"]),
    "statistics": (["experiments/statistics.py"], ["tests/experiments/test_statistics.py"]),
    "unpickler": (
        ["data/datasets/planetoid.py"],
        ["tests/data/test_planetoid.py", "tests/data/test_hostile_pickles.py"],
    ),
}
"""Sources below ``src/crossgcn`` and the tests nearest to them, by area."""

SWAPS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


CHANGED = (ast.Compare, ast.BinOp, ast.AugAssign, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.Return)


class Mutant(NamedTuple):
    """One change of one file; ``site`` counts the places where a file can be changed."""

    file: str
    site: int
    line: int
    before: str
    after: str


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through code that computes: no annotations, decorators, messages or docstrings."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _parts(child)


def _change(node: ast.AST) -> bool:
    """Change a node in place; return whether it can be changed."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS:
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        else:
            node.op = ast.UAdd()
    elif isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return False
        node.value = ast.Constant(None)
    else:
        return False
    return True


def mutants_of(source: str, file: str = "") -> list[tuple[Mutant, ast.Module]]:
    """Return every mutant of a source, with its syntax tree."""
    found = []
    for site, candidate in enumerate(_parts(ast.parse(source))):
        if not isinstance(candidate, CHANGED):
            continue
        tree = ast.parse(source)
        node = next(part for i, part in enumerate(_parts(tree)) if i == site)
        before = ast.unparse(node)
        if _change(node):
            line = getattr(node, "lineno", 0)
            found.append((Mutant(file, site, line, before, ast.unparse(node)), tree))
            ast.fix_missing_locations(tree)
    return found


def _load_changed(mutant: Mutant, tree: ast.Module) -> None:
    """Have this process import the changed tree instead of the file."""
    changed = "crossgcn." + mutant.file.removesuffix(".py").replace("/", ".")
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> Any:
        is_changed = name == changed
        return compile(tree, loader.path, "exec") if is_changed else original(loader, name)

    sys.modules.pop(changed, None)
    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def run_tests(tests: Sequence[str], mutant: tuple[Mutant, ast.Module] | None, limit: float) -> str:
    """Return ``killed``, ``survived`` or ``timeout`` of tests in a fork of this process."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        if mutant is not None:
            _load_changed(*mutant)
        import pytest

        quick = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
        quick += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = 3
        try:
            code = int(pytest.main([*quick, *tests]))
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def run_area(area: str, count: int, seed: int, reasons: dict[Any, str]) -> Iterator[Any]:
    """Run a sample of the mutants of one area; yield its part of the record after each of them."""
    files, tests = AREAS[area]
    root = PROJECT / "src" / "crossgcn"
    everything = [each for file in files for each in mutants_of((root / file).read_text(), file)]
    sample = random.Random(f"{seed} {area}").sample(everything, min(count, len(everything)))
    start = time.monotonic()
    if run_tests(tests, None, 900) != "survived":
        raise SystemExit(f"{area}: its tests fail without a mutant; run pytest {' '.join(tests)}")
    limit = 30 + 4 * (time.monotonic() - start)
    record: dict[str, Any] = {"files": files, "tests": tests, "mutants": len(everything)}
    record |= {"sample": 0, "killed": 0, "timeouts": 0, "survivors": []}
    for mutant in sample:
        outcome = run_tests(tests, mutant, limit)
        record["sample"] += 1
        if outcome == "survived":
            file, _, line, before, after = mutant[0]
            found = {"file": file, "line": line, "before": before, "after": after}
            record["survivors"].append(found | {"reason": reasons.get((file, before, after), "")})
            print(f"{area}: {file}:{line}: {before}  ->  {after}", flush=True)
        else:
            record["killed" if outcome == "killed" else "timeouts"] += 1
        yield record
    print(f"{area}: {len(sample) - len(record['survivors'])} of {len(sample)} killed", flush=True)


def run_survivors(part: dict[str, Any]) -> None:
    """Run the survivors of one area again, after tests were added, and update its record."""
    root = PROJECT / "src" / "crossgcn"
    mutants = {
        (mutant.file, mutant.line, mutant.before, mutant.after): (mutant, tree)
        for file in part["files"]
        for mutant, tree in mutants_of((root / file).read_text(), file)
    }
    left = []
    for each in part["survivors"]:
        mutant = mutants[each["file"], each["line"], each["before"], each["after"]]
        left += [each] if run_tests(part["tests"], mutant, 900) == "survived" else []
    part["killed"] += len(part["survivors"]) - len(left)
    part["survivors"] = left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the areas that are named, or all; exit code 1 below 85 % killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("areas", nargs="*", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--sample", type=int, default=50, help="mutants of each area")
    parser.add_argument("--survivors", action="store_true", help="only those of the record, again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args(arguments)
    for heavy in ("numba", "pandas", "pytest", "scipy.stats", "sklearn", "torch_geometric"):
        __import__(heavy)  # once, before the forks
    record = json.loads(given.out.read_text()) if given.out.exists() else {"areas": {}}
    known = [each for area in record["areas"].values() for each in area["survivors"]]
    reasons = {(each["file"], each["before"], each["after"]): each["reason"] for each in known}
    record["seed"] = given.seed
    for area in given.areas or (record["areas"] if given.survivors else AREAS):
        if given.survivors:
            run_survivors(record["areas"][area])
            given.out.write_text(json.dumps(record, indent=1) + "\n")
            continue
        for part in run_area(area, given.sample, given.seed, reasons):
            record["areas"][area] = part
            given.out.write_text(json.dumps(record, indent=1) + "\n")
    parts = record["areas"].values()
    return int(any(len(part["survivors"]) > 0.15 * part["sample"] for part in parts))


if __name__ == "__main__":
    raise SystemExit(main())
