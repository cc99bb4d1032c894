"""Why scores changed since another run: parts against the models' own forward passes."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import one_thread  # noqa: F401
from conftest_fixtures import Command, result_of

from crossgcn import BadInput, TableModel, explain, from_tables
from crossgcn.data import read_real
from crossgcn.data.tables.graph import read_encoding
from crossgcn.data.tables.read import read_table
from crossgcn.explanation.difference import PARTS, Difference

QUICK: dict[str, Any] = {"num_splits": 1, "epochs": 3, "bags": 2, "columns": 6, "tuning": 1}
COUNTIES = read_real("us-county")
KEPT = ["fips", "name", "economy", "population", "net_migration_rate", "median_income"]
OLD_NODES = COUNTIES.nodes[[*KEPT, "bachelor_rate", "winner", "democratic_share"]]
NEW_NODES = OLD_NODES.assign(
    median_income=np.where(np.arange(len(OLD_NODES)) % 3, OLD_NODES["median_income"], 70_000)
).drop(index=[5, 6])
OLD_EDGES = COUNTIES.edges[~COUNTIES.edges.isin([1001]).any(axis=1)]
AT = OLD_EDGES.isin([6075, int(OLD_NODES["fips"][5]), int(OLD_NODES["fips"][6])]).any(axis=1)
NEW_EDGES = pd.concat([OLD_EDGES[~AT], COUNTIES.edges[COUNTIES.edges.isin([1001]).any(axis=1)]])


def fit(folder: Path, nodes: pd.DataFrame, edges: pd.DataFrame, target: str, **more: Any) -> Path:
    ignored = tuple({"winner", "democratic_share"} - {target})
    options = {**QUICK, "ignored": ignored, "name_column": "name", **more}
    from_tables(nodes, edges, target, **options).fit(folder)
    return folder


@pytest.fixture(scope="module", params=["democratic_share", "winner", "economy"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Another year's tables and edges, and a model that was trained again on the same ones."""
    folder, target = tmp_path_factory.mktemp("runs"), request.param
    old = fit(folder / "old", OLD_NODES, OLD_EDGES, target)
    new = fit(folder / "new", NEW_NODES, NEW_EDGES, target)
    again = fit(folder / "again", OLD_NODES, OLD_EDGES, target, seed=1)
    return tuple(map(TableModel.load, (old, new, again)))


def by_hand(old: TableModel, new: TableModel, node: str) -> list[Any]:
    """The scores of a node after each exchange, each by a forward pass of the old model."""
    run, other = old.run, new.run
    model: Any = run.saved.model
    x = run.data.x.to_dense()
    encoder, _ = read_encoding(run.saved.preprocess)
    frame = NEW_NODES if len(other.ids) == len(NEW_NODES) else OLD_NODES
    new_x = torch.from_numpy(encoder.transform(read_table(frame, "nodes")).toarray())
    both = [name for name in run.ids if name in other.ids]
    at, there = ([r.ids.index(name) for name in both] for r in (run, other))
    mixed, labels, theirs = x.clone(), run.labels(model), other.labels(model)
    mixed[at] = new_x[there]
    if labels is not None and theirs is not None:
        if run.data.num_classes == 1:
            mean, deviation = (f(run.data.y[run.split.train].numpy()) for f in (np.mean, np.std))
            theirs = theirs._replace(values=((other.data.y[:, None] - mean) / deviation).float())
        values, known = labels.values.clone(), labels.known.clone()
        values[at], known[at] = theirs.values[there], theirs.known[there]
        between = labels._replace(values=values, known=known)
    edges, weight = run.data.edge_index, run.data.edge_weight
    own, place = run.ids.index(node), other.ids.index(node)
    columns = [model.columns(x, edges, weight, labels)[own]]
    values = model.columns(mixed, edges, weight, between if labels is not None else None)[own]
    moved = model.columns(new_x, other.data.edge_index, other.data.edge_weight, theirs)[place]
    columns += [torch.cat([moved[: model.in_channels], columns[0][model.in_channels :]])]
    columns += [values, moved]
    exact = copy(model).double().eval()
    with torch.no_grad():
        return list(exact(torch.stack(columns).double()).numpy())


