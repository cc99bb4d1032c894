"""Columns of neighbourhoods, against sums written out node by node."""

from __future__ import annotations

import math
from statistics import mean, pvariance, variance
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.data.relations import as_relation
from crossgcn.errors import BadInput
from crossgcn.graph.hops import HopColumns, HopPlan, RelationNames
from crossgcn.graph.neighbourhood import (
    Neighbourhood,
    NeighbourLabels,
    Smoothing,
    neighbour_labels,
)
from crossgcn.graph.standardise import fit_scale, standardise


def to_csr(x: Tensor) -> Tensor:
    matrix = csr_array(x.numpy())
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, (x.size(0), x.size(1)))


def columns_of(
    x: Tensor,
    edges: Tensor,
    weights: Tensor | None = None,
    *,
    directed: bool = False,
    **how: Any,
) -> HopColumns:
    return HopColumns(x, [as_relation(edges, weights, directed)], **how)


def slow_columns(
    x: list[list[float]],
    weights: dict[tuple[int, int], float],
    hops: int,
    known: dict[int, float],
    directed: bool,
    prior: list[float],
    strengths: list[float],
) -> list[list[float]]:
    """The columns by their definition; ``weights[v, u]`` is that of the edge from u to v."""
    nodes = range(len(x))
    sides = [weights] + ([{(u, v): w for (v, u), w in weights.items()}] if directed else [])
    rows = [list(row) for row in x]

    def near(side: dict[tuple[int, int], float], v: int) -> list[tuple[int, float]]:
        return [(u, w) for (target, u), w in side.items() if target == v and u != v and w]

    def counted(side: dict[tuple[int, int], float], v: int) -> list[tuple[int, float]]:
        mean = sum(w for _, w in near(side, v)) / max(len(near(side, v)), 1)
        return [(u, w / mean) for u, w in near(side, v)]

    last = [[list(row) for row in x] for _ in sides]
    for hop in range(hops):
        for position, side in enumerate(sides):
            means, strength = [], strengths[hop * len(sides) + position]
            for v in nodes:
                total = sum(w for _, w in near(side, v))
                means.append(list(prior))
                if total:
                    share = len(near(side, v)) / (len(near(side, v)) + strength)
                    for c in range(len(x[0])):
                        mean = sum(w * last[position][u][c] for u, w in near(side, v)) / total
                        means[v][c] = share * mean + (1 - share) * prior[c]
            last[position] = means
            for v in nodes:
                rows[v] += means[v]
    for side in sides:
        for v in nodes:
            rows[v].append(math.log1p(len(near(side, v))))
    usual = sum(known.values()) / max(len(known), 1)
    for hop in range(1, min(hops, 2) + 1):
        for side in sides:
            for v in nodes:
                walks = counted(side, v)
                if hop == 2:
                    walks = [(b, w * z) for a, w in walks for b, z in counted(side, a) if b != v]
                total = sum(w * known[u] for u, w in walks if u in known)
                count = sum(w for u, w in walks if u in known)
                rows[v] += [(total + hop * usual) / (count + hop), math.log1p(count)]
    return rows


