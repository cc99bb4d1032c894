"""Several relations, columns of edges and shared things, through the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import Command, run_command

from crossgcn import from_tables

N, NODES = 120, [f"p{number:03}" for number in range(120)]
GIVEN = ("friends=friends.csv", "works=works.csv", "--through", "teams=teams.csv")
HOW = ("--directed", "works", "--target", "left", "--ignore", "works: note")
QUICK = ("--num-splits", "2", "--epochs", "10", "--bags", "2", "--workers", "1", "--json")


def make_tables() -> dict[str, pd.DataFrame]:
    """People, their friends, who works for whom, and teams; some people are in none of these."""
    random = np.random.default_rng(3)
    group = random.integers(0, 2, N)

    def ends(count: int) -> Any:
        first = random.integers(0, N - 3, count)
        return np.array(NODES)[np.stack([first, (first + random.integers(1, 30, count)) % (N - 3)])]

    (one, two), (boss, worker) = ends(300), ends(200)
    nodes = {
        "id": NODES,
        "age": random.integers(18, 70, N),
        "town": random.choice(["Oslo", "Lima", "Rome"], N),
        "left": np.where(group + random.normal(0, 0.6, N) > 0.5, "yes", "no"),
    }
    works = {
        "boss": boss,
        "worker": worker,
        "kind": random.choice(["kin", "job", ""], 200),
        "years": np.where(random.random(200) < 0.1, "", random.integers(1, 30, 200) / 2),
        "since": [f"20{10 + i % 9}-0{1 + i % 7}-1{i % 8}" for i in range(200)],
        "note": [f"note {i}" for i in range(200)],
    }
    teams = {
        "person": random.choice(NODES[:-2], 250),
        "team": [f"t{team}" for team in random.integers(0, 30, 250)],
    }
    return {
        "nodes": pd.DataFrame(nodes),
        "friends": pd.DataFrame({"one": one, "two": two}),
        "works": pd.DataFrame(works),
        "teams": pd.DataFrame(teams),
        "new": pd.DataFrame({"id": ["new"], "age": [30], "town": ["Oslo"]}),
        "new_friends": pd.DataFrame({"one": ["new"], "two": ["p001"]}),
        "new_works": pd.DataFrame(works).head(1).assign(boss=["new"], kind=["never seen"]),
        "new_teams": pd.DataFrame({"person": ["new", "new"], "team": ["t3", "t99"]}),
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    for name, table in make_tables().items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(tables: Path, monkeypatch_module: pytest.MonkeyPatch) -> Path:
    monkeypatch_module.chdir(tables)
    how = (*HOW, "--columns", "all", *QUICK)
    done = run_command("train", "nodes.csv", *GIVEN, *how, "--out", "run")
    assert done.returncode == 0, done.stderr
    return tables / "run"


@pytest.fixture(scope="module")
def monkeypatch_module() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def answer(done: Any) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_columns_are_named_by_their_relation(crossgcn: Command, run: Path) -> None:
    told = answer(crossgcn("explain", run, "--json"))
    names = {*told["columns"], *told["dropped"]}
    assert names > {
        *("age", "friends: age", "2 hops of friends: age", "number of friends", "friends: left"),
        *("in-works: age", "out-works: age", "2 in-hops of works: left", "number of out-works"),
        *("in-works: years (mean)", "out-works: kind (share)", "in-works: since (share)"),
        *("same team: age", "2 hops of same team: left", "number with same team"),
    }
    assert not any("note" in name for name in names)
    boss = make_tables()["works"]["boss"][0]
    one = answer(crossgcn("explain", run, "--node", boss, "--json"))
    total = one["average"] + sum(term["value"] for term in one["terms"])
    assert total == pytest.approx(one["score"], abs=1e-6)
    assert {near["relation"] for near in one["neighbours"]} == {"friends", "works"}


def test_new_rows_have_edges_of_the_same_names(crossgcn: Command, run: Path, tables: Path) -> None:
    edges = [f"{name}={tables}/new_{name}.csv" for name in ("teams", "works", "friends")]
    told = answer(crossgcn("predict", run, tables / "new.csv", *edges, "--json", "--out", "p.csv"))
    assert [each["column"] for each in told["unseen_values"]] == ["kind"]
    assert not any("trained with" in warning for warning in told["warnings"])
    new = crossgcn("explain", run, tables / "new.csv", *edges, "--node", "new", "--json")
    row = pd.read_csv("p.csv").iloc[0]
    chance = 1 / (1 + np.exp(-answer(new)["score"]))
    assert chance == pytest.approx(row["probability: yes"], abs=1e-5)
    some = answer(
        crossgcn("predict", run, tables / "new.csv", edges[2], "--json", "--out", "p.csv")
    )
    assert "trained with works, teams, and no such edges" in some["warnings"][-1]
    for wrong, words in (
        (f"ties={tables}/new_friends.csv", "trained on the relations friends, works, teams"),
        (f"{tables}/new_friends.csv", "trained on the relations friends, works, teams"),
        (f"works={tables}/new_friends.csv", "there is no column 'kind'"),
    ):
        done = crossgcn("predict", run, tables / "new.csv", wrong, "--out", "p.csv")
        assert done.returncode == 2 and words in " ".join(done.stderr.split())


def test_the_same_in_python_and_again_from_the_folder(
    crossgcn: Command, run: Path, tables: Path, tmp_path: Path
) -> None:
    frames = make_tables()
    edges = {name: frames[name] for name in ("friends", "works")}
    choices = {"directed": ("works",), "ignored": ("works: note",)}
    settings = {"num_splits": 2, "epochs": 10, "bags": 2, "columns": "all"}
    through = {"teams": frames["teams"]}
    model = from_tables(frames["nodes"], edges, "left", through=through, **choices, **settings)
    found = model.fit(tmp_path / "python").scores
    assert found.to_dict("list") == json.loads((run / "result.json").read_text())["test"]
    new = {"friends": frames["new_friends"], "teams": frames["new_teams"]}
    with pytest.warns(UserWarning, match="trained with works"):
        assert len(model.predict(frames["new"], new)) == 1
    again = answer(crossgcn("train", "--config", run / "config.json", *QUICK, "--out", "again"))
    assert again["test"]["roc_auc"] == found["roc_auc"].tolist()
    assert json.loads(Path("again/config.json").read_text())["training"]["edges"] == [
        f"friends={tables}/friends.csv",
        f"works={tables}/works.csv",
    ]


def test_compare_says_whether_each_relation_helps(crossgcn: Command, tables: Path) -> None:
    given = [f"{name}={tables}/{name}.csv" for name in ("friends", "works")]
    models = ("--models", "cross-own,cross-hops-2", "--columns", "30", "--num-splits", "2")
    quick = ("--epochs", "3", "--tuning", "1", "--workers", "1", "--json", "--out", "compared")
    done = crossgcn("compare", tables / "nodes.csv", *given, *HOW, *models, *quick)
    told = answer(done)
    assert [model["model"] for model in told["models"]] == ["cross-own", "cross-hops-2"]
    for name, found in told["answers"]["relations"].items():
        assert found["model"] == "cross-hops-2"
        assert found["against"] == f"cross-hops-2 without {name}"
        assert found["difference"] != 0 and any(name in sentence for sentence in told["answer"])
    assert [*told["answers"]["relations"]] == ["friends", "works"]
    records = sorted(Path("compared").glob("without-1/trial-0/split-0*/run.json"))
    read = [name for path in records for name in json.loads(path.read_text())["columns"]]
    assert read and not any("works" in name for name in read)


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        ("friends=friends.csv friends=works.csv", ("two relations are called 'friends'",)),
        ("friends.csv works=works.csv", ("friends.csv has no name", "friends=friends.csv")),
        (
            "friends=friends.csv works=strange.csv",
            ("strange.csv: cannot tell the two ends", "--source-column"),
        ),
        (
            "works=texts.csv",
            ("texts.csv, column note: 1,200 different texts", "--ignore 'works: note'"),
        ),
        (
            "friends=friends.csv --through teams=teams.csv --destination-column squad",
            ("there is no column 'squad'",),
        ),
        ("--through teams.csv", ("--through teams.csv: give it a name",)),
        ("--through friends=friends.csv", ("what they share",)),
        ("friends=friends.csv --directed works", ("unknown relation 'works'", "known are friends")),
        ("friends=friends.csv --through friends=teams.csv", ("two relations are called",)),
        ("a:b=friends.csv", ("relation is 'a:b'", "without a colon")),
        ("friends=friends.csv --edge-weight heavy", ("there is no column 'heavy'",)),
        ("friends=friends.csv --set without=works", ("unknown relation 'works'",)),
        (
            "friends=friends.csv --through teams=teams.csv --model gcn",
            ("gcn reads edges between nodes", "cross-hops"),
        ),
    ],
)
def test_what_is_refused(
    words: str, fragments: tuple[str, ...], crossgcn: Command, tables: Path
) -> None:
    for name in ("nodes", "friends", "works", "teams"):
        (Path.cwd() / f"{name}.csv").write_bytes((tables / f"{name}.csv").read_bytes())
    strange = pd.read_csv("works.csv").assign(boss="x", worker="y")
    strange.to_csv("strange.csv", index=False)
    works = pd.concat([pd.read_csv("works.csv")] * 6, ignore_index=True)
    works.assign(note=[f"note {i}" for i in range(1200)]).to_csv("texts.csv", index=False)
    done = crossgcn("train", "nodes.csv", *words.split(), "--target", "left", "--num-splits", "2")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    for fragment in fragments:
        assert fragment in said