def margin(scores: Any) -> Any:
    count = scores.shape[-1]
    if count < 3:
        return scores[..., -1:] - (scores[..., :1] if count == 2 else 0)
    return (scores * count - scores.sum(-1, keepdims=True)) / (count - 1)


def test_parts_are_exact_and_those_of_forward_passes(runs: tuple[TableModel, ...]) -> None:
    old, new, again = runs
    for later in (new, again):
        change = later.explain(since=old)
        assert isinstance(change, Difference)
        np.testing.assert_allclose(change.parts.sum(axis=0), change.new - change.old, atol=1e-9)
        if later is again:
            assert not change.changes[:, [0, 2]].any() and change.parts[3].any()
        assert change.only_new == () and len(change.only_old) == 2 * (later is new)
        for name in ("6075", "1001", "48301")[: 1 + 2 * (later is new)]:
            one = later.explain(since=old, node=name)
            before, after = old.explain(name), later.explain(name)
            assert one.outputs == (after.output,)
            total = one.changes.sum()
            was = before.whole.node(name, after.place)
            assert total == pytest.approx(after.score - was.score, abs=1e-9)
            scores = margin(np.array(by_hand(old, later, name)))[:, after.place]
            np.testing.assert_allclose(one.parts[:3, 0, 0], np.diff(scores), atol=1e-5)
            _check_terms(one, was, after)


def _check_terms(one: Difference, was: Any, now: Any) -> None:
    """The parts of each term add up to its change from one explanation to the other."""
    ends = [{t.columns: v for t, v in zip(n.terms, n.values, strict=True)} for n in (was, now)]
    for columns, parts in zip(one.columns, one.changes[:, :, 0, 0], strict=True):
        if columns == ("average",):
            assert parts.sum() == pytest.approx(now.average - was.average, abs=1e-9)
        elif not was.is_alone and not now.is_alone:
            change = ends[1].get(columns, 0.0) - ends[0].get(columns, 0.0)
            assert parts.sum() == pytest.approx(change, abs=1e-9)


def test_tables_of_a_change(runs: tuple[TableModel, ...]) -> None:
    old, new, _ = runs
    change, one = new.explain(since=old), explain(new.run.folder, since=old.run.folder, node="6075")
    sizes = np.sqrt(np.square(change.new - change.old).mean())
    record = change.to_json()
    assert record["change"] == pytest.approx(sizes) and record["nodes"] == len(new.run.ids)
    assert record["only_old"] == [old.run.shown[5], old.run.shown[6]]
    moved = record["moved_most"][0]
    assert max(map(abs, moved["change"].values())) == pytest.approx(
        abs(change.new - change.old).max()
    )
    frame = one.to_frame()
    total = (one.new - one.old).item()
    assert frame["change"].sum() == pytest.approx(total, abs=1e-9)
    assert frame[list(PARTS)].to_numpy().sum() == pytest.approx(total, abs=1e-9)
    assert one.held is not None
    read = "median_income" in {name for columns in one.columns for name in columns}
    assert read == ("median_income" in one.held)
    assert set(one.held.get("median_income", ())) <= {"101,873", "70,000", "–"}
    for each in (change, one):
        lines = repr(each).splitlines()
        assert len(lines) < 20 and max(map(len, lines)) <= 130


