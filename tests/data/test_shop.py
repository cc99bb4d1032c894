from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crossgcn import Split, train_full_batch
from crossgcn.data.datasets.shop import (
    CLASSES,
    FEWEST_NODES,
    PLANTED,
    Shop,
    allot,
    make_shop,
    plant_pair,
    write_shop,
)
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import TableGraph, load_new_tables, load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.layers import CrossGCNConv
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier

TABLES = ("nodes", "edges", "new_nodes", "new_edges", "new_answers")


@pytest.fixture(scope="module")
def shop() -> Shop:
    return make_shop()


@pytest.fixture(scope="module")
def tables(shop: Shop) -> TableGraph:
    return load_tables(shop.nodes, shop.edges, TableChoices(target="buys"))


def memberships(tables: TableGraph, label: int, members: Sequence[str]) -> NDArray[np.float64]:
    """Which customers of a class have each feature, a column per feature."""
    names = tables.encoder.space.names
    x = tables.data.x.to_dense()[tables.data.y == label]
    columns = [names.index(member) for member in members]
    chosen: NDArray[np.float64] = x[:, columns].double().numpy()
    return chosen


@given(
    first=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    second=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    strength=st.floats(-5, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_planted_pair_is_what_scaling_rows_and_columns_comes_to(
    first: list[int], second: list[int], strength: float, seed: int
) -> None:
    margins = np.array(first) / sum(first), np.array(second) / sum(second)
    row, column = np.random.default_rng(seed).integers([len(first), len(second)]).tolist()
    scaled = np.outer(*margins)
    scaled[row, column] *= np.exp(strength)
    for _ in range(3000):
        scaled *= (margins[0] / scaled.sum(axis=1))[:, np.newaxis]
        scaled *= margins[1] / scaled.sum(axis=0)
    np.testing.assert_allclose(plant_pair(*margins, (row, column), strength), scaled, atol=1e-9)


@given(
    shares=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    count=st.integers(0, 300),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_allotment_is_off_by_less_than_one(shares: list[int], count: int, seed: int) -> None:
    probabilities = np.array(shares) / sum(shares)
    drawn = allot(probabilities, count, np.random.default_rng(seed))
    counts = np.bincount(drawn, minlength=len(shares))
    assert len(drawn) == count
    assert np.abs(counts - probabilities * count).max() < 1 + 1e-6


@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("num_nodes", [FEWEST_NODES, 2000])
def test_the_encoder_finds_every_planted_member_and_nothing_to_complain_about(
    num_nodes: int, crosses: bool
) -> None:
    for seed in range(3):
        shop = make_shop(num_nodes, seed=seed, crosses=crosses)
        tables = load_tables(shop.nodes, shop.edges, TableChoices(target="buys"))
        assert tables.classes == tuple(CLASSES)
        assert [finding.describe() for finding in tables.problems] == []
        names = set(tables.encoder.space.names)
        assert all(names.issuperset(cross.members) for cross in PLANTED), names


def test_a_member_alone_says_nothing_and_the_pair_says_the_class(tables: TableGraph) -> None:
    for own, cross in enumerate(PLANTED):
        together = []
        for label in range(len(CLASSES)):
            has = memberships(tables, label, cross.members)
            everyone = memberships(tables, own, cross.members)
            assert np.abs(has.mean(axis=0) - everyone.mean(axis=0)).max() < 0.03, cross.name
            together.append(float(has.prod(axis=1).mean()))
        others = [share for label, share in enumerate(together) if label != own]
        assert together[own] > 0.15 and max(others) < 0.03, (cross.name, together)


def test_without_crosses_members_speak_for_the_class_one_by_one() -> None:
    shop = make_shop(crosses=False)
    tables = load_tables(shop.nodes, shop.edges, TableChoices(target="buys"))
    assert shop.crosses == ()
    for own, cross in enumerate(PLANTED):
        for label in range(len(CLASSES)):
            has = memberships(tables, label, cross.members)
            share = has.mean(axis=0)
            assert (share > 0.45).all() if label == own else (share < 0.35).all()
            assert abs(float(has.prod(axis=1).mean() - share.prod())) < 0.02, "independent"


def test_friends_are_many_distinct_and_buy_alike(shop: Shop) -> None:
    pairs = shop.edges.to_numpy()
    assert len(pairs) == 5 * len(shop.nodes)
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs), "or a self-loop"
    degrees = pd.Series(pairs.ravel()).value_counts()
    assert set(degrees.index) == set(shop.nodes["customer"]), "nobody is alone"
    assert degrees.max() > 3 * degrees.mean()
    buys = shop.nodes.set_index("customer")["buys"]
    ends = [buys.reindex(pairs[:, end]).to_numpy(dtype=object) for end in (0, 1)]
    assert 0.4 < np.mean([one == other for one, other in zip(*ends, strict=True)]) < 0.55


def test_new_customers_can_be_scored_and_their_answers_are_known(
    shop: Shop, tables: TableGraph
) -> None:
    new = load_new_tables(
        shop.new_nodes, shop.new_edges, tables.encoder, tables.plan, known_ids=tables.ids
    )
    assert list(new.ids) == shop.new_answers["customer"].tolist()
    assert "buys" not in shop.new_nodes
    assert set(shop.new_answers["buys"]) == set(CLASSES)
    is_new = np.asarray(new.edges) >= len(tables.ids)
    assert is_new.any(axis=0).all()
    assert is_new.all(axis=0).any() and not is_new.all()


def test_more_columns_leave_the_others_as_they_are(shop: Shop) -> None:
    wide = make_shop(num_columns=30)
    assert wide.nodes.shape == (2000, 30)
    pd.testing.assert_frame_equal(wide.nodes[shop.nodes.columns], shop.nodes)
    encoder: TableEncoder = load_tables(wide.nodes, wide.edges, TableChoices(target="buys")).encoder
    assert "q15=often" in encoder.space.names


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_equal_seeds_write_equal_bytes(tmp_path: Path, file_format: str) -> None:
    written = {}
    for folder, seed in (("a", 4), ("b", 4), ("c", 5)):
        files = write_shop(
            tmp_path / folder,
            make_shop(400, seed=seed),
            "csv" if file_format == "csv" else "parquet",
        )
        written[folder] = {path.name: path.read_bytes() for path in files}
        assert sorted(written[folder]) == sorted(
            path.name for path in (tmp_path / folder).iterdir()
        )
    assert written["a"] == written["b"]
    assert all(
        written["a"][f"{name}.{file_format}"] != written["c"][f"{name}.{file_format}"]
        for name in TABLES
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_read_back_is_what_was_drawn(tmp_path: Path, shop: Shop, suffix: str) -> None:
    write_shop(tmp_path, shop, "csv" if suffix == "csv" else "parquet")
    choices = TableChoices(target="buys")
    read = load_tables(tmp_path / f"nodes.{suffix}", tmp_path / f"edges.{suffix}", choices)
    drawn = load_tables(shop.nodes, shop.edges, choices)
    assert read.ids == drawn.ids and read.encoder.space == drawn.encoder.space
    assert torch.equal(read.data.x.to_dense(), drawn.data.x.to_dense())
    assert torch.equal(read.data.edge_index, drawn.data.edge_index)
    assert torch.equal(read.data.y, drawn.data.y)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, shop: Shop) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="not empty: give a folder that is new"):
        write_shop(tmp_path, shop)
    with pytest.raises(BadInput, match="not empty"):
        write_shop(tmp_path / "mine.txt", shop)
    with pytest.raises(BadInput, match="cannot be made"):
        write_shop(tmp_path / "mine.txt" / "below", shop)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 100}, "100 customers is too small .* at least 300"),
        ({"num_columns": 14}, "14 columns has no room .* at least 15"),
        ({"seed": -1}, "seed is -1; give 0 or more"),
    ],
)
def test_sizes_that_make_no_shop_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_shop(**arguments)  # type: ignore[arg-type]


