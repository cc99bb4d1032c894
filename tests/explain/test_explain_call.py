from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
from small_models import draw_graph, draw_model

from crossgcn.errors import BadInput
from crossgcn.explain import NodeExplainer, strongest_crosses


@pytest.fixture
def explain() -> Any:
    return importlib.import_module("crossgcn.explain")


def test_the_room_is_a_function_of_model_and_data(explain: Any) -> None:
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
    [({"top": 0}, "top is 0"), ({"node": 1, "order": 2}, "leave it out to explain a node")],
)
def test_impossible_requests_say_what_is_possible(
    explain: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        explain(draw_model(2), draw_graph(), **settings)


def test_importing_the_room_imports_nothing_heavy() -> None:
    check = (
        "import crossgcn.explain, sys; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
