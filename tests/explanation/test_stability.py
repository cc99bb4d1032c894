from __future__ import annotations

import pandas as pd
import pytest

from crossgcn.errors import BadInput
from crossgcn.explanation import cross_stability


def table(*rows: tuple[str, tuple[int, ...], float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["class", "features", "strength"])


def test_a_cross_is_stable_where_it_is_strong_for_the_same_class_with_the_same_sign() -> None:
    ours = table(("a", (0, 1), 2.0), ("a", (2, 3), -1.0), ("b", (0, 1), 1.0))
    others = [
        ours,
        table(("a", (2, 3), -3.0), ("a", (0, 1), 0.5), ("b", (4, 5), 1.0)),
        table(("a", (0, 1), -2.0), ("a", (4, 5), 1.0), ("a", (2, 3), -0.5), ("b", (0, 1), 0.1)),
    ]
    assert cross_stability(ours, others, top=2).tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert cross_stability(ours, others, top=1).tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert cross_stability(ours, others[2:], top=3).tolist() == [0.0, 1.0, 1.0]


def test_it_needs_something_to_compare_with() -> None:
    with pytest.raises(BadInput, match="at least one other model"):
        cross_stability(table(("a", (0, 1), 2.0)), [])