@given(data=st.data(), hops=st.integers(1, 3), directed=st.booleans(), sparse=st.booleans())
def test_columns_are_the_written_out_sums(
    data: st.DataObject, hops: int, directed: bool, sparse: bool
) -> None:
    num_nodes = data.draw(st.integers(2, 6))
    pairs = st.tuples(st.integers(0, num_nodes - 1), st.integers(0, num_nodes - 1))
    edges = sorted(data.draw(st.sets(pairs, max_size=12)))
    unit = data.draw(st.sampled_from([1.0, 2.0**-60, 2.0**60]))
    weights = {(v, u): unit * data.draw(st.integers(0, 4)) for u, v in edges}
    if not directed and data.draw(st.booleans()):
        weights |= {(u, v): w for (v, u), w in weights.items()}
    x = [[float(data.draw(st.integers(-2, 2))) for _ in range(2)] for _ in range(num_nodes)]
    known = {v: float(v % 3) for v in range(num_nodes) if data.draw(st.booleans())}
    ends = sorted(weights)
    twice = data.draw(st.integers(0, len(ends)))  # parallel edges add up; self-loops do not count
    ends, parts = ends + ends[:twice], [1.0] * len(ends)
    parts[:twice] = [0.5] * twice
    parts += parts[:twice]
    features = torch.tensor(x)
    source = (
        to_csr(features) if sparse else features,
        torch.tensor([[u, v] for v, u in ends], dtype=torch.long).reshape(-1, 2).t(),
        torch.tensor([weights[end] * part for end, part in zip(ends, parts, strict=True)]),
    )
    values = torch.tensor([[known.get(v, 99.0)] for v in range(num_nodes)])
    is_known = torch.tensor([v in known for v in range(num_nodes)])
    plan = HopPlan(2, hops, 1, directed)
    prior = [float(data.draw(st.integers(-2, 2))) for _ in range(2)]
    strengths = [float(data.draw(st.integers(0, 9))) for _ in range(plan.num_blocks)]
    smoothing = Smoothing(torch.tensor(prior), torch.tensor(strengths))
    columns = columns_of(*source, hops=hops, directed=directed, smoothing=smoothing)
    found = columns.with_labels(NeighbourLabels(values, is_known))
    expected = torch.tensor(slow_columns(x, weights, hops, known, directed, prior, strengths))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.isfinite().all()
    assert found.size(1) == plan.num_columns == len(plan.name_columns(["a", "b"], ["y"]))
    assert columns.without_labels.shape[1] == HopPlan(2, hops, 0, directed).num_columns


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("room", [0, 4 * 300 * 8], ids=["one column", "eight columns"])
def test_columns_are_the_same_bits_with_little_memory(
    monkeypatch: pytest.MonkeyPatch, directed: bool, room: int
) -> None:
    torch.manual_seed(0)
    graph = torch.randn(300, 20), torch.randint(300, (2, 2000)), torch.rand(2000)
    expected = columns_of(*graph, directed=directed).without_labels
    monkeypatch.setattr("crossgcn.graph.neighbourhood._COPY_BYTES", room)
    found = columns_of(*graph, directed=directed).without_labels
    assert torch.equal(found, expected)


def test_names_say_whose_a_column_is() -> None:
    assert HopPlan(1, 2, 1).name_columns(["age"], ["banned"], [RelationNames("friends")]) == [
        "age",
        "friends: age",
        "2 hops: age",
        "number of friends",
        "friends: banned",
        "friends: known labels",
        "2 hops: banned",
        "2 hops: known labels",
    ]
    assert HopPlan(1, 1, directed=True).name_columns(["age"]) == [
        "age",
        "in-neighbours: age",
        "out-neighbours: age",
        "number of in-neighbours",
        "number of out-neighbours",
    ]


def test_no_column_depends_on_the_own_label_nor_on_labels_outside_training() -> None:
    torch.manual_seed(0)
    num_nodes = 30
    edges = torch.randint(num_nodes, (2, 90))
    source = (torch.rand(num_nodes, 2), torch.cat([edges, edges.flip(0)], dim=1))
    columns, train = columns_of(*source), torch.arange(0, num_nodes, 2)
    y = torch.randint(3, (num_nodes,))
    before = columns.with_labels(neighbour_labels(y, train, 3))
    for node in range(num_nodes):
        changed = y.clone()
        changed[node] = (y[node] + 1) % 3
        after = columns.with_labels(neighbour_labels(changed, train, 3))
        if node % 2:
            assert torch.equal(after, before)
        # The own label is in the prior of the smoothing alone, the same for all nodes.
        others = after[node] - before[node]
        assert others.abs().max() < 0.2
        lonely = neighbour_labels(y, train[train != node], 3)
        of_changed = neighbour_labels(changed, train[train != node], 3)
        first, second = columns.with_labels(lonely), columns.with_labels(of_changed)
        assert torch.equal(first, second)


def test_standardised_columns_of_neighbourhoods_have_mean_0_and_deviation_1() -> None:
    torch.manual_seed(1)
    x = torch.cat([(torch.rand(200, 3) < 0.2).float(), 1000 * torch.randn(200, 1)], dim=1)
    source = (x, torch.randint(200, (2, 900)))
    columns = columns_of(
        *source, smoothing=Smoothing(torch.zeros(4), torch.zeros(2))
    ).without_labels
    scaled = standardise(columns, fit_scale(columns, 4))
    assert torch.equal(scaled[:, :3], x[:, :3])  # flags stay flags
    torch.testing.assert_close(scaled[:, 3:].mean(0), torch.zeros(10), rtol=0, atol=1e-4)
    torch.testing.assert_close(scaled[:, 3:].std(0), torch.ones(10), rtol=1e-2, atol=0)


