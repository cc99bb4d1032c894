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
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src" / "crossgcn"
RECORD = PROJECT / "results" / "mutation.json"

CPU_LIMIT = 300
"""Seconds of computing after which tests never end, for each mutant."""


class Area(NamedTuple):
    """A part of the core: patterns of files below ``src/crossgcn``, and the tests of some of them.

    The tests of a file are ``test_`` and its name in the same folder of ``tests``, or those that
    ``tests`` lists.
    """

    sources: tuple[str, ...]
    tests: Mapping[str, str] = MappingProxyType({})

    def files(self) -> list[str]:
        """Return the sources, in the order of their names."""
        found = {path for pattern in self.sources for path in SOURCES.glob(pattern)}
        return sorted(path.relative_to(SOURCES).as_posix() for path in found)

    def tests_of(self, file: str) -> list[str]:
        """Return the tests nearest to a source."""
        path = Path(file)
        named = self.tests.get(path.stem, f"test_{path.name}").split()
        return [os.path.normpath(Path("tests") / path.parent / name) for name in named]


AREAS = {
    "layers": Area(
        ("layers/[!_]*.py", "layers/*/[!_]*.py"),
        {
            "catalogue": "test_catalogue.py aggregation/test_aggregation_argument.py",
            "cin": "test_cin.py test_feature_crossing.py",
            "cross_feature_transform": "test_cross_feature_transform.py test_projection_scale.py "
            "test_kernels_in_layers.py test_mlp_transform.py",
            "cross_gcn_conv": "test_cross_gcn_conv.py test_pyg_citizen.py",
            "dcn": "test_dcn.py test_dcn_v2.py test_feature_crossing.py",
            "entries": "test_entries.py test_hofm.py test_feature_crossing.py",
            "feature_transform": "test_feature_dropout.py other_crossings/test_feature_crossing.py",
            "graph_convolution": "test_cross_gcn_conv.py aggregation/test_aggregation_argument.py "
            "test_pyg_citizen.py ../contract/test_pyg_layer.py",
            "one_hop": "test_sums.py test_attention.py test_recurrent.py test_neighbour_pairs.py "
            "test_pyg_aggregation.py test_aggregation_argument.py",
            "orders": "test_cross_feature_transform.py test_trained_order_aggregation.py",
        },
    ),
    "explanation": Area(
        ("explanation/[!_]*.py",),
        {
            "arguments": "test_explain_call.py test_pyg.py",
            "column_details": "test_columns.py test_layered.py test_shop_terms.py",
            "expansion": "test_terms.py test_aggregated_orders.py test_node.py",
            "explain": "test_explain_call.py test_columns.py test_strongest.py",
            "explainers": "test_columns.py test_layered.py",
            "occurrence": "test_top_pairs.py test_top_tuples.py",
            "one_node": "test_columns.py test_layered.py",
            "pairs": "test_top_pairs.py",
            "plots": "test_columns.py",
            "polynomial": "test_purify.py test_columns.py",
            "reading": "test_purify.py test_terms.py test_explained_options.py",
            "run": "test_explain_columns_command.py test_removal.py",
            "tuples": "test_top_tuples.py",
        },
    ),
    "splits": Area(("data/splits.py",)),
    "statistics": Area(("experiments/statistics.py",)),
    "unpickler": Area(
        ("data/datasets/planetoid.py",),
        {"planetoid": "../test_planetoid.py ../test_hostile_pickles.py"},
    ),
}

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


def mutants_of(source: str, file: str = "") -> list[Mutant]:
    """Return every mutant of a source."""
    found = []
    for site, part in enumerate(_parts(ast.parse(source))):
        if isinstance(part, CHANGED):
            node, before = deepcopy(part), ast.unparse(part)
            if _change(node):
                line = getattr(node, "lineno", 0)
                found.append(Mutant(file, site, line, before, ast.unparse(node)))
    return found


def changed_tree(source: str, mutant: Mutant) -> ast.Module:
    """Return the syntax tree of a mutant."""
    tree = ast.parse(source)
    _change(next(part for site, part in enumerate(_parts(tree)) if site == mutant.site))
    return ast.fix_missing_locations(tree)


