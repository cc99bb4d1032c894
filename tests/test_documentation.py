"""What the documents claim: code that runs, tables that match their records, names that exist."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from crossgcn.reproduction.collect import read_item_result

PROJECT = Path(__file__).parents[1]


def run_page(name: str) -> dict[str, Any]:
    """Execute the Python blocks of a page, one after another, and return what they define."""
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / name).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def test_the_code_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("README.md")
    assert names["out"].shape == (100, 32)
    assert names["data"].num_classes == 3
    assert len(names["cross"].test_accuracy) == 5
    assert names["probabilities"].shape == (100, 2)


def test_the_code_in_the_page_about_tables_runs() -> None:
    names = run_page("docs/own_tables.md")
    assert set(names["crosses"]["class"]) == set(names["graph"].classes)


def test_the_code_in_the_page_about_explanations_runs() -> None:
    names = run_page("docs/explanations.md")
    assert set(names["table"]["class"]) == set(names["graph"].classes)
    assert len(names["axes"].patches) == 10


def test_the_code_in_the_page_about_scikit_learn_runs() -> None:
    names = run_page("docs/scikit_learn.md")
    assert min(names["accuracy"], names["accuracy_of_new"], names["search"].best_score_) > 0.95
    alone = names["CrossGCNClassifier"](epochs=60).fit(names["X"], names["y"])
    assert alone.score(names["X"], names["y"]) < 0.8
    assert len(names["crosses"]) and len(names["predicted"]) == len(names["shop"].new_nodes)


def test_the_code_in_the_page_about_real_data_runs() -> None:
    names = run_page("docs/real_data.md")
    assert len(names["tables"].nodes) == names["graph"].data.num_nodes


def test_the_code_in_the_page_about_building_blocks_runs() -> None:
    names = run_page("docs/building_blocks.md")
    assert names["scores"].shape == (100, 7)
    assert names["crossed_maps"](names["crossed"])


@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_the_code_in_the_page_about_loggers_and_lightning_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/loggers.md")
    assert len(names["runs"].records) == 2
    data, model = names["data"], names["model"].eval()
    known = data.train_mask
    found = model(data.x, data.edge_index)[known].argmax(dim=1)
    assert (found == data.y[known]).float().mean() > 0.9


def test_every_deviation_has_its_note_in_the_code() -> None:
    listed = set(re.findall(r"\*\*(D\d+)\*\*", (PROJECT / "docs" / "deviations.md").read_text()))
    code = "".join(path.read_text() for path in (PROJECT / "src").rglob("*.py"))
    code += "".join(path.read_text() for path in (PROJECT / "src").rglob("*.toml"))
    assert listed == set(re.findall(r"NOTE\[(D\d+)\]", code))


def test_the_paper_map_names_files_and_tests_that_exist() -> None:
    text = (PROJECT / "docs" / "paper_map.md").read_text()
    tests = "".join(path.read_text() for path in (PROJECT / "tests").rglob("test_*.py"))
    for name in set(re.findall(r"\btest_\w+(?!\w*\.py)\b", text)):
        assert f"def {name}(" in tests or list((PROJECT / "tests").rglob(f"{name}.py")), name
    for path in set(re.findall(r"`([\w/-]+\.(?:py|toml))", text)):
        found = (PROJECT / "src" / "crossgcn" / path, PROJECT / "tests" / path)
        assert any(candidate.exists() for candidate in found), path


def test_the_numbers_in_the_readmes_text_are_those_of_the_records() -> None:
    text = " ".join((PROJECT / "README.md").read_text().split())
    result = read_item_result(PROJECT / "results" / "paper" / "citeseer-cross.json")
    for row, words in (
        ("gated (ours)", "reaches {} %"),
        ("GCN", "GCN {} %"),
        ("GIN", "units, {} %"),
    ):
        cell = result.find("20 per class", row, "one layer")
        assert cell is not None
        assert words.format(f"{100 * fmean(cell.test_accuracy):.1f}") in text
