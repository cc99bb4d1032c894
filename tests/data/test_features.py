from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data import csr_tensor, row_normalise
from crossgcn.data.features import Preprocess
from crossgcn.errors import BadInput

ROWS = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0]), min_size=width, max_size=width),
        min_size=1,
        max_size=6,
    )
)


def as_csr(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.nonzero(as_tuple=True)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), (x != 0).sum(1).cumsum(0)])
    return csr_tensor(indptr, columns, x[rows, columns], (x.shape[0], x.shape[1]))


@given(ROWS)
def test_rows_sum_to_one_or_stay_zero_in_both_layouts(rows: list[list[float]]) -> None:
    x = torch.tensor(rows)
    dense, sparse = row_normalise(x), row_normalise(as_csr(x))
    assert sparse.layout == torch.sparse_csr
    torch.testing.assert_close(sparse.to_dense(), dense)
    torch.testing.assert_close(dense.sum(1), x.any(1).float())


def test_a_row_whose_values_cancel_becomes_zero_instead_of_infinite() -> None:
    x = torch.tensor([[1.0, -1.0], [1.0, 3.0]])
    expected = torch.tensor([[0.0, 0.0], [0.25, 0.75]])
    assert torch.equal(row_normalise(x), expected)
    assert torch.equal(row_normalise(as_csr(x)).to_dense(), expected)


def test_a_csr_matrix_that_lies_about_its_columns_is_refused() -> None:
    with pytest.raises(RuntimeError, match="col_indices"):
        csr_tensor(torch.tensor([0, 1]), torch.tensor([7]), torch.ones(1), (1, 2))


@pytest.mark.parametrize("content", ["classes", {"classes": ["a"], "extra": [1]}, {"classes": [1]}])
def test_a_description_of_another_type_is_refused(content: Any) -> None:
    with pytest.raises(BadInput, match="is damaged at"):
        Preprocess.from_json(content)
