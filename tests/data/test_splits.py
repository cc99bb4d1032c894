from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data import Split, load_dataset, make_splits
from crossgcn.errors import BadInput

needs_authors_splits = pytest.mark.skipif(
    "CROSSGCN_DATA" not in os.environ, reason="CROSSGCN_DATA is not set: no authors' splits"
)


@pytest.fixture(scope="module")
def citeseer() -> Data:
    return load_dataset("citeseer")


def toy(**changes: Any) -> Data:
    """Ten nodes, two classes, node 9 unlabelled."""
    parts: dict[str, Any] = {
        "y": torch.tensor([0, 0, 0, 0, 1, 1, 1, 0, 1, -1]),
        "roles": torch.tensor([[1, 0, 0, 2, 1, 0, 0, 3, 3, 0]], dtype=torch.int8),
        "num_classes": 2,
        "name": "toy",
        "num_nodes": 10,
    }
    return Data(**(parts | changes))


def equal(first: Split, second: Split) -> bool:
    return all(torch.equal(getattr(first, role), getattr(second, role)) for role in vars(first))


def test_random_splits_draw_twenty_labelled_nodes_of_each_class(citeseer: Data) -> None:
    for split in make_splits(citeseer, num_splits=20):
        assert torch.bincount(citeseer.y[split.train]).tolist() == [20] * 6
        assert bool((citeseer.y[split.train] >= 0).all())
        assert bool((split.train.diff() > 0).all())


def test_validation_and_test_are_planetoids_in_every_random_split(citeseer: Data) -> None:
    for split in make_splits(citeseer, num_splits=20, seed=9):
        assert torch.equal(split.validation, torch.nonzero(citeseer.roles[0] == 2).flatten())
        assert torch.equal(split.test, torch.nonzero(citeseer.roles[0] == 3).flatten())
        assert not torch.isin(split.train, torch.cat([split.validation, split.test])).any()


@pytest.mark.parametrize("protocol", ["random", "stratified"])
def test_a_split_depends_on_seed_and_index_only(protocol: str, citeseer: Data) -> None:
    few = make_splits(citeseer, protocol, num_splits=3)
    many = make_splits(citeseer, protocol, num_splits=5)
    assert all(equal(a, b) for a, b in zip(few, many, strict=False))
    assert not torch.equal(many[0].train, many[1].train)
    reseeded = make_splits(citeseer, protocol, num_splits=3, seed=1)
    assert not any(torch.equal(a.train, b.train) for a in few for b in reseeded)


def test_the_first_draw_never_changes_between_releases(citeseer: Data) -> None:
    assert make_splits(citeseer, num_splits=1)[0].train[:5].tolist() == FIRST_DRAW


FIRST_DRAW = [0, 3, 4, 13, 14]


def test_all_means_every_labelled_node_outside_validation_and_test(citeseer: Data) -> None:
    splits = make_splits(citeseer, num_splits=2, train="all")
    assert len(splits[0].train) == 3327 - 15 - 500 - 1000
    assert equal(splits[0], splits[1])
    public = make_splits(citeseer, "public", train="all")
    assert equal(public[0], splits[0])


@needs_authors_splits
@pytest.mark.parametrize("name", ["citeseer", "cora", "pubmed"])
def test_authors_and_random_splits_share_validation_and_test(name: str) -> None:
    data = load_dataset(name)
    random = make_splits(data, num_splits=1)[0]
    authors = make_splits(data, "authors")
    assert len(authors) == 20
    for split in authors:
        assert torch.equal(split.validation, random.validation)
        assert torch.equal(split.test, random.test)


@needs_authors_splits
def test_unlabelled_nodes_leave_the_authors_training_sets(citeseer: Data) -> None:
    path = Path(os.environ["CROSSGCN_DATA"]) / "splits" / "citeseer.npz"
    released = torch.from_numpy(np.load(path)["role"]) == 1
    dropped = (released & (citeseer.y < 0)).sum(1)
    assert int((dropped > 0).sum()) == 16
    assert int(dropped.max()) == 4
    kept = [len(split.train) for split in make_splits(citeseer, "authors")]
    assert kept == (120 - dropped).tolist()


