"""Columns of several relations, of edges and of shared things, against dense sums in float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.data.graph import canonical_graph, read_graph, save_graph
from crossgcn.data.relations import Relation
from crossgcn.errors import BadInput
from crossgcn.graph.hops import HopColumns, HopPlan, RelationNames, named
from crossgcn.graph.neighbourhood import NeighbourLabels, SharedThings, Smoothing

Floats = NDArray[np.float64]
SPACE = FeatureSpace(("years (mean)", "kind=kin (share)"), ("years (mean)", "kind (share)"))


def draw_relation(seed: int, num_nodes: int, kind: str) -> Relation:
    """A relation with parallel edges, self-loops, weights of 0 and isolated nodes."""
    random = np.random.default_rng(seed)
    ends = torch.from_numpy(random.integers(0, max(1, num_nodes - 1), (2, 3 * num_nodes)))
    if kind == "things":
        ends[1] %= 4
        return Relation("same team", ends, things=("a", "b", "c", "d", "nobody's"))
    weight = torch.from_numpy(random.integers(0, 4, ends.size(1))).float()
    attr = csr_array(random.integers(-2, 3, (ends.size(1), 2)).astype(np.float32))
    return Relation(
        kind,
        ends,
        weight if kind != "plain" else None,
        kind == "directed",
        attr if kind != "plain" else None,
        SPACE if kind != "plain" else FeatureSpace((), ()),
    )


def list_edges(relation: Relation) -> dict[tuple[int, int], tuple[float, Floats]]:
    """Weight and columns of each unique edge ``(source, target)``, by the rows of the table."""
    rows: dict[tuple[int, int], list[tuple[float, Floats]]] = {}
    for row, (u, v) in enumerate(relation.edge_index.t().tolist()):
        weight = 1.0 if relation.edge_weight is None else float(relation.edge_weight[row])
        attr = relation.edge_attr
        columns = np.zeros(0) if attr is None else attr[[row]].toarray()[0].astype(np.float64)
        for end in {(u, v)} if relation.directed else {(u, v), (v, u)}:
            if u != v:
                rows.setdefault(end, []).append((weight, columns))
    return {
        end: (float(np.mean([w for w, _ in found])), np.mean([c for _, c in found], axis=0))
        for end, found in rows.items()
    }


def adjacency(relation: Relation, num_nodes: int, flipped: bool) -> tuple[Floats, Floats]:
    """Weights ``[node, neighbour]``, and how many neighbours each entry counts as."""
    weights = np.zeros((2, num_nodes, num_nodes))
    if relation.things is not None:
        members = {t: {int(n) for n, m in relation.edge_index.t() if m == t} for t in range(5)}
        for nodes in members.values():
            for v in nodes:
                for u in nodes - {v}:
                    weights[:, v, u] += 1 / (len(nodes) - 1), 1
        return weights[0], weights[1]
    for (u, v), (weight, _) in list_edges(relation).items():
        place = (u, v) if flipped else (v, u)
        weights[0][place], weights[1][place] = weight, weight > 0
    return weights[0], weights[1]


def slow_columns(
    x: Floats, relations: list[Relation], hops: int, smoothing: Smoothing, y: Floats, known: Any
) -> Floats:
    """All columns by their definition, pair by pair."""
    count = len(x)
    sides = [(r, f) for r in relations for f in ((False, True) if r.directed else (False,))]
    prior, strengths = smoothing.prior.numpy(), smoothing.strength.numpy().reshape(hops, -1)
    found, last = [x], [x] * len(sides)
    usual = y[known].mean() if known.any() else 0.0
    near = [adjacency(relation, count, flipped) for relation, flipped in sides]
    for hop in range(hops):
        for at, (weight, number) in enumerate(near):
            total, share = (
                weight.sum(1),
                number.sum(1) / (number.sum(1) + strengths[hop, at] + 1e-9),
            )
            mean = weight @ last[at] / np.where(total > 0, total, 1)[:, None]
            share = np.where(total > 0, share, 0)[:, None]
            last[at] = share * mean + (1 - share) * prior
        found += last
    found += [np.log1p(number.sum(1))[:, None] for _, number in near]
    for relation, flipped in sides:
        if relation.edge_attr is not None:
            means = np.zeros((count, 2))
            for v in range(count):
                own = [
                    e for (a, b), e in list_edges(relation).items() if (a if flipped else b) == v
                ]
                if sum(w for w, _ in own):
                    means[v] = sum(w * c for w, c in own) / sum(w for w, _ in own)
            found.append(means)
    for hop in range(1, min(hops, 2) + 1):
        for weight, number in near:
            mean = weight.sum(1) / np.maximum(number.sum(1), 1)
            step = weight / np.where(mean > 0, mean, 1)[:, None]
            walks = step if hop == 1 else step @ step - np.diag(np.diag(step @ step))
            reached, total = walks[:, known].sum(1), walks[:, known] @ y[known]
            found.append(np.stack([(total + hop * usual) / (reached + hop), np.log1p(reached)], 1))
    return np.concatenate(found, axis=1)


@given(
    seed=st.integers(0, 9999),
    kinds=st.lists(st.sampled_from(["plain", "weighted", "directed", "things"]), max_size=3),
    hops=st.integers(1, 3),
)
def test_columns_are_the_dense_sums(seed: int, kinds: list[str], hops: int) -> None:
    kinds = kinds or ["things"]
    random, count = np.random.default_rng(seed), 7
    relations = [draw_relation(seed + at, count, kind) for at, kind in enumerate(kinds)]
    x = random.integers(-3, 4, (count, 2)).astype(np.float64)
    y, known = random.integers(0, 2, count).astype(np.float64), random.random(count) < 0.6
    data = canonical_graph(
        Data(x=torch.from_numpy(x), relations=tuple(relations), y=torch.zeros(count))
    )
    given = data.get("relations") or (Relation("neighbours", data.edge_index),)
    plan = replace(HopPlan.of(2, hops, given), num_labels=1)
    strength = torch.from_numpy(random.integers(0, 5, plan.num_blocks)).double()
    smoothing = Smoothing(torch.tensor([0.5, -1.0]), strength)
    columns = HopColumns(torch.from_numpy(x), given, hops=hops, smoothing=smoothing)
    labels = NeighbourLabels(torch.from_numpy(y).unsqueeze(1), torch.from_numpy(known))
    found = torch.cat([columns.without_labels, columns.label_columns(labels).double()], dim=1)
    expected = slow_columns(x, relations, hops, smoothing, y, known)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    names = plan.name_columns(["a", "b"], ["y"], [named(each) for each in given])
    assert len(names) == plan.num_columns == len(plan.side_of) == found.size(1)


@pytest.mark.parametrize("things", ["many", "few"])
def test_own_labels_are_left_out_exactly_where_things_are_shared(things: str) -> None:
    random = np.random.default_rng(0)
    nodes, size = random.integers(0, 60, 400), 90 if things == "many" else 5
    ends = torch.from_numpy(np.stack([nodes, random.integers(0, size, 400)]))
    near = SharedThings(ends, 60, size)
    values, known = torch.randint(2, (60, 1)).double(), torch.arange(60) < 50
    for hop in (1, 2):
        before = near.mean_labels(NeighbourLabels(values, known, torch.tensor([0.3])), hop)
        for node in (3, 17):
            other = values.clone()
            other[node] = 1 - other[node]
            after = near.mean_labels(NeighbourLabels(other, known, torch.tensor([0.3])), hop)
            torch.testing.assert_close(after[node], before[node], rtol=0, atol=1e-7)
            assert (after - before).abs().max() > 1e-4
        alone = near.mean_labels(NeighbourLabels(values, torch.arange(60) == 3), hop)
        assert abs(float(alone[3, 1])) < 1e-7


def test_names_say_the_relation() -> None:
    plan = HopPlan(1, 2, 1, (False, True), (1, 0))
    relations = [RelationNames("ties", ["strength (mean)"]), RelationNames("follows")]
    assert plan.name_columns(["age"], ["y"], relations)[:13] == [
        *("age", "ties: age", "in-follows: age", "out-follows: age", "2 hops of ties: age"),
        *("2 in-hops of follows: age", "2 out-hops of follows: age", "number of ties"),
        *("number of in-follows", "number of out-follows", "ties: strength (mean)"),
        *("ties: y", "ties: known labels"),
    ]
    things = HopPlan(1, 1).name_columns(["age"], (), [RelationNames("same route")])
    assert things == ["age", "same route: age", "number with same route"]


def test_relations_are_saved_and_come_back(tmp_path: Path) -> None:
    relations = tuple(
        draw_relation(at, 9, kind) for at, kind in enumerate(["weighted", "directed", "things"])
    )
    data = canonical_graph(Data(x=torch.rand(9, 2), relations=relations, y=torch.rand(9)), "saved")
    save_graph(tmp_path / "saved.npz", data)
    found = read_graph(tmp_path / "saved.npz")
    again = canonical_graph(found, "saved")
    for graph in (found, again):
        assert torch.equal(graph.edge_index, data.edge_index)
        for old, new in zip(data.relations, graph.relations, strict=True):
            assert (old.name, old.directed, old.space, old.things) == (
                *(new.name, new.directed, new.space, new.things),
            )
            for one, other in zip(parts(old), parts(new), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0)
    with pytest.raises(BadInput, match=r"edge_index.* is 7 .*the graph has 7 nodes"):
        canonical_graph(Data(x=torch.rand(7, 1), relations=relations[:2], y=torch.rand(7)))


def parts(relation: Relation) -> list[Tensor]:
    weight, attr = relation.edge_weight, relation.edge_attr
    found = [relation.edge_index] + ([] if weight is None else [weight])
    return found + ([] if attr is None else [torch.from_numpy(attr.toarray())])
