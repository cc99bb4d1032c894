from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import crossgcn.data
from crossgcn.data import CATALOGUE, DATASET_NAMES, TABLES, available, load_dataset
from crossgcn.errors import BadInput

HERE = [
    name
    for name, entry in CATALOGUE.items()
    if name != "reddit400k-shaped"  # see test_generated.py
    and (entry.origin != "planetoid" or "CROSSGCN_DATA" in os.environ)
]


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSGCN_DATA", raising=False)
    monkeypatch.setattr(
        "crossgcn.data.datasets.catalogue.user_cache_path", lambda _: tmp_path / "cache"
    )


@pytest.mark.parametrize("name", HERE)
def test_every_dataset_is_what_the_catalogue_says(name: str) -> None:
    data, entry = load_dataset(name), CATALOGUE[name]
    source, target = data.edge_index
    assert data.name == name
    assert (data.num_nodes, data.num_features) == (entry.nodes, entry.columns)
    assert (int((source < target).sum()), int((source == target).sum())) == (
        entry.edges,
        entry.self_loops,
    )
    assert data.num_classes == entry.classes == int(data.y.max()) + 1


def test_words_are_row_normalised_and_planted_normals_are_not() -> None:
    words = load_dataset("citeseer").x
    sums = (words @ torch.ones(words.shape[1], 1)).flatten()
    assert int((sums == 0).sum()) == 15
    torch.testing.assert_close(sums[sums != 0], torch.ones(3327 - 15))
    normals = load_dataset("citeseer-cross").x
    assert abs(float(normals.std()) - 1) < 0.02


def test_the_seed_reaches_the_generated_datasets() -> None:
    first, second = load_dataset("citeseer-cross", seed=0), load_dataset("citeseer-cross", seed=1)
    assert not torch.equal(first.x, second.x)
    triples = load_dataset("citeseer-cross-3").x.double().view(-1, 6, 3).prod(-1) > 0
    assert torch.equal(triples.any(1), first.y >= 0)


def test_unknown_names_and_missing_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown dataset 'citeser': did you mean 'citeseer'"):
        load_dataset("citeser")
    with pytest.raises(BadInput, match=r"gone\.npz: no such file"):
        load_dataset(tmp_path / "gone.npz")
    with pytest.raises(BadInput, match="unknown dataset"):
        available("citeser")


@pytest.mark.usefixtures("bare_machine")
def test_loading_never_downloads_but_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        load_dataset("cora")
    message = str(caught.value)
    assert "copy ind.cora.x, ind.cora.y" in message and "CROSSGCN_DATA to the folder" in message
    assert "`crossgcn data get cora`" in message
    assert str(tmp_path / "cache" / "planetoid") in message
    assert "\n" not in message


@pytest.mark.usefixtures("bare_machine")
def test_a_bare_machine_has_what_ships_or_is_drawn() -> None:
    assert {name: available(name) for name in DATASET_NAMES} == {
        "citeseer": "bundled",
        "cora": None,
        "pubmed": None,
        "citeseer-cross": "generated",
        "citeseer-cross-3": "generated",
        "citeseer-cross-4": "generated",
        "reddit400k-shaped": "generated",
        **dict.fromkeys(TABLES),
        "us-county": "bundled",
    }


def test_the_catalogue_and_the_sources_need_no_torch() -> None:
    script = (
        "import sys, crossgcn.data.datasets.catalogue; "
        "from crossgcn.data import DATASET_NAMES, available; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_public_name_of_the_room_resolves() -> None:
    for name in crossgcn.data.__all__:
        home = getattr(crossgcn.data, name)
        assert home is not None
        assert name in dir(crossgcn.data)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(crossgcn.data, "nonsense")  # noqa: B009
