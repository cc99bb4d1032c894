"""The default model for tables, from training to predictions and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest_fixtures import Command, run_command
from shop_tables import write_shop
from torch_geometric.utils import to_undirected

from crossgcn.data.tables.graph import load_new_tables, load_tables, read_encoding
from crossgcn.data.tables.plan import TableChoices
from crossgcn.experiments.candidates import configure_for_tables
from crossgcn.experiments.predict import predict_nodes
from crossgcn.experiments.run_folder import open_run
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.models.catalogue import PRESETS
from crossgcn.training.config import RunConfig

SIMPLE = ("--models", "majority-or-mean,linear", "--tuning", 1, "--num-splits", 2, "--workers", 1)
QUICK = ("--num-splits", 2, "--epochs", 3, "--hidden-channels", 4, "--bags", 2, "--workers", 1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "shop"
    write_shop(folder, 300)
    return folder


@pytest.fixture(scope="module")
def answer(shop: Path) -> dict[str, Any]:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    named = ("--relation", "friends")
    done = run_command("train", *tables, *QUICK, *named, "--json", "--out", shop.parent / "run")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def run(answer: dict[str, Any]) -> Path:
    return Path(answer["out"])


def test_every_metric_is_in_the_answer(answer: dict[str, Any]) -> None:
    assert (answer["model"], answer["order"], answer["task"]) == ("cross-hops", 2, "multiclass")
    assert answer["metric"] == "accuracy" == next(iter(answer["test"]))
    assert answer["test"].keys() >= {"roc_auc", "balanced_accuracy", "f1_macro", "log_loss"}
    assert all(len(values) == 2 for values in answer["test"].values())
    assert answer["test_accuracy"] == answer["test"]["accuracy"]
    assert answer["mean"] == pytest.approx(sum(answer["test_accuracy"]) / 2)


def test_another_metric_leads_the_table(crossgcn: Command, shop: Path) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "buys")
    done = crossgcn("train", *tables, *QUICK, "--metric", "log_loss", "--out", "r")
    assert done.returncode == 0, done.stderr
    title, _, metrics = done.stdout.partition("on the test nodes")
    assert "2 stratified splits" in title and "log loss on the validation nodes" in metrics
    assert metrics.index("log loss") < metrics.index("accuracy in %") < metrics.index("ROC-AUC")


def test_predictions_of_known_nodes_hold_the_truth(
    crossgcn: Command, run: Path, tmp_path: Path
) -> None:
    assert crossgcn("predict", run).returncode == 0
    frame = pd.read_csv(tmp_path / "predictions.csv")
    assert {"true", "predicted", "used for"} < set(frame.columns)
    opened = open_run(run)
    counts = frame["used for"].value_counts()
    assert counts["train"] == len(opened.split.train) and counts["test"] == len(opened.split.test)


def test_new_nodes_see_the_labels_of_the_training_nodes(shop: Path, run: Path) -> None:
    opened = open_run(run)
    nodes, edges = shop / "new_nodes.csv", shop / "new_edges.csv"
    frame = predict_nodes(opened, nodes, edges).frame
    new = load_new_tables(nodes, edges, *read_encoding(opened.saved.preprocess), opened.ids)
    old, added, model = opened.data, len(new.ids), opened.saved.model
    y = torch.cat([old.y, torch.full((added,), -1)])
    labels = neighbour_labels(y, opened.split.train, old.num_classes)
    x = torch.cat([old.x.to_dense(), torch.from_numpy(new.x.toarray())])
    ends = torch.cat([old.edge_index, new.relations[0].edge_index], dim=1)
    with torch.no_grad():
        scores = model(x, to_undirected(ends), None, labels)[-added:]
    found = frame.filter(like="probability: ").to_numpy()
    np.testing.assert_allclose(found, scores.softmax(dim=1), atol=1e-4)
    assert (frame["used for"] == "none").all() and frame["true"].isna().all()


def test_a_comparison_of_another_target_is_refused(
    crossgcn: Command, run: Path, shop: Path
) -> None:
    tables = (shop / "nodes.csv", shop / "edges.csv", "--target", "visits")
    assert crossgcn("compare", *tables, *SIMPLE, "--out", "c").returncode == 0
    done = crossgcn("report", run, "--comparison", "c", "--out", "page.html")
    assert done.returncode == 2 and "compares models on another graph" in done.stderr


def test_a_number_is_never_called_accurate_and_the_page_recommends_as_compare_does(
    crossgcn: Command, shop: Path
) -> None:
    nodes = pd.read_csv(shop / "nodes.csv")
    nodes["height"] = [number % 37 / 7 for number in range(len(nodes))]
    noise = nodes["height"].sample(frac=1, random_state=0).to_numpy()
    nodes["spent"] = 10.5 + 2 * nodes["height"] + noise
    nodes.drop(columns="buys").to_csv("nodes.csv", index=False)
    tables = ("nodes.csv", shop / "edges.csv", "--target", "spent")
    done = crossgcn("train", *tables, *QUICK, "--metric", "rmse", "--out", "r")
    assert done.returncode == 0, done.stderr
    assert "RMSE on the validation nodes" in done.stdout
    assert "R²" in done.stdout and "accuracy" not in done.stdout
    compared = crossgcn("compare", *tables, *SIMPLE, "--metric", "r2", "--out", "c", "--json")
    assert compared.returncode == 0, compared.stderr
    result = json.loads(compared.stdout)
    assert result["recommended"] == "linear", "the constant is worse, so its R² is smaller"
    assert crossgcn("report", "r", "--comparison", "c", "--out", "page.html").returncode == 0
    page = Path("page.html").read_text()
    assert set(re.findall(r"Test R²: (\S+) ", page)) == {"linear"}
    assert "Predicted against true spent" in page and "accuracy" not in page
    assert "Terms that matter most" in page and "majority-or-mean" in page

    for record in Path("c").rglob("run.json"):
        record.write_text("{}")
    done = crossgcn("report", "r", "--comparison", "c", "--out", "page.html")
    assert done.returncode == 2 and "is not what was written there" in done.stderr


def test_the_defaults_depend_on_the_model(shop: Path) -> None:
    graph = load_tables(shop / "nodes.csv", shop / "edges.csv", TableChoices(target="buys"))

    def made(**given: Any) -> RunConfig:
        return configure_for_tables(graph, given)

    ours, plain = made(), made(model="gcn")
    assert (ours.model, ours.order, ours.bags) == ("cross-hops", 2, 8)
    assert ours.patience == PRESETS["cross-hops"].training["patience"]
    assert made(order=3).order == 3 and made(model="cross-gcn").order == (2, 1)
    assert (plain.patience, plain.dropout, plain.bias) == (50, 0.2, True)
    assert (ours.num_splits, plain.num_splits) == (10, 10)


def test_naming_the_default_model_changes_nothing(shop: Path) -> None:
    graph = load_tables(shop / "nodes.csv", shop / "edges.csv", TableChoices(target="buys"))
    named, unnamed = (configure_for_tables(graph, given) for given in ({"model": "cross-hops"}, {}))
    assert named == unnamed
    assert configure_for_tables(graph, {"weight_decay": 0.5}).weight_decay == 0.5
    folder = configure_for_tables(None, {"model": "cross-hops"})
    assert (folder.weight_decay, folder.dropout) == (named.weight_decay, named.dropout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "rmse"), "metric 'rmse' does not fit a target of classes"),
        (("--hops", 12), "hops should be less than or equal to 10; got 12"),
        (("--set", "label_features=maybe"), "label_features should be a valid boolean"),
        (("--relation", "a:b"), "give a word for neighbours without a colon"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    options: tuple[object, ...], message: str, crossgcn: Command, shop: Path
) -> None:
    nodes = pd.read_csv(shop / "nodes.csv")
    first = nodes["buys"] == sorted(nodes["buys"].dropna().unique())[0]
    parts = ["train", "validation", "test"]
    nodes["part"] = [parts[1 + row % 2 if own else row % 3] for row, own in enumerate(first)]
    nodes.to_csv("nodes.csv", index=False)
    named = () if "--split-column" in options else ("--ignore", "part")
    done = crossgcn("train", "nodes.csv", shop / "edges.csv", "--target", "buys", *named, *options)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