def _load_changed(mutant: Mutant) -> None:
    """Have this process import the changed tree instead of the file."""
    changed = "crossgcn." + mutant.file.removesuffix(".py").replace("/", ".")
    tree = changed_tree((SOURCES / mutant.file).read_text(), mutant)
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> Any:
        is_changed = name == changed
        return compile(tree, loader.path, "exec") if is_changed else original(loader, name)

    sys.modules.pop(changed, None)
    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def run_tests(tests: Sequence[str], mutant: Mutant | None = None) -> str:
    """Return ``killed``, ``survived`` or ``timeout`` of tests in a fork of this process."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        if mutant is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
            _load_changed(mutant)
        import pytest

        quick = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
        quick += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = 3
        try:
            code = int(pytest.main([*quick, *tests]))
        finally:
            os._exit(code)
    end = time.monotonic() + 20 * CPU_LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            ended = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            return "survived" if status == 0 else "timeout" if ended else "killed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def mutants_in(area: Area) -> list[Mutant]:
    """Return every mutant of an area."""
    sources = {file: (SOURCES / file).read_text() for file in area.files()}
    return [mutant for file, source in sources.items() for mutant in mutants_of(source, file)]


def check_unchanged(area: Area, mutants: Iterable[Mutant]) -> None:
    """Exit if the tests of some mutants fail without a change."""
    tests = sorted({test for mutant in mutants for test in area.tests_of(mutant.file)})
    if run_tests(tests) != "survived":
        raise SystemExit(f"without a mutant, tests fail: run pytest {' '.join(tests)}")


def _commit() -> str:
    asked = ["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def run_area(area: str, count: int, seed: int, reasons: dict[Any, str]) -> Iterator[Any]:
    """Run a sample of the mutants of one area; yield its part of the record after each of them."""
    every = mutants_in(AREAS[area])
    sample = random.Random(f"{seed} {area}").sample(every, min(count, len(every)))
    record: dict[str, Any] = {"commit": _commit(), "mutants": len(every), "sample": 0}
    record |= {"killed_at_first": 0, "killed": 0, "timeouts": 0, "survivors": []}
    check_unchanged(AREAS[area], sample)
    for mutant in sample:
        outcome = run_tests(AREAS[area].tests_of(mutant.file), mutant)
        record["sample"] += 1
        if outcome == "survived":
            reason = reasons.get((mutant.file, mutant.before, mutant.after), "")
            record["survivors"].append(mutant._asdict() | {"reason": reason})
            print(f"{mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
        else:
            record["killed" if outcome == "killed" else "timeouts"] += 1
            record["killed_at_first"] += 1
        yield record
    print(f"{area}: {record['killed_at_first']} of {len(sample)} killed", flush=True)


def run_survivors(area: str, part: dict[str, Any]) -> None:
    """Run the survivors of one area again, after tests were added, and update its record."""
    again = [Mutant(*(each[name] for name in Mutant._fields)) for each in part["survivors"]]
    if missing := set(again).difference(mutants_in(AREAS[area])):
        raise SystemExit(f"{area}: the source was changed, draw again: {missing}")
    check_unchanged(AREAS[area], again)
    left = [
        survivor
        for survivor, mutant in zip(part["survivors"], again, strict=True)
        if run_tests(AREAS[area].tests_of(mutant.file), mutant) == "survived"
    ]
    part["killed"] += len(part["survivors"]) - len(left)
    part["survivors"] = left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the areas that are named, or all; exit code 1 below 85 % killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("areas", nargs="*", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each area")
    parser.add_argument("--survivors", action="store_true", help="only those of the record, again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args(arguments)
    for heavy in (
        "hypothesis",
        "numba",
        "pandas",
        "pytest",
        "scipy.stats",
        "sklearn",
        "torch_geometric",
    ):
        __import__(heavy)  # once, before the forks
    record = json.loads(given.out.read_text()) if given.out.exists() else {"areas": {}}
    known = [each for area in record["areas"].values() for each in area["survivors"]]
    reasons = {(each["file"], each["before"], each["after"]): each["reason"] for each in known}
    record["seed"] = given.seed
    for area in given.areas or (record["areas"] if given.survivors else AREAS):
        if given.survivors:
            run_survivors(area, record["areas"][area])
            given.out.write_text(json.dumps(record, indent=1) + "\n")
            continue
        for part in run_area(area, given.sample, given.seed, reasons):
            record["areas"][area] = part
            given.out.write_text(json.dumps(record, indent=1) + "\n")
    parts = record["areas"].values()
    return int(any(len(part["survivors"]) > 0.15 * part["sample"] for part in parts))


if __name__ == "__main__":
    raise SystemExit(main())
