from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import draw_graph, draw_model, enumerate_terms, live
from torch_geometric.data import Data

from crossgcn import CrossGCN, Experiment, RunConfig, load_model
from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation import (
    NodeExplainer,
    cross_stability,
    first_order_terms,
    strongest_crosses,
)
from crossgcn.explanation.reading import read_model

SPACE = FeatureSpace(
    ("a=1", "a=2", "a=3", "b=1", "b=2", "b=3", "red", "tall", "age", "income"),
    ("a", "a", "a", "b", "b", "b", "red", "tall", "age", "income"),
)


def recover(folder: Path, num_splits: int, order: int, **settings: Any) -> list[int]:
    """How many classes have their planted cross on top, in each split."""
    name = "citeseer-cross" if order == 2 else f"citeseer-cross-{order}"
    config = RunConfig.create(
        dataset=name,
        model="cross-gcn",
        num_layers=1,
        order=order,
        num_splits=num_splits,
        **settings,
    )
    experiment = Experiment([config])
    experiment.run(out=folder, save_models=True)
    counts = []
    for run in sorted(folder.glob("*/split-*")):
        model = load_model(run)
        found = strongest_crosses(model, experiment.data, order=order, top=1)
        planted = [tuple(range(order * label, order * (label + 1))) for label in range(6)]
        counts.append(sum(map(np.array_equal, found["features"], planted)))
        check_scores(model, experiment.data)
    assert len(counts) == num_splits
    return counts


def check_scores(model: Any, data: Data) -> None:
    with torch.no_grad():
        scores = model.eval()(data.x, data.edge_index)
    explainer = NodeExplainer(model, data)
    for node in range(0, 3000, 500):
        found = explainer.explain(node)
        total = found.bias + found.expansion.list_terms().contribution.sum()
        assert total == pytest.approx(float(scores[node, found.target]), abs=1e-5)


def test_planted_pairs_are_the_strongest_of_their_classes(tmp_path: Path) -> None:
    assert recover(tmp_path, 1, 2, train="all", epochs=250) == [6]


def test_planted_triples_are_the_strongest_of_their_classes(tmp_path: Path) -> None:
    assert min(recover(tmp_path, 1, 3, train="all", dropout=0.2, epochs=300)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "order", "enough", "splits"),
    [
        ({"train": "all"}, 2, 6, 19),
        ({"train": 20}, 2, 5, 18),
        ({"train": "all", "dropout": 0.2}, 3, 5, 15),
    ],
)
def test_planted_crosses_come_back_over_the_splits(
    tmp_path: Path, settings: dict[str, Any], order: int, enough: int, splits: int
) -> None:
    counts = recover(tmp_path, 20, order, **settings)
    found = sum(count >= enough for count in counts)
    print(f"\norder {order}, {settings}: {enough} of 6 or more in {found} of 20 splits, {counts}")
    assert found >= splits


@pytest.mark.parametrize("order", [(2,), (3,), (3, 1), (2, 2)])
def test_every_number_in_the_table_is_that_of_plain_enumeration(order: tuple[int, ...]) -> None:
    graph, model = draw_graph(), draw_model(order, len(order))
    reading = read_model(model, graph)
    readout = np.eye(3)
    if len(order) == 2:
        readout = reading.layers[1].first_order * (reading.outputs[0] > 0).mean(axis=0)
    x = reading.inputs.toarray()
    expected: dict[tuple[Any, ...], tuple[float, ...]] = {}
    for name, weight in enumerate_terms(reading.layers[0], reading.binary).items():
        product = x[:, list(name)].prod(axis=1)
        if len(set(name)) > 1 and product.any():
            for label, class_weight in enumerate(readout @ weight):
                occurrence = np.abs(product).mean()
                expected[label, name] = (
                    *(class_weight, occurrence, (product != 0).sum()),
                    class_weight * occurrence,
                )
    found = strongest_crosses(model, graph, top=10_000)
    assert found.attrs["complete"]
    columns = ["class", "features", "weight", "occurrence", "support", "strength"]
    assert len(found) == len(expected)
    for label, features, *numbers in found[columns].itertuples(index=False):
        assert numbers == pytest.approx(expected[label, features])
    for _, rows in found.groupby("class"):
        assert rows["strength"].abs().is_monotonic_decreasing
    few = strongest_crosses(model, graph, top=4)
    assert few.equals(found.groupby("class").head(4).reset_index(drop=True))


def test_crosses_have_the_names_of_features_and_classes() -> None:
    found = strongest_crosses(
        draw_model(3), draw_graph(), space=SPACE, classes=["no", "maybe", "yes"], top=500
    )
    assert list(dict.fromkeys(found["class"])) == ["no", "maybe", "yes"]
    assert {"a=1 & red", "age & income", "red & age²", "a=2 & b=3 & tall"} <= set(found["cross"])
    assert not found["cross"].str.contains("a=1 & a=2", regex=False).any()
    assert (found["support"] > 0).all()
    only = strongest_crosses(draw_model(3), draw_graph(), order=3, top=500)
    assert set(only["order"]) == {3}


