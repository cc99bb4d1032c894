from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.graph import ModelBatchMatrix, PreparedGraph, SparseMatrix, stack_inputs

SIZES = [(6, 5), (9, 3), (1, 8), (6, 5)]
sizes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4)


def random_matrix(
    rows: int, columns: int, seed: int, *, density: float = 0.5, dtype: type = np.float32
) -> SparseMatrix:
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(rows, columns)) * (generator.random((rows, columns)) < density)
    return SparseMatrix.from_scipy(sp.csr_array(dense.astype(dtype)))


def matrices_of(
    shapes: list[tuple[int, int]], *, density: float = 0.5, dtype: type = np.float32, seed: int = 0
) -> list[SparseMatrix]:
    return [
        random_matrix(*shape, seed + position, density=density, dtype=dtype)
        for position, shape in enumerate(shapes)
    ]


def random_factor(stacked: ModelBatchMatrix, width: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(stacked.models, stacked.shape[1], width, dtype=dtype, requires_grad=True)


def product_and_gradient(
    matrix: SparseMatrix, factor: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    product = matrix @ factor
    (gradient,) = torch.autograd.grad((product * weight).sum(), factor)
    return product.detach(), gradient


def assert_as_separate(stacked: ModelBatchMatrix, matrices: list[SparseMatrix], width: int) -> None:
    """Products and gradients have the bits of each model's own; what is padded is zero."""
    torch.manual_seed(0)
    factor = random_factor(stacked, width, torch.float32)
    weight = torch.randn(stacked.models, stacked.shape[0], width)
    product, gradient = product_and_gradient(stacked, factor, weight)
    for model, matrix in enumerate(matrices):
        rows, columns = matrix.shape
        part = factor[model, :columns].detach().requires_grad_()
        own = product_and_gradient(matrix, part, weight[model, :rows])
        assert torch.equal(product[model, :rows], own[0])
        assert torch.equal(gradient[model, :columns], own[1])
        assert not product[model, rows:].any() and not gradient[model, columns:].any()


@given(shapes=sizes, width=st.integers(1, 5), seed=st.integers(0, 2**16))
def test_products_have_the_bits_of_separate_ones(
    shapes: list[tuple[int, int]], width: int, seed: int
) -> None:
    matrices = matrices_of(shapes, seed=seed)
    assert_as_separate(ModelBatchMatrix(matrices), matrices, width)


def test_products_have_the_bits_of_separate_ones_with_long_rows() -> None:
    matrices = matrices_of([(40, 700), (80, 300)], density=0.9)
    assert_as_separate(ModelBatchMatrix(matrices), matrices, width=33)


@given(
    shapes=sizes,
    width=st.integers(1, 5),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_products_and_gradients_are_those_of_the_dense_matrices(
    shapes: list[tuple[int, int]], width: int, density: float, seed: int
) -> None:
    matrices = matrices_of(shapes, density=density, dtype=np.float64, seed=seed)
    stacked = ModelBatchMatrix(matrices)
    assert stacked.shape == tuple(max(lengths) for lengths in zip(*shapes, strict=True))
    dense = torch.zeros(len(matrices), *stacked.shape, dtype=torch.float64)
    for model, matrix in zip(dense, matrices, strict=True):
        model[: matrix.shape[0], : matrix.shape[1]] = torch.from_numpy(matrix.to_scipy().toarray())
    factor = random_factor(stacked, width, torch.float64)
    weight = torch.randn(len(matrices), stacked.shape[0], width, dtype=torch.float64)
    product, gradient = product_and_gradient(stacked, factor, weight)
    torch.testing.assert_close(product, dense @ factor.detach())
    torch.testing.assert_close(gradient, dense.mT @ weight)


@pytest.mark.parametrize("shape", [(4, 7, 2), (3, 8, 2), (32, 2), (8, 2)])
def test_a_product_that_does_not_fit_says_so(shape: tuple[int, ...]) -> None:
    stacked = ModelBatchMatrix(matrices_of(SIZES))
    needed = r"9 × 8.* of 4 models by \({}\): \[4, 8, ...\] is needed"
    with pytest.raises(ValueError, match=needed.format(", ".join(map(str, shape)))):
        stacked @ torch.randn(*shape)


def test_each_models_entries_are_found_where_they_start() -> None:
    matrices = [*matrices_of(SIZES), random_matrix(3, 2, seed=9, density=0.0)]
    stacked = ModelBatchMatrix(matrices)
    starts = stacked.model_starts.tolist()
    assert starts == np.cumsum([0, *(matrix.nonzeros for matrix in matrices)]).tolist()
    for matrix, first, last in zip(matrices, starts, starts[1:], strict=False):
        assert torch.equal(stacked.values[first:last], matrix.values)


@pytest.mark.parametrize("used_before", [False, True])
def test_other_values_and_another_device_keep_all_else(used_before: bool) -> None:
    matrices = matrices_of(SIZES)
    stacked = ModelBatchMatrix(matrices)
    if used_before:
        assert_as_separate(stacked, matrices, width=3)
    values = torch.randn(stacked.nonzeros)
    starts = stacked.model_starts.tolist()
    others = [
        matrix.with_values(values[first:last])
        for matrix, first, last in zip(matrices, starts, starts[1:], strict=False)
    ]
    for moved in (
        stacked.with_values(values),
        stacked.to("cpu").with_values(values),
        stacked.with_values(values).to("cpu"),
    ):
        assert moved.model_starts.tolist() == starts
        assert_as_separate(moved, others, width=3)
    assert_as_separate(stacked, matrices, width=3)


def test_inputs_of_several_models_are_stacked_layer_by_layer(small_graph: Data) -> None:
    nodes = [torch.arange(5), torch.tensor([89, 3]), torch.arange(40, 80)]
    for x in (small_graph.x, small_graph.x.to_dense()):
        graph = PreparedGraph(x, small_graph.edge_index)
        views = [graph.view(own, 2) for own in nodes]
        features, blocks = stack_inputs(views)
        assert len(blocks) == 2 and isinstance(features, ModelBatchMatrix) == (x is small_graph.x)
        weight = torch.randn(3, 24, 4)
        together = blocks[1] @ (blocks[0] @ (features @ weight))
        for model, (own, (first, second)) in enumerate(views):
            alone = second @ (first @ (own @ weight[model]))
            torch.testing.assert_close(together[model, : len(alone)], alone, rtol=0, atol=1e-6)
            assert not together[model, len(alone) :].any()


def test_inputs_of_models_that_see_no_graph_are_features_alone(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x.to_dense(), small_graph.edge_index)
    features, blocks = stack_inputs(
        [graph.view(torch.tensor([2, 1]), 0), graph.view(torch.tensor([7]), 0)]
    )
    x = small_graph.x.to_dense()
    assert blocks == ()
    assert torch.equal(features, torch.stack([x[[2, 1]], torch.stack([x[7], torch.zeros(24)])]))  # type: ignore[arg-type]
