"""The perceptron of GIN as a feature transform."""

from __future__ import annotations

import pytest
import torch

from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix
from crossgcn.layers import MLPTransform


@pytest.mark.parametrize("hidden_bias", [True, False])
def test_it_is_a_linear_map_of_a_relu_of_a_linear_map(
    hidden_bias: bool,
) -> None:
    transform = MLPTransform(5, 7, 3, bias=hidden_bias)
    first, second = transform.hidden.weight[0], transform.output.weight[0]
    assert first.shape == (7, 5) and second.shape == (3, 7)
    if transform.hidden.bias is not None:
        torch.nn.init.normal_(transform.hidden.bias)
    x = torch.randn(6, 5)
    shift = 0.0 if transform.hidden.bias is None else transform.hidden.bias
    expected = torch.relu(x @ first.T + shift) @ second.T
    torch.testing.assert_close(transform(x), expected)
    assert (transform.hidden.bias is not None) == hidden_bias
    rows = SparseMatrix.from_scipy(x.numpy())
    sparse = csr_tensor(rows.row_offsets, rows.columns, rows.values, rows.shape)
    torch.testing.assert_close(transform(sparse), expected)