def test_a_trained_model_shows_the_planted_crosses_among_its_five_strongest(
    tables: TableGraph,
) -> None:
    data, space = tables.data, tables.encoder.space
    graph = PreparedGraph(data.x, data.edge_index)
    split = stratified_split(data.y)
    accuracy = {}
    for name, options in (("gcn", {}), ("cross-gcn", {"order": (2, 1)})):
        torch.manual_seed(0)
        model = build_model(name, len(space), 4, bias=True, **options)  # type: ignore[arg-type]
        trained = train_full_batch(model, graph, data.y, split, seed=0, epochs=200)
        assert trained.test_accuracy is not None
        accuracy[name] = trained.test_accuracy
    assert accuracy["gcn"] > 0.4, "single columns say something, with friends' help"
    assert accuracy["cross-gcn"] > accuracy["gcn"] + 0.08
    strength = pair_strengths(model.eval(), graph, data.x.to_dense())
    same_field = np.equal.outer(np.array(space.fields), np.array(space.fields))
    for label, cross in enumerate(PLANTED):
        of_class = np.where(same_field, 0.0, strength[label])
        one, other = (space.names.index(member) for member in cross.members)
        stronger = (np.abs(of_class) > abs(of_class[one, other])).sum() // 2
        assert of_class[one, other] > 0 and stronger < 5, (cross.name, stronger)


def stratified_split(y: torch.Tensor) -> Split:
    """Of each class, three fifths to train on, one to select with, one to test on."""
    random = np.random.default_rng(0)
    roles: list[list[NDArray[np.int64]]] = [[], [], []]
    for label in range(int(y.max()) + 1):
        nodes = random.permutation(np.flatnonzero(y.numpy() == label))
        parts = np.split(nodes, [3 * len(nodes) // 5, 4 * len(nodes) // 5])
        for role, part in zip(roles, parts, strict=True):
            role.append(part)
    return Split(*(torch.from_numpy(np.sort(np.concatenate(role))) for role in roles))


@torch.no_grad()
def pair_strengths(
    model: NodeClassifier, graph: PreparedGraph, x: torch.Tensor
) -> NDArray[np.float64]:
    """``[classes, features, features]``: weight of each product, times how often it occurs."""
    first, second = model.layers
    assert isinstance(first, CrossGCNConv) and isinstance(second, CrossGCNConv)
    active = (first(graph.x, graph.adjacency) > 0).double().mean(dim=0)
    readout = second.transform.weight[0].double() * active
    one, other = first.transform.weight.double()
    alphas = first.transform.effective_order_weights()
    assert alphas is not None
    weight = alphas[1].double() * torch.einsum("ce,ei,ej->cij", readout, one, other)
    occurrence = x.abs().double().T @ x.abs().double() / len(x)
    strengths: NDArray[np.float64] = ((weight + weight.mT) * occurrence).numpy()
    return strengths