def test_the_command_and_what_it_refuses(
    runs: tuple[TableModel, ...], tmp_path: Path, crossgcn: Command
) -> None:
    old, new, again = (each.run.folder for each in runs)
    answer = result_of(crossgcn("explain", new, "--since", old, "--node", "6075", "--json"))
    parts = [answer[part] for part in PARTS]
    assert answer["old_score"] + sum(parts) == pytest.approx(answer["score"], abs=1e-9)
    for part in (*PARTS, "change"):
        terms = sum(term[part] for term in answer["terms"])
        assert terms == pytest.approx(answer[part], abs=1e-9)
    screen = " ".join(crossgcn("explain", new, "--since", old, "--out", "changed").stdout.split())
    assert "2 nodes went: " in screen and "Scores that changed most: " in screen
    assert {"term", *PARTS, "change"} == set(pd.read_csv("changed/terms.csv").columns)
    if runs[0].run.data.num_classes != 2:
        return
    shares = fit(tmp_path / "share", OLD_NODES, OLD_EDGES, "democratic_share", epochs=1)
    fewer = fit(tmp_path / "fewer", OLD_NODES.drop(columns="population"), OLD_EDGES, "winner")
    lone = OLD_NODES.assign(fips=OLD_NODES["fips"] + 1_000_000)
    others = fit(tmp_path / "others", lone, OLD_EDGES.iloc[:, :2] + 1_000_000, "winner", epochs=1)
    (gone,) = NEW_NODES["fips"].iloc[[7]]
    came = fit(
        tmp_path / "came",
        OLD_NODES[OLD_NODES["fips"] != gone],
        OLD_EDGES[~OLD_EDGES.isin([gone]).any(axis=1)],
        "winner",
        epochs=1,
    )
    for arguments, words in (
        ((new, "--since", shares), "the target is 'democratic_share' (a number) in"),
        ((new, "--since", fewer), "column 'population' is absent in"),
        ((new, "--since", others), "has no node of"),
        ((new, "--since", old, "--node", OLD_NODES["fips"][5]), "there is no node"),
        ((old, "--since", came, "--node", gone), "came since; give a node of both"),
        ((new, "--since", old, "--term", "population"), "leave out --term and tables"),
        ((new, "--since", tmp_path), "give the folder that crossgcn train made"),
    ):
        refused = crossgcn("explain", *arguments)
        assert refused.returncode == 2 and words in refused.stderr, refused.stderr
    with pytest.raises(BadInput, match="and no tables"):
        explain(new, OLD_NODES.head(1), since=old)
    assert len(crossgcn("explain", again, "--since", old, "--class", "democrat").stdout) > 99


def test_relations_and_the_columns_of_their_edges(tmp_path: Path) -> None:
    """Edges that become longer are edges that changed; so are ties that go."""
    random, few = np.random.default_rng(0), OLD_NODES.head(300)
    ends = few["fips"].to_numpy()
    borders = COUNTIES.edges[COUNTIES.edges.isin(ends).all(axis=1)]
    borders = borders.assign(length=random.integers(1, 90, len(borders)))
    ties = pd.DataFrame(random.choice(ends, (500, 2)), columns=["a", "b"]).query("a != b")
    runs = [
        TableModel.load(fit(tmp_path / name, few, edges, "democratic_share", columns="all"))  # type: ignore[arg-type]
        for name, edges in (
            ("old", {"borders": borders, "ties": ties}),
            ("new", {"borders": borders.assign(length=borders["length"] ** 1.2), "ties": ties[9:]}),
        )
    ]
    change = runs[1].explain(since=runs[0])
    np.testing.assert_allclose(change.parts.sum(axis=0), change.new - change.old, atol=1e-9)
    own, around, edges, _ = np.abs(change.changes).max(axis=(2, 3)).T
    assert not own.any() and not around.any() and edges.any()
    moved = {columns for columns, size in zip(change.columns, edges, strict=True) if size}
    assert ("borders: length (mean)",) in moved and any("ties: " in str(each) for each in moved)
    assert ("borders: median_income",) in change.columns and (
        "borders: median_income",
    ) not in moved
    plain = fit(tmp_path / "plain", few, borders.drop(columns="length"), "democratic_share")
    with pytest.raises(BadInput, match="relation 'borders' is absent in"):
        runs[1].explain(since=plain)
