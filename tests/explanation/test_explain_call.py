from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from small_models import draw_graph, draw_model

from crossgcn import explain
from crossgcn.errors import BadInput
from crossgcn.explanation import NodeExplainer, strongest_crosses


def test_one_call_serves_both_views() -> None:
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
def test_impossible_requests_say_what_is_possible(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain(draw_model(2), draw_graph(), **settings)


def test_importing_the_room_imports_nothing_heavy() -> None:
    check = (
        "import crossgcn.explanation, sys;"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_call_survives_the_import_of_the_room() -> None:
    check = (
        "import crossgcn.explanation.node, crossgcn; from crossgcn import explain;"
        "assert callable(explain) and explain is crossgcn.explain"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
