from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_models import draw_graph, draw_model

from crossgcn import CrossGCNClassifier, explain
from crossgcn.errors import BadInput
from crossgcn.explanation import NodeExplainer, strongest_crosses


def test_explain_returns_crosses_of_classes_or_terms_of_a_node() -> None:
    graph, model = draw_graph(), draw_model(3)
    assert explain(model, graph, top=5).equals(strongest_crosses(model, graph, top=5))
    one = explain(model, graph, 4, top=3, classes=["no", "maybe", "yes"])
    assert one["contribution"].sum() == pytest.approx(one["logit"].iloc[0])
    label = NodeExplainer(model, graph).explain(4).target
    assert set(one["target"]) == {["no", "maybe", "yes"][label]}
    names = [f"feature {position}" for position in range(10)]
    assert "feature" in explain(model, graph, feature_names=names)["cross"].iloc[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top": 0}, "top is 0; give a whole number of at least 1"),
        ({"top": 2.5}, "top is 2.5; give a whole number"),
        ({"node": 1, "order": 2}, "leave it out to explain a node"),
        ({"node": 0, "classes": ["a"]}, "1 class names were given, but the model has 3 classes"),
        ({"classes": ["a"]}, "1 class names were given, but the model has 3 classes"),
        ({"order": 5}, "order is 5, but the first layer of this model multiplies at most 2"),
        ({"order": 1}, "order is 1; give a whole number of at least 2"),
        ({"order": 2.5}, "order is 2.5; give a whole number"),
    ],
)
def test_bad_arguments_are_refused_with_a_remedy(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain(draw_model(2), draw_graph(), **settings)


def test_a_classifier_is_explained_with_the_names_it_knows() -> None:
    graph = draw_graph()
    names = [f"column {position}" for position in range(10)]
    labels = np.array(["no", "maybe", "yes"])[np.arange(30) % 3]
    classifier = CrossGCNClassifier(epochs=3, num_layers=1)
    with pytest.raises(BadInput, match=r"a CrossGCNClassifier was given.* after its fit"):
        explain(classifier, graph)
    frame = pd.DataFrame(graph.x.numpy(), columns=names)
    classifier.fit(frame, labels, edge_index=graph.edge_index.numpy())
    found = explain(classifier, graph, top=3)
    assert list(dict.fromkeys(found["class"])) == ["maybe", "no", "yes"]
    assert found["cross"].str.startswith("column ").all()
    plain = explain(classifier.model_, graph, top=3)
    assert found["strength"].equals(plain["strength"])
    assert set(explain(classifier, graph, 4)["target"]) <= {"maybe", "no", "yes"}
    renamed = explain(classifier, graph, feature_names=list("abcdefghij"), classes=[1, 2, 3])
    assert set(renamed["class"]) == {1, 2, 3}
    assert not renamed["cross"].str.contains("column").any()


def test_importing_the_package_imports_nothing_heavy() -> None:
    check = (
        "import crossgcn.explanation, sys;"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
