from __future__ import annotations

import pytest
import torch

from crossgcn import BadInput
from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix
from crossgcn.layers.dropout import FeatureDropout


def sparse_ones(rows: int = 400, columns: int = 500, per_row: int = 10) -> SparseMatrix:
    columns_of = torch.stack([torch.randperm(columns)[:per_row].sort()[0] for _ in range(rows)])
    offsets = torch.arange(0, rows * per_row + 1, per_row)
    return SparseMatrix(offsets, columns_of.flatten(), torch.ones(rows * per_row), (rows, columns))


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_sparse_dropout_has_the_mean_and_rate_of_dense_dropout(p: float) -> None:
    torch.manual_seed(0)
    matrix = sparse_ones()
    dropped = FeatureDropout(p)(matrix)
    kept = dropped.values != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.03)
    torch.testing.assert_close(dropped.values[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))
    assert dropped.values.mean().item() == pytest.approx(1.0, abs=0.1)


def test_only_stored_entries_are_drawn() -> None:
    """The same seed drops the same entries however wide the matrix is around them."""
    narrow = sparse_ones(rows=50, columns=20)
    wide = SparseMatrix(narrow.row_offsets, narrow.columns, narrow.values, (50, 10_000_000))
    torch.manual_seed(3)
    first = FeatureDropout(0.5)(narrow).values
    torch.manual_seed(3)
    second = FeatureDropout(0.5)(wide).values
    torch.testing.assert_close(first, second)


def test_torch_csr_and_sparse_matrix_drop_the_same_entries() -> None:
    matrix = sparse_ones()
    csr = csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, matrix.shape)
    torch.manual_seed(5)
    ours = FeatureDropout(0.5)(matrix)
    torch.manual_seed(5)
    theirs = FeatureDropout(0.5)(csr)
    assert theirs.layout == torch.sparse_csr
    torch.testing.assert_close(theirs.values(), ours.values)


def test_nothing_is_dropped_outside_training_or_at_rate_zero() -> None:
    matrix, dense = sparse_ones(), torch.randn(4, 5)
    assert FeatureDropout(0.5).eval()(matrix) is matrix
    assert FeatureDropout(0.0)(dense) is dense


def test_other_sparse_layouts_are_refused_with_the_remedy() -> None:
    with pytest.raises(BadInput, match=r"pass x.to_sparse_csr\(\)"):
        FeatureDropout(0.5)(torch.eye(3).to_sparse())


def test_gradients_flow_through_what_was_kept() -> None:
    torch.manual_seed(0)
    matrix = FeatureDropout(0.5)(sparse_ones(rows=30, columns=40))
    weight = torch.randn(40, 3, requires_grad=True)
    (matrix @ weight).sum().backward()
    assert weight.grad is not None
    expected = torch.from_numpy(matrix.to_scipy().toarray()).sum(0)
    torch.testing.assert_close(weight.grad, expected[:, None].expand(40, 3))


def test_a_dropout_is_the_first_of_its_model_unless_told_otherwise() -> None:
    """Models trained side by side number theirs from 0: a model alone must draw the same."""
    dropout, x = FeatureDropout(0.5), torch.ones(20, 30)
    dropout.follow(torch.tensor([7]), torch.tensor([3]))
    assert torch.equal(dropout(x), dropout(x, site=0))
    assert not torch.equal(dropout(x), dropout(x, site=1))


def test_negative_features_are_kept_unless_they_are_activated() -> None:
    x = -torch.ones(1000)
    assert set(FeatureDropout(0.5)(x).tolist()) == {-2.0, 0.0}
    assert not FeatureDropout(0.5)(x, activate=True).any()