def slow_strength(x: Tensor, near: list[list[int]]) -> float:
    """Variance within neighbourhoods over that of their expectations, by the definitions."""
    within = between = 0.0
    for column in x.double().T:
        values = ((column - column.mean()) / column.std(correction=0)).tolist()
        groups = [[values[u] for u in group] for group in near if group]
        spread = mean(variance(group) for group in groups if len(group) > 1)
        within += spread
        means = [mean(group) for group in groups]
        between += pvariance(means) - spread * mean(1 / len(group) for group in groups)
    return min(within / between, 100.0) if between > 0 else 100.0


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.95])
def test_means_are_smoothed_as_much_as_neighbours_differ(alike: float) -> None:
    torch.manual_seed(3)
    num_nodes = 300
    group = torch.arange(num_nodes) // 10
    x = alike * torch.randn(30, 4)[group] + torch.randn(num_nodes, 4)
    ends = torch.cat([group * 10 + torch.randint(10, (num_nodes,)) for _ in range(4)])
    edges = torch.unique(torch.stack([ends, torch.arange(num_nodes).repeat(4)]), dim=1)
    near: list[list[int]] = [[] for _ in range(num_nodes)]
    for u, v in edges.T.tolist():
        near[v] += [u] if u != v else []
    smoothing = columns_of(x, edges, hops=1).smoothing
    torch.testing.assert_close(smoothing.prior, x.mean(0))
    assert float(smoothing.strength) == pytest.approx(slow_strength(x, near), rel=1e-4)
    least, most = {0.0: (30, 100), 0.5: (2, 8), 0.95: (0.5, 2)}[alike]
    assert least <= float(smoothing.strength) <= most


def test_sparse_features_have_the_columns_of_dense_ones() -> None:
    torch.manual_seed(2)
    x = (torch.rand(60, 5) < 0.2).float() * torch.rand(60, 5)
    edges = torch.randint(60, (2, 200))
    dense, sparse = columns_of(x, edges), columns_of(to_csr(x), edges)
    assert torch.equal(sparse.without_labels, dense.without_labels)
    assert all(map(torch.equal, sparse.smoothing, dense.smoothing))


def test_columns_have_gradients_for_features() -> None:
    torch.manual_seed(0)
    edges, x = torch.randint(6, (2, 12)), torch.randn(6, 3, dtype=torch.float64)
    smoothing = Smoothing(torch.zeros(3), torch.tensor([0.5, 2.0]))

    def columns(x: Tensor) -> Tensor:
        return columns_of(x, edges, smoothing=smoothing).without_labels

    assert torch.autograd.gradcheck(columns, x.requires_grad_())


def test_without_hops_there_are_own_columns_alone() -> None:
    x, edges = torch.randn(5, 3), torch.tensor([[0, 1], [1, 0]])
    columns = columns_of(x, edges, hops=0)
    assert columns.plan.name_columns(["a", "b", "c"]) == ["a", "b", "c"]
    torch.testing.assert_close(columns.without_labels, x)
    with pytest.raises(BadInput, match="hops is -1; give 0 for own columns alone, or more"):
        HopPlan(3, -1)


def test_values_beyond_those_of_the_training_nodes_are_cut() -> None:
    columns = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [9.0, -7.0]])
    scale = fit_scale(columns, 0).with_range_of(columns, torch.tensor([0, 1, 2]))
    expected = columns.clone()
    expected[3] = torch.tensor([0.0, 1.0])
    found = standardise(columns, scale)
    torch.testing.assert_close(found, (expected - scale.center) / scale.deviation)


@pytest.mark.parametrize("weighted", [False, True])
def test_means_on_a_device_are_the_same(weighted: bool) -> None:
    torch.manual_seed(0)
    x, edges = torch.randn(300, 6), torch.randint(290, (2, 2000))
    near = Neighbourhood(edges, torch.rand(2000) if weighted else None, 300)
    moved = near.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    found = [torch.empty(300, 6), torch.empty_like(x, device=moved.num_neighbours.device)]
    for each, out in zip((near, moved), found, strict=True):
        strength = each.estimate_strength(x.to(out.device))
        each.mean(x.to(out.device), x.mean(0), strength, out)
    torch.testing.assert_close(found[1].cpu(), found[0], rtol=1e-5, atol=1e-6)
    assert torch.equal(moved.num_neighbours.cpu(), near.num_neighbours)
