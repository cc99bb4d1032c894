"""Real graphs by name: what their tables hold, and that only verified files are parsed."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch

from crossgcn import BadInput, TableChoices, load_dataset, load_real, make_splits
from crossgcn.data import TABLES, read_real

by_name = cache(load_real)
"""Each graph is encoded once for all tests."""

REAL = Path(os.environ.get("CROSSGCN_DATA", "nowhere")) / "real"
ELSEWHERE = [name for name, entry in TABLES.items() if entry.files]
needs_files = pytest.mark.skipif(not REAL.is_dir(), reason="CROSSGCN_DATA has no real/")


@pytest.mark.parametrize(
    "name", ["us-county", *(pytest.param(name, marks=needs_files) for name in ELSEWHERE)]
)
def test_every_graph_is_what_the_catalogue_says(name: str) -> None:
    graph, entry = by_name(name), TABLES[name]
    source, target = graph.data.edge_index
    assert graph.data.name == name
    assert graph.data.num_nodes == entry.nodes == len(graph.ids)
    assert int((source < target).sum()) == entry.edges
    assert len(graph.plan.columns) - 1 == entry.columns
    assert graph.plan.target == entry.target
    assert len(graph.classes) == 2


def used_columns(graph_name: str, choices: TableChoices | None = None) -> set[str]:
    return {column.name for column in load_real(graph_name, choices=choices).plan.features}


def test_counties_leave_out_what_gives_the_result_away() -> None:
    graph = by_name("us-county")
    assert graph.classes == ("democrat", "republican")
    assert int((graph.data.y >= 0).sum()) == 3111
    used = used_columns("us-county")
    assert {"economy", "population", "median_income"} <= used
    assert used.isdisjoint({"fips", "state", "name", "winner", "democratic_share"})
    by_economy = load_real("us-county", target="economy")
    assert by_economy.plan.target == "economy"
    assert {"winner", "democratic_share"}.isdisjoint(c.name for c in by_economy.plan.features)


def test_the_share_of_votes_is_a_number_to_predict() -> None:
    graph = load_real("us-county", target="democratic_share")
    shares = read_real("us-county").nodes["democratic_share"].to_numpy()
    assert (graph.data.num_classes, graph.classes) == (1, ("democratic_share",))
    np.testing.assert_allclose(graph.data.y.numpy(), shares, rtol=1e-6)
    assert int(np.isnan(shares).sum()) == 109
    assert "winner" not in {column.name for column in graph.plan.features}
    split = make_splits(graph.data, "stratified")[0]
    assert len(split.train) + len(split.validation) + len(split.test) == 3111


def test_a_choice_about_a_column_replaces_its_default() -> None:
    with_state = used_columns("us-county", TableChoices(categorical=("state",)))
    assert with_state - used_columns("us-county") == {"state"}
    fewer = used_columns("us-county", TableChoices(ignored=("economy",)))
    assert used_columns("us-county") - fewer == {"economy"}


def test_the_tables_are_frames_and_the_graph_is_a_dataset() -> None:
    tables = read_real("us-county")
    assert isinstance(tables.nodes, pd.DataFrame) and tables.roles is None
    county = tables.nodes.set_index("name").loc["Autauga County"]
    assert (county["fips"], county["winner"], county["democratic_share"]) == (
        *(1001, "republican"),
        0.23957,
    )
    data = load_dataset("us-county")
    assert data.name == "us-county"
    assert torch.equal(data.y, by_name("us-county").data.y)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(BadInput, match="no column 'winer': did you mean 'winner'"):
        load_real("us-county", "winer")
    with pytest.raises(BadInput, match="unknown dataset of tables 'us-counti': did you mean"):
        read_real("us-counti")
    with pytest.raises(BadInput, match="unknown dataset 'facebook100/Amherst': did you mean"):
        load_dataset("facebook100/Amherst")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_not_here_says_where_it_comes_from_and_goes_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        load_dataset(name)
    folder = Path(TABLES[name].files[0]).parent
    for words in (TABLES[name].source, TABLES[name].terms, str(tmp_path / folder)):
        assert words in str(caught.value)


@needs_files
def test_students_have_codes_and_zero_is_missing() -> None:
    content = scipy.io.loadmat(REAL / "facebook100" / "Caltech36.mat")["local_info"]
    nodes = read_real("facebook100/Caltech36").nodes
    assert nodes["gender"].isna().sum() == int((content[:, 1] == 0).sum())
    assert nodes["high_school"].fillna(0).tolist() == content[:, 6].tolist()
    graph = by_name("facebook100/Caltech36")
    assert graph.classes == ("1", "2")
    assert int((graph.data.y >= 0).sum()) == int((content[:, 1] > 0).sum())
    kinds = {column.name: column.kind for column in graph.plan.columns}
    assert {kinds[name] for name in ("dorm", "year", "high_school")} == {"categorical"}
    by_dorm = load_real("facebook100/Caltech36", target="dorm")
    assert "gender" in {column.name for column in by_dorm.plan.features}


@needs_files
def test_tolokers_has_its_official_splits() -> None:
    graph = by_name("tolokers")
    splits = make_splits(graph.data, "public")
    assert len(splits) == 10
    arrays = np.load(REAL / "tolokers" / "tolokers.npz", allow_pickle=False)
    for part in ("train", "val", "test"):
        mine = getattr(splits[3], {"val": "validation"}.get(part, part))
        assert mine.tolist() == np.flatnonzero(arrays[f"{part}_masks"][3]).tolist()
    assert graph.data.y.tolist() == arrays["node_labels"].tolist()
    assert read_real("tolokers").nodes["education"].isin(["none", "basic", "middle", "high"]).all()


@needs_files
def test_streamers_have_a_list_of_games() -> None:
    graph = by_name("twitch/DE")
    kinds = {column.name: column.kind for column in graph.plan.columns}
    assert (kinds["games"], kinds["partner"], kinds["views"]) == ("list", "flag", "numeric")
    assert graph.classes == ("false", "true")
