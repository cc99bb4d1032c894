"""Planted crosses are the strongest after purification: of every shop, and of Citeseer-Cross."""

from __future__ import annotations

import pytest

from crossgcn import CrossGCNClassifier, TableChoices, explain_terms, load_tables
from crossgcn.data.datasets.generated import citeseer_cross
from crossgcn.data.datasets.shop import PLANTED, make_shop
from crossgcn.explanation.column_details import describe_term

PAIRS = {frozenset(column.name for column in cross.columns) for cross in PLANTED}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_planted_crosses_are_the_strongest_and_their_mirror_images_are_gone(seed: int) -> None:
    shop = make_shop(2000, seed=seed)
    graph = load_tables(shop.nodes, shop.edges, TableChoices(target="buys"))
    classifier = CrossGCNClassifier(order=(2, 1), dropout=0.2, epochs=300, random_state=seed)
    classifier.fit(graph.matrix, graph.data.y.numpy(), graph.data.edge_index)
    terms = explain_terms(
        classifier.model_, graph.data, feature_names=graph.encoder.space, classes=graph.classes
    )
    planted = 0
    for output, name in enumerate(terms.outputs):
        strongest = terms.strongest(output, 2)[:5]
        planted += sum(
            frozenset(column.removeprefix("neighbours: ") for column in term.columns) in PAIRS
            for term in strongest
        )
        own = next(term for term in strongest if terms.whose(term) == "own")
        (cross,) = (cross for cross in PLANTED if cross.buys == name)
        assert describe_term(terms, own, output)["cells"][0]["names"] == list(cross.members)
    assert planted >= 0.8 * 5 * len(terms.outputs)


@pytest.mark.slow
def test_planted_crosses_of_citeseer_cross_are_the_strongest() -> None:
    data = citeseer_cross()
    classifier = CrossGCNClassifier(order=(2, 1), dropout=0.2, epochs=300, random_state=0)
    classifier.fit(data.x.numpy(), data.y.numpy(), data.edge_index)
    terms = explain_terms(classifier.model_, data)
    places = {f"{side}x{column}": column for side in ("", "neighbours: ") for column in range(12)}
    for output in range(6):
        for term in terms.strongest(output, 2)[:5]:
            first, second = (places[name] for name in term.columns)
            assert first % 2 == 0 and second == first + 1
