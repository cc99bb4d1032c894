"""What docs/extending.md shows works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import CrossGCNConv, explain
from crossgcn.explanation import NotASum
from crossgcn.explanation.polynomial import read_layer
from crossgcn.models import catalogue
from crossgcn.models.cross_gcn import CrossGCN

PAGE = (Path(__file__).parents[1] / "docs/extending.md").read_text(encoding="utf-8")
MODULE, MODEL, ENTRY = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
X, EDGES = torch.randn(9, 16), torch.randint(9, (2, 30))


def test_a_module_combines_the_orders_and_is_refused_by_explain() -> None:
    names: dict[str, Any] = {}
    exec(MODULE, names)
    conv: CrossGCNConv = names["conv"]
    assert conv(X, EDGES).shape == (9, 32)
    with pytest.raises(NotASum, match="combines its orders by OrderLSTM"):
        read_layer(conv, 0)
    model = CrossGCN(16, 32, 2, 7, order_weights=names["OrderLSTM"](32), order=[3, 1])
    with pytest.raises(NotASum, match="combines its orders by OrderLSTM"):
        explain(model, Data(x=X, edge_index=EDGES))


def test_a_model_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("crossgcn.models.sage")
    exec(MODEL, made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    entry = eval("{" + ENTRY + "}", dict(vars(catalogue)))
    monkeypatch.setattr(catalogue, "PRESETS", catalogue.PRESETS | entry)
    model = catalogue.build_model("cross-means", 16, 7, order=3)
    assert model(X, EDGES).shape == (9, 7)
    assert all(layer.aggr == "mean" for layer in model.layers)
