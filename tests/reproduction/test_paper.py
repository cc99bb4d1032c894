from __future__ import annotations

from typing import Any

import pytest

from crossgcn.models.catalogue import PRESETS
from crossgcn.reproduction.items import PaperResult, paper_result
from crossgcn.training.config import RunConfig

TABLE_5 = {
    ("gcn", 1): [(68.9, 2.2), (70.3, 3.4), (72.1, 2.8)],
    ("gin", 1): [(62.4, 2.9), (74.3, 2.4), (74.5, 2.3)],
    ("cross-gcn-release-fix", 1): [(70.1, 1.8), (72.7, 2.4), (74.2, 2.6)],
    ("cross-gcn-release", 1): [(68.9, 1.9), (72.9, 2.2), (74.8, 2.7)],
    ("gcn", 2): [(69.7, 2.0), (79.1, 1.8), (77.6, 2.0)],
    ("gin", 2): [(68.9, 2.0), (78.5, 1.9), (78.7, 1.6)],
    ("cross-gcn-release-fix", 2): [(71.3, 1.7), (78.6, 1.8), (79.3, 1.8)],
    ("cross-gcn-release", 2): [(69.6, 2.2), (79.8, 1.6), (78.8, 1.8)],
}
TABLE_3 = {
    ("gcn", 1): (25.1, 1.4),
    ("gcn", 2): (62.9, 1.7),
    ("gin", 1): (48.6, 1.0),
    ("gin", 2): (45.7, 7.9),
    ("cross-gcn", 1): (76.9, 0.8),
    ("cross-gcn", 2): (76.2, 0.7),
}


def of(dataset: str, model: str, num_layers: int, **settings: Any) -> PaperResult | None:
    return paper_result(RunConfig(dataset=dataset, model=model, num_layers=num_layers, **settings))


@pytest.mark.parametrize(("model", "num_layers"), TABLE_5)
def test_the_citation_graphs_are_table_5(model: str, num_layers: int) -> None:
    for dataset, expected in zip(
        ("citeseer", "cora", "pubmed"), TABLE_5[model, num_layers], strict=True
    ):
        result = of(dataset, model, num_layers)
        assert result is not None
        assert (result.mean, result.sd, result.source) == (*expected, "Table 5")


@pytest.mark.parametrize(("model", "num_layers"), TABLE_3)
def test_citeseer_cross_is_table_3(model: str, num_layers: int) -> None:
    settings = {"aggregate_first": False} if model == "gin" else {}
    result = of("citeseer-cross", model, num_layers, **settings)
    method = "Cross-GCN" if model == "cross-gcn" else model.upper()
    assert result == PaperResult(method, "Table 3", *TABLE_3[model, num_layers])


@pytest.mark.parametrize(
    ("fix", "trained"),
    [
        ("cross-gcn-release-fix", "cross-gcn-release"),
        ("cross-gcn-paper-fix", "cross-gcn-paper"),
        ("cross-gcn-paper-fix", "cross-gcn"),
    ],
)
def test_fixed_and_trained_order_weights_are_different_rows(fix: str, trained: str) -> None:
    first, second = of("cora", fix, 2), of("cora", trained, 2)
    assert first is not None and second is not None
    assert (first.method, second.method) == ("Cross-GCN_Fix", "Cross-GCN")


@pytest.mark.parametrize(
    ("dataset", "model", "num_layers"),
    [
        ("citeseer", "mlp", 2),
        ("citeseer", "gcn", 3),
        ("citeseer-cross-3", "cross-gcn", 1),
        ("my/citeseer.npz", "gcn", 2),
    ],
)
def test_where_the_paper_has_no_number_there_is_none(
    dataset: str, model: str, num_layers: int
) -> None:
    assert of(dataset, model, num_layers) is None


def test_every_model_of_the_paper_but_the_perceptron_has_a_row() -> None:
    with_row = {name for name in PRESETS if of("pubmed", name, 2) is not None}
    assert with_row == set(PRESETS) - {"mlp", "cross-grand", "grand", "cross-hops", "mlp-hops"}


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 3},
        {"order_weights": "lstm"},
        {"first_order": "release"},
        {"aggregate_first": True},
        {"bias": True},
        {"splits": "public"},
        {"train": "all"},
    ],
)
def test_another_model_or_protocol_is_not_put_beside_the_papers_number(
    settings: dict[str, Any],
) -> None:
    assert of("cora", "cross-gcn", 2) is not None
    assert of("cora", "cross-gcn", 2, order=(2, 2), hidden_channels=64) is not None
    assert of("cora", "cross-gcn", 2, **settings) is None


def test_both_protocols_of_citeseer_cross_stand_beside_the_paper() -> None:
    assert of("citeseer-cross", "gcn", 2, train="all") == of("citeseer-cross", "gcn", 2)
