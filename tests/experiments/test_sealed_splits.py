from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.splits import Split, make_splits
from crossgcn.errors import BadInput
from crossgcn.experiments.tune.tuning import check_sealed, draw_sealed_roles


@pytest.fixture(scope="module")
def citeseer() -> Data:
    return load_dataset("citeseer")


def splits_of(roles: torch.Tensor) -> list[Split]:
    def nodes(row: torch.Tensor, role: int) -> torch.Tensor:
        return torch.nonzero(row == role).flatten()

    return [Split(nodes(row, 1), nodes(row, 2), nodes(row, 3)) for row in roles]


def test_test_nodes_are_the_same_in_all_splits_and_the_others_are_dealt_out(
    citeseer: Data,
) -> None:
    roles = draw_sealed_roles(citeseer, num_splits=4, train="all", seed=3)
    splits = splits_of(roles)
    check_sealed(splits, "citeseer")
    (first,) = make_splits(citeseer, "stratified", num_splits=1, seed=3)
    everyone = torch.bincount(citeseer.y[citeseer.y >= 0])
    for split in splits:
        assert torch.equal(split.test, first.test)
        for nodes, share in ((split.train, 0.6), (split.validation, 0.2), (split.test, 0.2)):
            counts = torch.bincount(citeseer.y[nodes], minlength=6)
            assert torch.allclose(counts / everyone, torch.tensor(share), atol=0.01)
    assert bool((roles[:, citeseer.y < 0] == 0).all())
    assert len({tuple(split.validation.tolist()) for split in splits}) == 4


def test_a_split_depends_on_seed_and_index_only(citeseer: Data) -> None:
    few = draw_sealed_roles(citeseer, num_splits=2, train="all", seed=0)
    many = draw_sealed_roles(citeseer, num_splits=3, train="all", seed=0)
    assert torch.equal(few, many[:2])
    assert not torch.equal(few, draw_sealed_roles(citeseer, num_splits=2, train="all", seed=1))


def test_fewer_training_nodes_when_told(citeseer: Data) -> None:
    for split in splits_of(draw_sealed_roles(citeseer, num_splits=2, train=5, seed=0)):
        assert torch.bincount(citeseer.y[split.train]).tolist() == [5] * 6


def test_a_class_of_three_trains_validates_and_tests() -> None:
    y = torch.tensor([0] * 10 + [1] * 3)
    data = Data(y=y, num_classes=2, name="few", num_nodes=13)
    for row in draw_sealed_roles(data, num_splits=3, train="all", seed=0):
        assert sorted(row[10:].tolist()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (([3, 4], [5], [6]), "node 3 trains in split 1 and tests in another"),
        (([0, 1], [3], [6]), "node 3 validates in split 1 and tests in another"),
        (([0, 1], [5], [2]), "node 2 validates in split 0 and tests in another"),
    ],
)
def test_labels_that_one_split_hides_and_another_shows_are_found(
    second: tuple[list[int], ...], words: str
) -> None:
    first = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
    other = Split(*(torch.tensor(nodes) for nodes in second))
    with pytest.raises(BadInput, match=f"mine: {words}.*--splits stratified.*--num-splits 1"):
        check_sealed([first, other], "mine")


def test_ordinary_stratified_splits_are_not_sealed(citeseer: Data) -> None:
    check_sealed(make_splits(citeseer, num_splits=3), "citeseer")
    with pytest.raises(BadInput, match="would have seen its label"):
        check_sealed(make_splits(citeseer, "stratified"), "citeseer")
