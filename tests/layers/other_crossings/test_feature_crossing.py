"""What every crossing must do in the slot of the cross-feature transform."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from crossing_cases import (
    CASES,
    ON_SPARSE_ROWS,
    THROUGH_PROJECTIONS,
    biases,
    make,
    make_crossing,
    random_rows,
    to_csr,
)
from torch import Tensor, nn
from torch_geometric.data import Data

from crossgcn import BadInput
from crossgcn.data.features import row_normalise
from crossgcn.graph import ModelBatchMatrix, SparseMatrix
from crossgcn.layers import make_transform
from crossgcn.layers.graph_convolution import GraphConvolution

pytestmark = pytest.mark.usefixtures("one_thread")
every_case = pytest.mark.parametrize("case", CASES)
every_sparse_case = pytest.mark.parametrize("case", ON_SPARSE_ROWS)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Rows this few lose by a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@every_case
def test_order_1_is_a_linear_map(case: str) -> None:
    name, settings = CASES[case]
    settings = {option: value for option, value in settings.items() if option != "bias"}
    crossing = make_transform(name, 7, 3, 1, **settings).double()
    x, y = random_rows(5, 7), random_rows(5, 7)
    torch.testing.assert_close(crossing(2 * x + y), 2 * crossing(x) + crossing(y))
    torch.testing.assert_close(crossing(to_csr(x)), crossing(x))
    assert len(list(crossing.parameters())) == 1
    with pytest.raises(BadInput, match=r"at least 2 features; got order=1: use transform='linear'"):
        make_crossing(case, 7, 3, 1)


@every_case
@pytest.mark.parametrize("order", [2, 3, 4])
def test_no_product_has_more_factors_than_the_order(case: str, order: int) -> None:
    """Along any line the output is a polynomial of that degree, and of no lower one."""
    torch.manual_seed(order)
    crossing = make_crossing(case, 7, 3, order)
    direction, start = torch.randn(2, 7, dtype=torch.float64)
    steps = torch.arange(order + 2, dtype=torch.float64).unsqueeze(1)
    values = crossing(start + steps * direction)
    scale = values.abs().max()
    assert torch.diff(values, n=order + 1, dim=0).abs().max() < 1e-9 * scale
    assert torch.diff(values, n=order, dim=0).abs().max() > 1e-6 * scale


@every_sparse_case
@pytest.mark.parametrize("order", [2, 3, 4])
def test_sparse_rows_equal_dense_ones_in_values_and_gradients(case: str, order: int) -> None:
    torch.manual_seed(order)
    crossing = make_crossing(case, 30, 4, order)
    dense = random_rows(8, 30, share=0.2)
    csr = to_csr(dense)
    weight = torch.randn(8, 4, dtype=torch.float64)
    results = []
    for x in (dense, csr, SparseMatrix.from_torch(csr)):
        out = crossing(x)
        results.append(
            (out, *torch.autograd.grad((out * weight).sum(), list(crossing.parameters())))
        )
    for result in results[1:]:
        for ours, expected in zip(result, results[0], strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", [case for case in ON_SPARSE_ROWS if case != "dcn-v2, full"])
def test_sparse_rows_are_never_made_dense(case: str) -> None:
    """Not even in a product; a full matrix is left out, its D² weights are more than the rows."""
    name, settings = CASES[case]
    rows, columns = 400, 5000
    crossing = make(name, columns, 2, 2, **settings)
    x = to_csr((torch.rand(rows, columns) < 0.001).float())
    with torch.profiler.profile(profile_memory=True) as profile:
        crossing(SparseMatrix.from_torch(x)).sum().backward()
    largest = max(event.cpu_memory_usage for event in profile.events() or [])
    assert largest < rows * columns * 4 / 4


@every_case
@pytest.mark.parametrize("order", [2, 3])
def test_gradients_are_those_of_finite_differences(case: str, order: int) -> None:
    torch.manual_seed(order)
    crossing = make_crossing(case, 4, 2, order)
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    names, values = zip(*crossing.named_parameters(), strict=True)

    def function(x: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        result: Tensor = torch.func.functional_call(crossing, state, (x,))
        return result

    assert torch.autograd.gradcheck(function, (x, *values))


@every_case
def test_rows_do_not_meet_and_leading_dimensions_are_kept(case: str) -> None:
    crossing = make_crossing(case, 6, 4, 3)
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    out = crossing(x)
    assert out.shape == (2, 3, 5, 4)
    order = torch.randperm(5)
    torch.testing.assert_close(crossing(x[1, 2][order]), out[1, 2][order])


@every_case
@pytest.mark.parametrize("order", [2, 3])
def test_the_linear_part_may_be_exchanged_with_aggregation(case: str, order: int) -> None:
    crossing = make_crossing(case, 6, 4, order)
    x, adjacency = random_rows(5, 6), torch.rand(7, 5, dtype=torch.float64)
    projections = crossing.project(x)
    assert projections.size(-1) == crossing.num_projections
    exchanged = crossing.combine(adjacency @ projections)
    torch.testing.assert_close(exchanged, crossing.transform(adjacency @ x))


@every_sparse_case
def test_sparse_rows_are_aggregated_first_through_projections_or_not_at_all(case: str) -> None:
    crossing = make_crossing(case, 6, 4, 3)
    x = random_rows(5, 6, share=0.5)
    layer = GraphConvolution(crossing, 4, aggregate_first=True, bias=False).double()
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    if case in THROUGH_PROJECTIONS:
        torch.testing.assert_close(layer(to_csr(x), edges), layer(x, edges))
    else:
        with pytest.raises(
            BadInput, match=r"--transform-first \(aggregate_first=False\).*x\.to_dense\(\)"
        ):
            layer(to_csr(x), edges)


@every_sparse_case
def test_several_models_side_by_side_are_each_of_them(case: str) -> None:
    crossings = [make_crossing(case, 9, 4, 3) for _ in range(3)]
    parts = [random_rows(rows, 9, share=0.5) for rows in (6, 4, 5)]
    together = make_crossing(case, 9, 4, 3)
    for name, _ in list(together.named_parameters()):
        # As stacking lays them out in memory, the last dimension before the others.
        values = [crossing.get_parameter(name).detach().movedim(-1, 0) for crossing in crossings]
        setattr(together, name, nn.Parameter(torch.stack(values).movedim(1, -1)))
    stacked = ModelBatchMatrix([SparseMatrix.from_scipy(part.numpy()) for part in parts])
    padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    for out in (together(stacked), together(padded)):
        for model, (crossing, part) in enumerate(zip(crossings, parts, strict=True)):
            torch.testing.assert_close(out[model, : len(part)], crossing(part))


@every_sparse_case
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("normalised", [True, False])
def test_rows_of_words_start_about_as_large_as_from_a_linear_layer(
    case: str, order: int, normalised: bool
) -> None:
    name, settings = CASES[case]
    torch.manual_seed(0)
    x = to_csr((torch.rand(200, 3703) < 0.009).float())
    crossing = make(name, 3703, 16, order, **settings)
    linear = nn.init.xavier_uniform_(torch.empty(16, 3703))
    given = row_normalise(x) if normalised else x
    ratio = crossing(given).norm() / (given @ linear.mT).norm()
    assert 0.5 < ratio < 2.0


@every_case
@pytest.mark.parametrize("order", [2, 4])
def test_gaussian_rows_start_about_as_large_as_from_a_linear_layer(case: str, order: int) -> None:
    name, settings = CASES[case]
    torch.manual_seed(0)
    x = torch.randn(500, 60)
    squares = []
    for _ in range(10):
        crossing = make(name, 60, 16, order, **settings)
        squares.append(crossing(x).square().mean() / (2 * 60 / (60 + 16)))
    assert 0.5 < torch.stack(squares).mean().sqrt() < 2.5


@every_case
def test_a_planted_cross_is_learnt(case: str) -> None:
    name, settings = CASES[case]
    torch.manual_seed(0)
    x = torch.randn(400, 6)
    y = (x[:, 0] * x[:, 1] > 0).long()
    crossing = make(name, 6, 2, 2, **settings)
    optimizer = torch.optim.Adam(crossing.parameters(), lr=0.03)
    losses = []
    for _ in range(250):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(crossing(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    accuracy = (crossing(x).argmax(1) == y).float().mean()
    assert losses[-1] < 0.5 * losses[0]
    assert accuracy > 0.85


@every_case
def test_saved_weights_bring_the_function_back(case: str) -> None:
    saved, restored = make_crossing(case, 6, 4, 3), make_crossing(case, 6, 4, 3)
    x = random_rows(5, 6)
    assert not torch.allclose(saved(x), restored(x))
    restored.load_state_dict(saved.state_dict())
    torch.testing.assert_close(restored(x), saved(x), rtol=0, atol=0)
    saved.reset_parameters()
    assert all((bias == 0).all() for bias in biases(saved))
    assert not torch.equal(saved(x), restored(x))


@every_case
def test_what_has_one_dimension_is_a_bias_and_nothing_else(case: str) -> None:
    """Weight decay goes by the number of dimensions."""
    for name, parameter in make_crossing(case, 6, 4, 3).named_parameters():
        assert (parameter.dim() == 1) == name.endswith("bias")


@every_sparse_case
def test_a_graph_layer_learns_with_it(case: str, small_graph: Data) -> None:
    name, settings = CASES[case]
    torch.manual_seed(0)
    transform = make(name, 24, 3, 2, **settings | {"bias": False})
    layer = GraphConvolution(transform, 3, cached=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        scores = layer(small_graph.x, small_graph.edge_index)
        nn.functional.cross_entropy(scores, small_graph.y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert (scores.argmax(1) == small_graph.y).float().mean() > 0.9


@every_case
def test_what_cannot_be_is_refused(case: str) -> None:
    name, settings = CASES[case]
    with pytest.raises(BadInput, match=r"rows of 6 features; got 5"):
        make(name, 6, 4, **settings)(torch.randn(3, 5))
    with pytest.raises(BadInput, match=r"in_channels must be a whole number .*got -1"):
        make(name, -1, 4, **settings)
    with pytest.raises(BadInput, match=r"at least 1 .*got 0"):
        make(name, 6, 4, 0, **settings)
