"""What the documents claim: code that runs, tables that match their records, names that exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import crossgcn
from crossgcn.explanation import NotASum
from crossgcn.explanation.polynomial import read_layer
from paper.cells import Place, read_result
from paper.items import ITEMS

PROJECT = Path(__file__).parents[1]
API = sorted((PROJECT / "docs" / "api").glob("*.md"))


PAGES = sorted(
    page.name for page in (PROJECT / "docs").glob("*.md") if "```python" in page.read_text()
)


def run_page(name: str) -> dict[str, Any]:
    """Execute the Python blocks of a page, one after another, and return what they define."""
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / name).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def test_the_code_in_the_page_about_graphs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/graphs.md")
    assert names["data"].num_classes == 3
    assert len(names["cross"].test_accuracy) == 5


def test_the_code_in_the_page_about_tables_runs() -> None:
    names = run_page("docs/own_tables.md")
    assert len(names["predicted"]) == 3220 and "neighbours: " in repr(names["whole"])
    assert [0 < len(columns) <= 16 for columns in names["columns"]] == [True, True]


def test_the_code_in_the_page_about_scikit_learn_runs() -> None:
    names = run_page("docs/scikit_learn.md")
    assert min(names["accuracy"], names["search"].best_score_) > 0.95
    alone = names["CrossGCNClassifier"](epochs=60).fit(names["X"], names["y"])
    assert alone.score(names["X"], names["y"]) < 0.8
    assert len(names["terms"].values) and names["probabilities"].shape == (200, 2)
    assert 0 < len(names["reads"]) <= 16


def test_the_code_in_the_page_about_pyg_runs() -> None:
    names = run_page("docs/pyg.md")
    assert names["crossed_maps"](names["crossed"])
    assert names["scores"].shape == (100, 7)
    assert names["conv"](names["x"], names["edge_index"]).shape == (100, 32)
    with pytest.raises(NotASum, match="combines its orders by OrderLSTM"):
        read_layer(names["conv"], 0)


@pytest.mark.parametrize("page", API, ids=lambda page: page.stem)
def test_the_examples_of_the_api_pages_print_what_they_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(examples).failed
    assert examples.examples and not failed


def test_every_public_name_is_documented_with_an_example() -> None:
    pages = "".join(page.read_text() for page in API)
    documented = re.findall(r"^\.\. (?:auto\w+|py:data):: crossgcn\.(\w+)$", pages, re.MULTILINE)
    assert sorted(documented) == sorted(crossgcn.__all__)
    examples = "".join(re.findall(r"```pycon\n(.*?)```", pages, re.DOTALL))
    without_imports = re.sub(r">>> from crossgcn import (\(.*?\)|[^\n]*)", "", examples, flags=re.S)
    for name in crossgcn.__all__:
        assert re.search(rf"\b{name}\b", without_imports), name


def test_every_deviation_has_its_note_in_the_code() -> None:
    listed = set(re.findall(r"\*\*(D\d+)\*\*", (PROJECT / "docs" / "paper.md").read_text()))
    files = [path for folder in ("src", "paper") for path in (PROJECT / folder).rglob("*.py")]
    code = "".join(path.read_text() for path in files)
    assert listed == set(re.findall(r"NOTE\[(D\d+)\]", code))


def test_the_numbers_in_the_text_about_the_paper_are_those_of_the_records() -> None:
    text = " ".join((PROJECT / "docs" / "paper.md").read_text().split())
    path = PROJECT / "results" / "paper" / "citeseer-cross.json"
    measured = read_result(path, ITEMS["citeseer-cross"]).measured
    for row, words in (
        ("gated (ours)", "reaches {} %"),
        ("GCN", "GCN {} %"),
        ("GIN", "units, {} %"),
    ):
        accuracy = measured[Place(row, "20 per class", "one layer")].test_accuracy
        assert words.format(f"{100 * fmean(accuracy):.1f}") in text


def test_the_code_of_every_page_is_run_by_a_test_above() -> None:
    run = set(re.findall(r'run_page\("docs/(\w+\.md)"\)', Path(__file__).read_text()))
    assert set(PAGES) == run
