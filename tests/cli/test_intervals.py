"""``predict`` on counties that were left out of the training, and whose outcome is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import Command, result_of, run_command
from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

from crossgcn import TableModel
from crossgcn.data.datasets.real import read_real

QUICK = ("--num-splits", "2", "--columns", "8", "--set", "tuning=1", "--workers", "1", "--json")


@pytest.fixture(scope="module")
def counties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of 2,620 counties and of the other 600, and a run of each target on the first."""
    folder, tables = tmp_path_factory.mktemp("counties"), read_real("us-county")
    nodes = tables.nodes.drop(columns=["state", "name"]).sample(frac=1, random_state=0)
    edges = tables.edges.astype(str)
    is_known = edges.isin(set(nodes["fips"].astype(str)[600:])).all(axis=1)
    for name, table in (("new_edges", edges[~is_known]), ("edges", edges[is_known])):
        table.to_csv(folder / f"{name}.csv", index=False)
    nodes[:600].to_csv(folder / "new.csv", index=False)
    for target, other in (("winner", "democratic_share"), ("democratic_share", "winner")):
        nodes[600:].drop(columns=other).to_csv(folder / "nodes.csv", index=False)
        files = (folder / "nodes.csv", folder / "edges.csv", "--target", target)
        result_of(run_command("train", *files, *QUICK, "--out", folder / target))
    return folder


def test_new_counties_are_in_their_intervals_and_scored(crossgcn: Command, counties: Path) -> None:
    command = ("predict", counties / "democratic_share", counties / "new.csv")
    edges = counties / "new_edges.csv"
    answer = result_of(crossgcn(*command, edges, "--interval", 90, "--json", "--out", "p.csv"))
    frame = pd.read_csv("p.csv").dropna(subset="true")
    low, high, truth = frame["lower"], frame["upper"], frame["true"]
    assert 0.85 < truth.between(low, high).mean() < 0.95
    assert ((low + high) / 2 - frame["predicted"]).abs().max() < 1e-6 and (high - low).std() > 0
    scored = answer["scored"]
    assert scored["nodes"] == len(frame) < 600
    assert scored["metrics"]["r2"] == pytest.approx(r2_score(truth, frame["predicted"]), abs=1e-5)
    error = root_mean_squared_error(truth, frame["predicted"])
    assert scored["metrics"]["rmse"] == pytest.approx(error, abs=1e-5)
    assert error == pytest.approx(np.mean(scored["test"]["rmse"]), rel=0.2)
    shown = crossgcn(*command, edges, "--interval", 90, "--out", "p.csv").stdout
    for words in (f"{len(frame)} new nodes", "test nodes", "RMSE", "intervals hold 90 %", "±"):
        assert words in shown
    assert "for new nodes of the same population as the validation nodes" in shown


def test_sets_hold_the_winner_as_often_as_promised(crossgcn: Command, counties: Path) -> None:
    odd = pd.read_csv(counties / "new.csv", dtype=str)
    odd.loc[:2, "winner"] = ["green", "", " democrat"]
    odd.to_csv("odd.csv", index=False)
    command = ("predict", counties / "winner", "odd.csv", counties / "new_edges.csv")
    answer = result_of(crossgcn(*command, "--interval", 97, "--json", "--out", "p.csv"))
    frame = pd.read_csv("p.csv").dropna(subset="true")
    assert answer["scored"]["nodes"] == len(frame)
    assert "rows not scored: 1, since their winner, such as 'green'" in answer["warnings"][0]
    assert set(frame["set"]) == {"democrat", "republican", "democrat; republican"}
    assert share_inside(frame) > 0.94 and frame["predicted"].eq(frame["true"]).mean() < 0.96
    metrics, chances = answer["scored"]["metrics"], frame["probability: republican"]
    assert metrics["accuracy"] == accuracy_score(frame["true"], frame["predicted"])
    loss = log_loss(frame["true"] == "republican", chances)
    assert metrics["log_loss"] == pytest.approx(loss, abs=1e-4)


def share_inside(frame: pd.DataFrame) -> float:
    """Return how many sets hold the truth."""
    sets = frame["set"].fillna("").str.split("; ")
    return float(np.mean([a in b for a, b in zip(frame["true"], sets, strict=True)]))


def test_a_set_is_empty_where_no_class_is_likely_enough(crossgcn: Command, counties: Path) -> None:
    command = ("predict", counties / "winner", counties / "new.csv", counties / "new_edges.csv")
    done = crossgcn(*command, "--interval", 80, "--out", "p.csv")
    frame = pd.read_csv("p.csv")
    known = frame.dropna(subset="true")
    assert 0.75 < share_inside(known) < 0.85 < known["predicted"].eq(known["true"]).mean()
    unsure = frame[["probability: democrat", "probability: republican"]].max(axis=1)
    is_empty = frame["set"].isna()
    assert unsure[is_empty].max() < unsure[~is_empty].min()
    words = " ".join(done.stdout.split())
    assert f"({is_empty.sum()} sets empty: no class is likely enough)" in words
    answer = result_of(crossgcn(*command, "--interval", 80, "--json", "--out", "p.csv"))
    assert answer["interval"]["mean_size"] == pytest.approx(1 - is_empty.mean())


def test_all_nodes_of_the_run_have_intervals_in_python_as_well(
    crossgcn: Command, counties: Path
) -> None:
    done = crossgcn("predict", counties / "winner", "--interval", 80, "--out", "p.csv")
    assert done.returncode == 0 and "sets hold 80 % of the truths" in done.stdout
    frame = TableModel.load(counties / "winner").predict(interval=80)
    assert frame["set"].tolist() == pd.read_csv("p.csv")["set"].fillna("").tolist()
    assert "set" not in TableModel.load(counties / "winner").predict()


@pytest.mark.parametrize("percent", ["49.9", "100", "nan", "-1", "99.9"])
def test_percentages_that_cannot_be_promised_are_refused(
    percent: str, crossgcn: Command, counties: Path
) -> None:
    done = crossgcn("predict", counties / "winner", "--interval", percent, "--out", "p.csv")
    assert done.returncode == 2 and not Path("p.csv").exists()
    assert f"{percent} % cannot be promised by" in done.stderr
    assert "validation nodes; give --interval 50 to 99.8" in done.stderr