@needs_authors_splits
def test_citeseer_cross_uses_citeseers_released_splits(citeseer: Data) -> None:
    crossed = make_splits(load_dataset("citeseer-cross"), "authors", num_splits=2)
    assert all(map(equal, crossed, make_splits(citeseer, "authors", num_splits=2)))


@needs_authors_splits
def test_the_authors_released_twenty(citeseer: Data) -> None:
    with pytest.raises(BadInput, match="num_splits is 21, but the authors released 20"):
        make_splits(citeseer, "authors", num_splits=21)


@needs_authors_splits
@pytest.mark.parametrize("name", ["citeseer", "citeseer-cross"])
def test_released_splits_are_not_given_to_another_graph_of_that_name(
    citeseer: Data, name: str
) -> None:
    for y in (toy().y, citeseer.y.roll(1)):
        with pytest.raises(BadInput, match="belong to the original citeseer; this graph's labels"):
            make_splits(toy(name=name, y=y), "authors")


def test_each_protocol_has_its_own_numbers(citeseer: Data) -> None:
    own = make_splits(citeseer)
    assert len(own) == 20
    assert all(map(equal, own, make_splits(citeseer, num_splits=20, train=20)))
    assert len(make_splits(citeseer, "public")) == 1


@needs_authors_splits
def test_twenty_a_class_is_what_the_authors_have_and_all_is_allowed(citeseer: Data) -> None:
    named = make_splits(citeseer, "authors", num_splits=2, train=20)
    assert all(map(equal, named, make_splits(citeseer, "authors")))
    (everything,) = make_splits(citeseer, "authors", num_splits=1, train="all")
    assert equal(everything, make_splits(citeseer, num_splits=1, train="all")[0])


