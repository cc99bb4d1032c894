"""A sample of what ``make test-fuzz`` does in full, and the record of the full count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzz_kinds import KINDS
from fuzz_runner import import_all, is_bad, outcomes

RECORD = Path(__file__).parents[2] / "results" / "fuzz.json"
QUICK = {
    "run folder": 25,
    "graph folder": 25,
    "npz": 25,
    "Planetoid": 25,
    "Planetoid without checksums": 60,
    "GraphSAGE": 25,
    "resume point": 25,
    "npz, resealed": 40,
}


@pytest.fixture(scope="module", autouse=True)
def plain_kernels() -> None:
    """Nothing to compile, in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSGCN_PLAIN_KERNELS", "1")
        import_all()


@pytest.mark.parametrize("name", QUICK)
def test_damaged_files_are_refused_or_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSGCN_PLAIN_KERNELS", "1")
    first = 10_000
    found = list(outcomes(name, range(first, first + QUICK[name])))
    assert [each["number"] for each in found] == list(range(first, first + QUICK[name]))
    assert not [each for each in found if is_bad(KINDS[name], each["outcome"])]
    assert any(each["outcome"] == "refused" for each in found)


def test_what_is_recorded_holds() -> None:
    recorded = json.loads(RECORD.read_text())["kinds"]
    assert recorded.keys() == KINDS.keys()
    for name, about in recorded.items():
        assert about["mutations"] >= KINDS[name].mutations, name
        assert about["traceback"] == about["crash"] == about["hang"] == 0, name
        assert about["different"] == 0 or not KINDS[name].has_checksums, name
