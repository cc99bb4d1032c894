from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix


def random_matrix(rows: int, columns: int, density: float, seed: int) -> SparseMatrix:
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(rows, columns)) * (generator.random((rows, columns)) < density)
    return SparseMatrix.from_scipy(sp.csr_array(dense))


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    width=st.integers(1, 5),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_products_and_gradients_are_those_of_the_dense_matrix(
    rows: int, columns: int, width: int, density: float, seed: int
) -> None:
    matrix = random_matrix(rows, columns, density, seed)
    dense = torch.from_numpy(matrix.to_scipy().toarray())
    other = torch.randn(columns, width, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(rows, width, dtype=torch.float64)
    torch.testing.assert_close(matrix @ other, dense @ other)
    (gradient,) = torch.autograd.grad(((matrix @ other) * weight).sum(), other)
    torch.testing.assert_close(gradient, dense.t() @ weight)


def test_gradcheck() -> None:
    matrix = random_matrix(6, 5, 0.4, seed=0)
    dense = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda b: matrix @ b, dense)


def test_other_values_share_the_pattern_and_its_transpose() -> None:
    matrix = random_matrix(6, 5, 0.5, seed=1)
    doubled = matrix.with_values(2 * matrix.values)
    dense = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(doubled @ dense, 2 * (matrix @ dense))
    (gradient,) = torch.autograd.grad((doubled @ dense).sum(), dense)
    (half,) = torch.autograd.grad((matrix @ dense).sum(), dense)
    torch.testing.assert_close(gradient, 2 * half)


def test_takes_over_torch_csr_and_selects_rows() -> None:
    matrix = random_matrix(8, 5, 0.5, seed=2)
    csr = csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, (8, 5))
    rows = torch.tensor([7, 0, 0, 3])
    selected = SparseMatrix.from_torch(csr).select_rows(rows)
    np.testing.assert_array_equal(
        selected.to_scipy().toarray(), matrix.to_scipy().toarray()[rows.numpy()]
    )


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    matrix = random_matrix(300, 200, 0.2, seed=3)
    matrix = matrix.with_values(matrix.values.float())
    dense = torch.randn(200, 64)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(matrix @ dense)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_a_product_that_does_not_fit_says_so() -> None:
    matrix = random_matrix(4, 5, 0.5, seed=0)
    with pytest.raises(ValueError, match=r"4 × 5.*by \(6, 2\): 5 rows are needed"):
        matrix @ torch.randn(6, 2)
