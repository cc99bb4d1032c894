"""Products with computed entries against the same with dense matrices."""

from __future__ import annotations

import pytest
import torch
from crossing_cases import random_rows, to_csr
from torch import Tensor

from crossgcn import BadInput
from crossgcn.graph import ModelBatchMatrix, SparseMatrix
from crossgcn.layers.other_crossings import entries as entries_module
from crossgcn.layers.other_crossings.entries import Entries


@pytest.fixture(params=[2**22, 10], ids=["at once", "in pieces"])
def x(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    monkeypatch.setitem(entries_module.MOST_GATHERED, "cpu", request.param)
    torch.manual_seed(0)
    return random_rows(6, 9, share=0.4)


def test_row_sums_and_their_gradients(x: Tensor) -> None:
    entries = Entries(to_csr(x))
    values = torch.randn(entries.columns.numel(), dtype=torch.float64, requires_grad=True)
    dense = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    filled = torch.zeros_like(x).index_put((entries.rows, entries.columns), values)
    torch.testing.assert_close(entries.row_sums(values, dense), filled @ dense)
    assert torch.autograd.gradcheck(entries.row_sums, (values, dense))


def test_inner_products_and_their_gradients(x: Tensor) -> None:
    entries = Entries(to_csr(x))
    by_row = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    by_column = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    expected = (by_row @ by_column.mT)[entries.rows, entries.columns]
    torch.testing.assert_close(entries.inner_products(by_row, by_column), expected)
    assert torch.autograd.gradcheck(entries.inner_products, (by_row, by_column))


def test_pair_sums_and_their_gradients(x: Tensor) -> None:
    entries = Entries(to_csr(x))
    values = torch.randn(entries.columns.numel(), dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 9, dtype=torch.float64, requires_grad=True)
    filled = torch.zeros_like(x).index_put((entries.rows, entries.columns), values)
    expected = (filled @ weight.mT)[entries.rows, entries.columns]
    torch.testing.assert_close(entries.pair_sums(values, weight), expected)
    assert torch.autograd.gradcheck(entries.pair_sums, (values, weight))


def test_positions_in_32_bits_reach_weights_of_any_size(x: Tensor) -> None:
    """A pattern on a GPU has such positions, and a weight may have more than 2³¹ entries."""
    matrix = SparseMatrix.from_torch(to_csr(x))
    short = SparseMatrix(matrix.row_offsets.int(), matrix.columns.int(), matrix.values, (6, 9))
    weight = torch.randn(9, 9, dtype=torch.float64)
    sums = Entries(short).pair_sums(short.values, weight)
    torch.testing.assert_close(sums, Entries(matrix).pair_sums(matrix.values, weight))
    numbers, _ = next(Entries(short)._row_blocks())
    assert Entries(short)._places(numbers, 2**31).max() > 2**31


def test_rows_without_entries_give_nothing() -> None:
    entries = Entries(to_csr(torch.zeros(3, 4, dtype=torch.float64)))
    weight = torch.randn(4, 4, dtype=torch.float64)
    none = torch.zeros(0, dtype=torch.float64)
    assert entries.pair_sums(none, weight).numel() == 0
    assert entries.inner_products(torch.randn(3, 4).double(), weight).numel() == 0
    assert entries.row_sums(none, weight).count_nonzero() == 0


def test_entries_of_several_models_meet_their_own_weights(x: Tensor) -> None:
    other = random_rows(5, 9, share=0.3)
    parts = [SparseMatrix.from_scipy(each.numpy()) for each in (x, other)]
    stacked = Entries(ModelBatchMatrix(parts))
    by_row = torch.randn(2, 6, 4, dtype=torch.float64)
    by_column = torch.randn(2, 9, 4, dtype=torch.float64)
    vector = torch.randn(2, 9, dtype=torch.float64)
    products = stacked.inner_products(by_row, by_column)
    sums = stacked.row_sums(products, by_column)
    begin = 0
    for model, part in enumerate(parts):
        alone = Entries(part)
        own = alone.inner_products(by_row[model], by_column[model])
        end = begin + own.numel()
        torch.testing.assert_close(products[begin:end], own)
        torch.testing.assert_close(
            sums[model, : part.shape[0]], alone.row_sums(own, by_column[model])
        )
        torch.testing.assert_close(
            stacked.of_columns(vector)[begin:end], alone.of_columns(vector[model])
        )
        torch.testing.assert_close(
            stacked.pair_sums(products, by_column @ by_column.mT)[begin:end],
            alone.pair_sums(own, by_column[model] @ by_column[model].mT),
        )
        begin = end


def test_a_layout_that_cannot_be_read_is_named() -> None:
    with pytest.raises(BadInput, match=r"sparse_coo.*to_sparse_csr"):
        Entries(torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (2, 2)))


def test_pairs_are_gathered_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one length, of which four fit at once; a row that fits nowhere is taken alone."""
    entries = Entries(to_csr(torch.ones(10, 5, dtype=torch.float64)))
    for most, rows in ((100, [4, 4, 2]), (24, [1] * 10)):
        monkeypatch.setitem(entries_module.MOST_GATHERED, "cpu", most)
        assert [len(numbers) for numbers, _ in entries._row_blocks()] == rows