def test_single_features_come_with_their_folded_and_other_powers() -> None:
    graph, model = draw_graph(), draw_model(2)
    found = first_order_terms(model, graph, space=SPACE, top=100)
    reading = read_model(model, graph)
    weights = enumerate_terms(reading.layers[0], reading.binary)
    assert {"age", "age²", "income²", "red"} <= set(found["cross"])
    assert len(found) == 3 * 12
    for label, features, weight in found[["class", "features", "weight"]].itertuples(index=False):
        assert weight == pytest.approx(weights[features][label])


def test_sums_over_neighbours_are_counted_where_they_are_crossed() -> None:
    graph, model = draw_graph(), draw_model(2, aggregate_first=True)
    inputs = read_model(model, graph).inputs.toarray()
    (first, *_) = strongest_crosses(model, graph, top=1).to_dict("records")
    product = inputs[:, list(first["features"])].prod(axis=1)
    assert first["occurrence"] == pytest.approx(np.abs(product).mean())


def test_a_model_without_crosses_has_none() -> None:
    found = strongest_crosses(draw_model(1), draw_graph())
    assert found.empty
    assert "strength" in found


def test_a_search_that_gave_up_is_marked() -> None:
    found = strongest_crosses(draw_model(3), draw_graph(), limit=5)
    assert not found.attrs["complete"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 1}, "order is 1; give a whole number of at least 2"),
        ({"top": 0}, "top is 0; give a whole number of at least 1"),
        ({"top": 2.5}, "top is 2.5; give a whole number"),
        ({"classes": ["a", "b"]}, "2 class names were given, but the model has 3 classes"),
        ({"space": ["a"]}, "1 feature names were given, but the graph has 10 features"),
    ],
)
def test_bad_arguments_are_refused_with_a_remedy(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        strongest_crosses(draw_model(2), draw_graph(), **settings)


def test_an_order_above_the_models_gives_an_empty_table() -> None:
    found = strongest_crosses(draw_model(2), draw_graph(), order=5)
    assert found.empty
    assert found.attrs["complete"]


@pytest.mark.parametrize("aggregate_first", [False, True])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("numbers", ["scaled", "zero or one", "all divided"])
def test_one_column_names_no_cross_with_itself(
    aggregate_first: bool, order: int, numbers: str
) -> None:
    space = FeatureSpace(
        ("age<18", "age>=18", "age", "language=en", "language=pt", "tag=a", "tag=b", "tag=c"),
        ("age", "age", "age", "language", "language", "tag", "tag", "tag"),
    )
    generator = np.random.default_rng(0)
    age = generator.normal(size=40) if numbers == "scaled" else generator.random(40) < 0.5
    english = generator.random(40) < 0.5
    tags = generator.random((40, 3)) < 0.6
    columns = [age > 0, age <= 0, age, english, ~english, *tags.T]
    x = np.stack(columns, axis=1).astype(np.float32)
    if numbers == "all divided":
        x /= 1 + x.sum(axis=1, keepdims=True)
    edges = torch.from_numpy(generator.integers(40, size=(2, 120)))
    graph = Data(x=torch.from_numpy(x), edge_index=edges)
    torch.manual_seed(0)
    model = live(CrossGCN(8, 4, 1, 3, order=order, aggregate_first=aggregate_first))
    found = strongest_crosses(model, graph, space=space, top=10_000)
    for features in found["features"]:
        members = set(features)
        assert len(members & {0, 1, 2}) <= 1
        assert len(members & {3, 4}) <= 1
    named = set(found["cross"])
    assert {"age & tag=a", "age<18 & language=en", "tag=a & tag=b"} <= named


def test_a_cross_is_stable_where_it_has_the_same_sign_and_half_the_weight() -> None:
    graph, model = draw_graph(), draw_model(2)
    ours = strongest_crosses(model, graph, top=5)
    weaker, opposite = draw_model(2), draw_model(2)
    for changed, factor in ((weaker, 0.4), (opposite, -1.0)):
        changed.load_state_dict(model.state_dict())
        with torch.no_grad():
            changed.layers[0].get_parameter("transform.order_weights")[1] *= factor
    models = [model, weaker, opposite]
    assert set(cross_stability(ours, models[:1], graph, range(3))) == {1.0}
    shares = cross_stability(ours, models, graph, range(3))
    assert shares.tolist() == pytest.approx([1 / 3] * len(ours))
    assert shares.head(3).equals(cross_stability(ours.head(3), models, graph, range(3)))


def test_stability_needs_at_least_one_other_model() -> None:
    graph, model = draw_graph(), draw_model(2)
    with pytest.raises(BadInput, match="at least one other model"):
        cross_stability(strongest_crosses(model, graph), [], graph, range(3))
