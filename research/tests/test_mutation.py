from __future__ import annotations

import ast
import json
from pathlib import Path

from research.pages.mutation import mutation_markdown
from research.scripts.mutate import (
    AREAS,
    PROJECT,
    RECORD,
    SOURCES,
    changed_tree,
    mutants_of,
    run_tests,
)

SOURCE = '''
def half(value: int = 3) -> float:
    """Return 1 / 2 of it."""
    if value < 0 and not value == -1:
        raise ValueError("1 + 1")
    return value / 2
'''


def test_operators_constants_and_results_are_changed_and_texts_are_not() -> None:
    changes = {(mutant.before, mutant.after) for mutant in mutants_of(SOURCE)}
    assert {
        ("value < 0", "value <= 0"),
        ("value == -1", "value != -1"),
        ("not value == -1", "not not value == -1"),
        ("value < 0 and (not value == -1)", "value < 0 or not value == -1"),
        ("value / 2", "value * 2"),
        ("3", "4"),
        ("return value / 2", "return None"),
    } <= changes
    assert not any("ValueError" in before for before, _ in changes)


def test_every_mutant_is_another_program() -> None:
    plain = ast.unparse(ast.parse(SOURCE))
    programs = [ast.unparse(changed_tree(SOURCE, each)) for each in mutants_of(SOURCE)]
    assert plain not in programs
    assert len(set(programs)) == len(programs)


def test_a_mutant_fails_the_test_that_pins_its_line(tmp_path: Path) -> None:
    file = "experiments/statistics.py"
    source = (SOURCES / file).read_text()
    mutants = {mutant.before: mutant for mutant in mutants_of(source, file)}
    test = tmp_path / "test_minus.py"
    test.write_text(
        "from crossgcn.experiments.statistics import paired_difference\n"
        "def test_minus(): assert paired_difference([3], [1]).mean == 2\n"
    )
    assert run_tests([str(test)], mutants["a - b"]) == "killed"
    assert run_tests([str(test)], mutants["0.95"]) == "survived"


def test_every_source_has_tests() -> None:
    for area in AREAS.values():
        for file in area.files():
            for test in area.tests_of(file):
                assert (PROJECT / test).exists(), f"{file}: {test}"
    assert "explanation/purify.py" in AREAS["explanation"].files()


def test_at_least_85_percent_are_killed_and_survivors_have_reasons() -> None:
    record = json.loads(RECORD.read_text())
    assert record["areas"] and set(record["areas"]) <= set(AREAS)
    for name, area in record["areas"].items():
        assert area["killed"] + area["timeouts"] + len(area["survivors"]) == area["sample"]
        assert area["killed_at_first"] <= area["killed"] + area["timeouts"], name
        assert len(area["survivors"]) <= 0.15 * area["sample"], name
        assert all(each["reason"] for each in area["survivors"]), name
    page = mutation_markdown(record)
    assert all(f"| {name} |" in page for name in record["areas"])
