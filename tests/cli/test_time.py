"""Training on the past and testing on the future, on a table drawn with a drift."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest_fixtures import Command, result_of

from crossgcn import TableChoices, load_tables
from crossgcn.data.relations import relations_of
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.neighbourhood import Neighbourhood, SharedThings, neighbour_labels

YEARS = range(2010, 2020)
OPTIONS = ("--target", "bought", "--time-column", "year", "--columns", "all", "--bags", "2")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """What ``income`` says fades out and turns around; friends buy alike, the older one first."""
    draw = np.random.default_rng(3)
    year = np.repeat(list(YEARS), 40)
    count = len(year)
    income, end = draw.normal(size=count), draw.integers(0, count, (2, 900))
    score = income * (2016 - year) / 2 + draw.normal(size=count)
    nodes = pd.DataFrame({"id": range(count), "income": income, "year": year})
    nodes["paid"] = [f"{each + 1}-05-17" for each in year]
    nodes["bought"] = np.where(score > 0, "yes", "no")
    edges = pd.DataFrame({"source": end[0], "target": end[1]})
    places = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.sample(frac=1, random_state=0).to_csv(places[0], index=False)
    edges.to_csv(places[1], index=False)
    return places


def test_a_drift_shows_in_the_future_only(
    crossgcn: Command, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    train = ("train", *tables, *OPTIONS, "--ignore", "paid", "--epochs", "30", "--json")
    future = result_of(crossgcn(*train, "--out", tmp_path / "future"))
    assert future["splits"] == "time" and len(future["test"]["roc_auc"]) == 1
    mixed = ("--splits", "stratified", "--num-splits", "2", "--out", tmp_path / "mixed")
    shuffled = result_of(crossgcn(*train, *mixed))
    assert np.mean(shuffled["test"]["roc_auc"]) > 0.6 > 0.5 > future["test"]["roc_auc"][0]
    assert not any("year" in name for name in future.get("columns", [[]])[0])

    rows = crossgcn("predict", tmp_path / "future", "--out", tmp_path / "predicted.csv")
    assert rows.returncode == 0, rows.stderr
    both = pd.read_csv(tmp_path / "predicted.csv").merge(pd.read_csv(tables[0]), on="id")
    years = {use: set(rows["year"]) for use, rows in both.groupby("used for")}
    assert max(years["train"]) < min(years["validation"])
    assert max(years["validation"]) < min(years["test"])
    assert (both["used for"] == "train").mean() == 0.6


def test_a_new_row_is_predicted_as_it_would_have_been_then(
    crossgcn: Command, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    """The last row as a new node: friends show labels to later rows only, here as there."""
    nodes, edges = (pd.read_csv(path) for path in tables)
    last = nodes[nodes["year"] == 2019].iloc[[0]]
    is_its = edges.isin(last["id"].tolist()).any(axis=1)
    known = tmp_path / "known.csv", tmp_path / "known_edges.csv"
    nodes.drop(last.index).to_csv(known[0], index=False)
    edges[~is_its].to_csv(known[1], index=False)
    run, new = tmp_path / "run", tmp_path / "new.csv"
    train = ("train", *known, *OPTIONS, "--ignore", "paid", "--epochs", "20", "--json")
    assert crossgcn(*train, "--out", run).returncode == 0
    edges[is_its].to_csv(tmp_path / "new_edges.csv", index=False)
    probability = []
    for year in (2009, 2020, 2021):
        last.assign(year=year).to_csv(new, index=False)
        out = tmp_path / f"{year}.csv"
        done = crossgcn("predict", run, new, tmp_path / "new_edges.csv", "--out", out)
        assert done.returncode == 0, done.stderr
        probability.append(pd.read_csv(out)["probability: yes"][0])
    assert probability[0] != probability[1] == probability[2]  # in 2009 no friend had bought yet


def test_labels_of_earlier_neighbours_equal_a_slow_twin(tables: tuple[Path, Path]) -> None:
    choices = TableChoices(target="bought", time_column="year")
    data = load_tables(*tables, choices).data
    known = np.flatnonzero(np.arange(len(data.y)) % 3 > 0)
    labels = neighbour_labels(data.y, torch.from_numpy(known), 2, data.node_time)
    found = HopColumns(data.x, relations_of(data)).label_columns(labels).numpy()
    year, bought = data.node_time.numpy(), data.y.numpy()
    near: dict[int, list[int]] = {node: [] for node in range(len(year))}
    for source, target in data.edge_index.t().tolist():
        if year[source] < year[target]:
            near[target].append(source)
    prior = bought[known].mean()
    for node in range(len(year)):
        ends = near[node], [end for middle in near[node] for end in near[middle]]
        for hop, walks in enumerate(ends, 1):
            seen = [bought[end] for end in walks if end in known]
            expected = (sum(seen) + hop * prior) / (len(seen) + hop), np.log1p(len(seen))
            np.testing.assert_allclose(found[node, 2 * hop - 2 : 2 * hop], expected, atol=1e-5)


def test_check_warns_of_a_column_that_knows_the_future(
    crossgcn: Command, tables: tuple[Path, Path]
) -> None:
    found = json.loads(crossgcn("check", *tables, *OPTIONS[:4], "--json").stdout)
    (problem,) = [each for each in found["findings"] if each["kind"] == "knows-the-future"]
    assert problem["column"] == "paid" and problem["count"] == 400
    assert problem["severity"] == "warning" and "--ignore paid" in problem["remedy"]
    fair = ("--target", "bought", "--time-column", "paid")
    known = json.loads(crossgcn("check", *tables, *fair, "--json").stdout)
    assert not [each for each in known["findings"] if each["kind"] == "knows-the-future"]


def test_times_that_cannot_be_read_are_refused(
    crossgcn: Command, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    nodes = pd.read_csv(tables[0]).astype({"year": object})
    nodes.loc[7, "year"] = "soon"
    nodes.to_csv(tables[0], index=False)
    done = crossgcn("train", *tables, *OPTIONS, "--out", tmp_path / "run")
    assert done.returncode == 2 and "'soon' is no time" in done.stderr and "row 9" in done.stderr
    done = crossgcn("train", *tables, "--target", "bought", "--splits", "time")
    assert done.returncode == 2 and "--time-column" in done.stderr
    share = ("--target", "bought", "--time-column", "paid", "--train", "10%")
    done = crossgcn("train", *tables, *share, "--ignore", "year")
    assert done.returncode == 2 and "leave --train out" in " ".join(done.stderr.split())
    nodes["year"] = 2010
    nodes.to_csv(tables[0], index=False)
    done = crossgcn("train", *tables, *OPTIONS, "--out", tmp_path / "run")
    assert done.returncode == 2 and "1 different times" in done.stderr


def test_labels_of_earlier_nodes_that_share_a_thing_equal_those_of_the_listed_pairs() -> None:
    draw = np.random.default_rng(1)
    member = draw.random((40, 12)) < 0.15
    times = torch.from_numpy(draw.integers(0, 5, 40).astype(float))
    y = torch.from_numpy(draw.integers(0, 2, 40))
    shared = SharedThings(torch.from_numpy(np.stack(member.nonzero())), 40, 12).earlier(times)
    weight = member / np.maximum(member.sum(0) - 1, 1) @ member.T
    weight[times[:, None].numpy() <= times[None].numpy()] = 0
    target, source = (torch.from_numpy(each) for each in weight.nonzero())
    listed = Neighbourhood(
        torch.stack([source, target]), torch.from_numpy(weight[target, source]), 40
    )
    labels = neighbour_labels(y, torch.arange(0, 40, 2), 2)
    for hop in (1, 2):
        expected = listed.mean_labels(labels, hop)
        torch.testing.assert_close(shared.mean_labels(labels, hop), expected)
