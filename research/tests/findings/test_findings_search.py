from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossgcn.errors import BadInput
from research.findings.tables import read_search


def trial(dataset: str, model: str, hops: int, score: float | None) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": model,
        "settings": {"hops": hops},
        "validation_mean": score,
        "seconds": 1.0,
    }


@pytest.fixture
def record(tmp_path: Path) -> Path:
    rows = [
        trial("cora", "grand", 4, 0.70),
        trial("cora", "grand", 8, 0.80),
        trial("cora", "grand", 9, 0.80),
        trial("cora", "grand", 6, None),
        trial("cora", "grand", 7, float("nan")),
        trial("cora", "cross-grand", 5, 0.90),
        trial("pubmed", "grand", 3, 0.95),
        trial("pubmed", "cross-grand", 3, None),
    ]
    path = tmp_path / "search.json"
    path.write_text(json.dumps({"rows": rows, "versions": {"torch": "2"}}))
    return path


def test_the_best_on_validation_is_chosen_for_each_dataset_and_model(record: Path) -> None:
    search = read_search(record)
    chosen = search.choose("cora", "grand")
    assert chosen.settings == {"hops": 8}
    assert chosen.validation_mean == 0.80
    assert chosen.trials == 5
    assert search.choose("cora", "cross-grand").settings == {"hops": 5}
    assert search.choose("pubmed", "grand").settings == {"hops": 3}


@pytest.mark.parametrize(("dataset", "model"), [("citeseer", "grand"), ("pubmed", "cross-grand")])
def test_a_search_without_a_finished_trial_says_so(record: Path, dataset: str, model: str) -> None:
    with pytest.raises(BadInput, match=f"no finished trial of {model} on {dataset}"):
        read_search(record).choose(dataset, model)


def test_a_file_that_is_no_search_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.json: cannot be read .* search first"):
        read_search(tmp_path / "none.json")
    for content in ("[1]", "{", '{"rows": [{"dataset": "cora"}]}'):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(BadInput, match=r"bad\.json: is not the record of a search"):
            read_search(tmp_path / "bad.json")