def test_public_takes_each_row_of_roles() -> None:
    rows = torch.tensor([[1, 0, 0, 2, 1, 0, 0, 3, 3, 0], [0, 1, 3, 2, 0, 1, 0, 0, 0, 0]])
    splits = make_splits(toy(roles=rows), "public")
    assert [split.train.tolist() for split in splits] == [[0, 4], [1, 5]]
    assert splits[1].test.tolist() == [2]
    (first,) = make_splits(toy(roles=rows), "public", num_splits=1)
    assert equal(first, splits[0])
    assert len(make_splits(toy(roles=rows), "public", num_splits=2)) == 2
    with pytest.raises(BadInput, match="num_splits is 3, but toy has 2 split"):
        make_splits(toy(roles=rows), "public", num_splits=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "randon"}, "unknown split protocol 'randon': did you mean 'random'"),
        ({"num_splits": 0}, "num_splits must be a whole number of at least 1; got 0"),
        ({"train": 0}, r"train must be .* at least 1 \(nodes per class, or 'all'\); got 0"),
        ({"train": 4}, "toy: class 0 has 3 labelled nodes outside validation and test, 4 are"),
        ({"protocol": "public", "train": 20}, "train is 20, but public splits bring their own"),
        ({"protocol": "authors", "train": 5}, "train is 5, but authors splits bring their own"),
        ({"protocol": "authors"}, "no splits for 'toy', only for citeseer, cora, pubmed"),
    ],
)
def test_impossible_requests_say_what_is_possible(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_splits(toy(), **options)


@pytest.mark.parametrize("protocol", ["random", "public"])
def test_a_graph_without_roles_says_how_to_add_them(protocol: str) -> None:
    with pytest.raises(BadInput, match=r"toy: the graph has no roles.*add roles \[splits, nodes\]"):
        make_splits(toy(roles=None), protocol)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([1, 0, 0, 2, 1, 0, 0, 0, 0, 0], "^toy, public split 0: no test nodes"),
        ([1, 0, 0, 2, 1, 0, 0, 3, 0, 3], "test node 9 has no label; take it out"),
        ([1, 1, 0, 2, 0, 0, 0, 3, 0, 0], "class 1 of 0 to 1 has no training node"),
    ],
)
def test_a_faulty_split_names_the_offender(roles: list[int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_splits(toy(roles=torch.tensor([roles], dtype=torch.int8)), "public")


def test_stratified_splits_keep_the_proportions_of_the_classes(citeseer: Data) -> None:
    everyone = torch.bincount(citeseer.y[citeseer.y >= 0])
    splits = make_splits(citeseer, "stratified", seed=3)
    assert len(splits) == 5
    for split in splits:
        for nodes, share in ((split.train, 0.6), (split.validation, 0.2), (split.test, 0.2)):
            counts = torch.bincount(citeseer.y[nodes], minlength=6)
            assert torch.allclose(counts / everyone, torch.tensor(share), atol=0.01)
        assert sum(map(len, vars(split).values())) == int(everyone.sum())
    assert len({tuple(split.test.tolist()) for split in splits}) == 5


def test_stratified_splits_need_no_roles_and_take_fewer_nodes_when_told() -> None:
    data = toy(roles=None)
    (split,) = make_splits(data, "stratified", num_splits=1, train=1)
    assert sorted(data.y[split.train].tolist()) == [0, 1]
    assert sorted(data.y[split.test].tolist()) == [0, 1]


def test_a_class_too_small_for_three_sets_is_named() -> None:
    data = toy(y=torch.tensor([0, 0, 0, 0, 1, 1, -1, 0, -1, -1]))
    with pytest.raises(BadInput, match=r"class 1 has 2 labelled nodes.*at least 3.*merge it"):
        make_splits(data, "stratified")


def test_a_number_that_too_few_nodes_have_is_named_as_the_target() -> None:
    y = torch.full((10,), torch.nan)
    y[:2] = 1.0
    with pytest.raises(BadInput, match="toy: the target has 2 labelled nodes"):
        make_splits(toy(y=y, num_classes=1), "stratified", num_splits=1)


def test_nodes_with_a_number_are_one_class_and_nodes_without_are_in_no_set() -> None:
    y = torch.arange(10) / 4
    y[3] = torch.nan
    (split,) = make_splits(toy(y=y, num_classes=1, roles=None), "stratified", num_splits=1)
    assert sorted(torch.cat([*vars(split).values()]).tolist()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [len(nodes) for nodes in vars(split).values()] == [5, 2, 2]


def test_a_share_trains_validates_and_tests_on_parts_of_each_class() -> None:
    y = torch.tensor([0] * 400 + [1] * 100)
    data = Data(y=y, num_classes=2, name="toy", num_nodes=500)
    sizes = {"10%": (50, 50, 400), "60%": (300, 100, 100), "2.5%": (12, 12, 476)}
    for share, wanted in sizes.items():
        for split in make_splits(data, "stratified", train=share, num_splits=2):
            assert tuple(len(each) for each in vars(split).values()) == wanted
            assert int(y[split.train].sum()) == wanted[0] // 5
    for share in ("0%", "100%", "ten%", "some"):
        with pytest.raises(BadInput, match="give nodes per class, all, or a share such as 10%"):
            make_splits(data, "stratified", train=share)
    with pytest.raises(BadInput, match="leave --train out, or use --splits stratified"):
        make_splits(data, "random", train="10%")


def test_time_splits_keep_equal_times_together() -> None:
    """Twelve nodes at four times; the cuts are where the shares are closest to 60 and 80 %."""
    time = torch.tensor([5.0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 5, torch.nan])
    data = toy(y=torch.tensor([0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1, -1]), roles=None, num_nodes=12)
    data.node_time = time
    (split,) = make_splits(data, "time")
    found = [sorted(set(time[each].tolist())) for each in vars(split).values()]
    assert found == [[1, 2], [3], [5]] and sum(map(len, vars(split).values())) == 11
    with pytest.raises(BadInput, match="name the column with it as --time-column"):
        make_splits(toy(), "time")
