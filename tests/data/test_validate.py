from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.graph import validate_data
from crossgcn.errors import BadInput


def graph(**changes: Any) -> Data:
    parts: dict[str, Any] = {
        "x": torch.eye(3),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, -1]),
        "num_classes": 2,
    }
    return Data(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "^data: x is missing; give it as float"),
        ({"x": torch.eye(3, dtype=torch.int64)}, r"x is int64 \[3, 3\]"),
        ({"x": torch.ones(0, 3)}, "at least one node"),
        ({"edge_index": None}, "edge_index is missing"),
        ({"edge_index": torch.tensor([[0], [3]])}, r"edge_index\[1, 0\] is 3"),
        ({"edge_index": torch.tensor([[0], [1]], dtype=torch.int32)}, "edge_index is int32"),
        ({"y": None}, "y is missing"),
        ({"y": torch.tensor([[0], [1], [1]])}, r"y is int64 \[3, 1\]"),
        ({"y": torch.tensor([0, 1])}, "2 labels for 3 nodes"),
        ({"y": torch.tensor([0, 1, 2])}, r"y\[2\] is 2, but num_classes is 2"),
        ({"edge_weight": torch.ones(3)}, r"edge_weight is float32 \[3\]; it must be float \[2\]"),
        ({"edge_weight": torch.ones(2, 1)}, r"edge_weight is float32 \[2, 1\]"),
        ({"edge_weight": [1.0, 1.0]}, "edge_weight is of type list"),
        ({"edge_weight": torch.tensor([1.0, -0.5])}, r"edge_weight\[1\] is -0.5 .*not negative"),
        ({"edge_weight": torch.tensor([torch.nan, 1.0])}, r"edge_weight\[0\] is nan .* finite"),
        ({"roles": torch.zeros(3)}, "roles is float32"),
    ],
)
def test_what_a_model_would_fail_on_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        validate_data(graph(**changes), "data")


def test_the_first_of_several_bad_features_is_placed_and_all_are_counted() -> None:
    x = torch.ones(3, 4)
    x[2, 1] = x[1, 3] = float("nan")
    with pytest.raises(BadInput, match=r"x row 1, column 3 is nan .*2 such in all"):
        validate_data(graph(x=x), "data")
