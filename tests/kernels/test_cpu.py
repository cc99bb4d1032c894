from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from crossgcn.kernels import ops, plain
from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.pattern import Pattern

cpu = pytest.importorskip("crossgcn.kernels.cpu")
cpu_loops = pytest.importorskip("crossgcn.kernels.cpu.loops")
hop_loops = pytest.importorskip("crossgcn.kernels.cpu.hop_loops")


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def draws_of(models: int, step: int = 2**31 + 5, site: int = 3) -> Draws:
    seeds = torch.tensor([2**32 - 1, 0, 7, 123456789, 2**31][:models])
    return Draws(seeds, torch.tensor(step), site)


def assert_near(actual: Tensor, exact: Tensor, tolerance: float = 1e-5) -> None:
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


ragged = st.lists(st.integers(0, 90), min_size=1, max_size=5)
rates = st.sampled_from([0.0, 0.1, 0.5, 0.9])


@given(lengths=ragged, p=rates, activate=st.booleans(), seed=st.integers(0, 2**16))
def test_drop_and_its_gradient_equal_the_plain_ones(
    lengths: list[int], p: float, activate: bool, seed: int
) -> None:
    starts, draws = torch.tensor([0, *lengths]).cumsum(0), draws_of(len(lengths))
    x, gradient = random(sum(lengths), seed=seed), random(sum(lengths), seed=seed + 1)
    x[::7] = 0.0
    exact = plain.drop(x.double(), starts, draws, p, activate)
    assert_near(cpu.drop(x, starts, draws, p, activate), exact)
    exact = plain.drop_backward(gradient.double(), x.double(), starts, draws, p, activate)
    assert_near(cpu.drop_backward(gradient, x, starts, draws, p, activate), exact)


@given(lengths=ragged, p=rates, step=st.integers(0, 2**32 - 1), site=st.integers(0, 9))
def test_the_same_entries_are_dropped_as_everywhere(
    lengths: list[int], p: float, step: int, site: int
) -> None:
    starts, draws = torch.tensor([0, *lengths]).cumsum(0), draws_of(len(lengths), step, site)
    ones = torch.ones(sum(lengths))
    expected = keep(draws, starts, ones.numel(), p).bool()
    assert torch.equal(cpu.drop(ones, starts, draws, p, False) != 0, expected)
    assert torch.equal(cpu.drop_backward(ones, ones, starts, draws, p, True) != 0, expected)


def test_models_of_one_size_need_no_starts_and_x_may_be_a_view() -> None:
    x, draws = random(6, 4, seed=3).t(), draws_of(2)
    exact = plain.drop(x.double(), None, draws, 0.5, True)
    assert_near(cpu.drop(x, None, draws, 0.5, True), exact)


@given(
    order=st.integers(1, 5),
    models=st.integers(1, 3),
    rows=st.sampled_from([1, 5, 63, 64, 65, 130]),
    channels=st.integers(1, 9),
    release=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_cross_and_its_gradients_equal_the_plain_ones(
    order: int, models: int, rows: int, channels: int, release: bool, seed: int
) -> None:
    projections = random(models, rows, order * channels, seed=seed)
    weights = random(models, order, seed=seed + 1)
    gradient = random(models, rows, channels, seed=seed + 2)
    exact = plain.cross(projections.double(), weights.double(), release)
    assert_near(cpu.cross(projections, weights, release), exact, 1e-4)
    for_projections, for_weights = plain.cross_backward(
        gradient.double(), projections.double(), weights.double(), release, True
    )
    actual, actual_weights = cpu.cross_backward(gradient, projections, weights, release, True)
    assert_near(actual, for_projections, 1e-4)
    assert_near(actual_weights, for_weights, 1e-3)  # type: ignore[arg-type]
    alone, none = cpu.cross_backward(gradient, projections, weights, release, False)
    assert torch.equal(alone, actual)
    assert none is None


def test_a_sum_over_many_rows_keeps_its_digits() -> None:
    """One running float32 sum over these rows would stop growing long before the end."""
    rows = 30_000
    projections, gradient = torch.full((1, rows, 2), 0.1), torch.ones(1, rows, 1)
    _, sums = cpu.cross_backward(gradient, projections, torch.ones(1, 2), False, True)
    assert sums[0].tolist() == pytest.approx([0.1 * rows, 0.01 * rows], rel=2e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("activate", [False, True])
def test_a_number_gone_wrong_is_not_hidden(activate: bool, bad: float) -> None:
    x, draws = torch.full((64,), bad), draws_of(1)
    kept = keep(draws, None, 64, 0.5).bool()
    torch.testing.assert_close(
        cpu.drop(x, None, draws, 0.5, activate)[kept], x[kept], equal_nan=True
    )
    back = cpu.drop_backward(x, torch.ones(64), None, draws, 0.5, activate)
    torch.testing.assert_close(back[kept], x[kept], equal_nan=True)
    for order in (1, 2, 3):
        projections = torch.ones(1, 4, 2 * order)
        projections[0, 2, -1] = bad
        weights = torch.ones(1, order)
        wrong = ~cpu.cross(projections, weights, False).isfinite()
        assert wrong[0].tolist() == [[False] * 2, [False] * 2, [False, True], [False] * 2]
        gradient = projections[..., -2:].contiguous()
        ones = torch.ones_like(projections)
        back, sums = cpu.cross_backward(gradient, ones, weights, False, True)
        assert (~back[0, 2].isfinite()).tolist() == [False, True] * order
        assert not sums.isfinite().any()


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, gradient = random(500, 41, seed=1), random(500, 41, seed=2)
    projections, weights = random(2, 333, 60, seed=3), random(2, 3, seed=4)
    back, draws = random(2, 333, 20, seed=5), draws_of(2)
    starts = torch.tensor([0, 9000, 500 * 41])
    hops = [random(2, 24, 333, seed=10), random(1, 24, seed=11), random(3, 24, seed=12)]
    bias, slope = random(4, 3, seed=13), random(4, 3, 333, seed=14)

    def fill(kernel: object, given: list[Tensor], filled: list[Tensor]) -> list[Tensor]:
        results = [torch.empty_like(each) for each in filled]
        cpu_loops.call(kernel, 5000, *(each.numpy() for each in (*given, *results)))
        return results

    def results() -> list[Tensor]:
        for_projections, sums = cpu.cross_backward(back, projections, weights, True, True)
        trained = [random(5000, seed=seed) for seed in (6, 7, 8)]
        trained.append(random(5000, seed=9).abs())
        arrays = [tensor.numpy() for tensor in trained]
        cpu_loops.call(cpu_loops.adam, 5000, *arrays, *map(weights.numpy().dtype.type, (1, 2, 3)))
        return [
            cpu.drop(x, starts, draws, 0.5, True),
            cpu.drop_backward(gradient, x, starts, draws, 0.5, True),
            cpu.cross(projections, weights, True),
            for_projections,
            sums,
            *trained,
            *fill(hop_loops.score_units, [*hops, bias], [slope]),
            *fill(hop_loops.score_units_backward, [slope, *hops], [*hops, bias]),
        ]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results()
        monkeypatch.setattr(cpu_loops, "_SHARED_FROM", 1)
        torch.set_num_threads(2)
        shared, again = results(), results()
    finally:
        torch.set_num_threads(before)
    for one, two, three in zip(alone, shared, again, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(two, three)


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=7),
    heads=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 2**16),
)
def test_attention_and_its_gradients_equal_the_plain_ones(
    lengths: list[int], heads: int, seed: int
) -> None:
    """Weights may be negative or zero, and rows empty."""
    draw = torch.Generator().manual_seed(seed)
    offsets, edges = torch.tensor([0, *lengths]).cumsum(0), sum(lengths)
    pattern = Pattern(offsets, torch.randint(9, (edges,), generator=draw))
    values = torch.randint(-1, 3, (edges,), generator=draw).float()
    inputs = [random(9, 8, seed=seed), random(len(lengths), 8, seed=seed + 1)]
    inputs = [each.requires_grad_() for each in (*inputs, random(heads, 8 // heads, seed=seed + 2))]
    exact_inputs = [each.detach().double().requires_grad_() for each in inputs]
    x, own, attention = inputs
    ours = ops.attend(pattern, values, x, own, attention, 0.2)
    x, own, attention = exact_inputs
    exact = plain.attend(pattern, values, x, own, attention, 0.2)
    assert_near(ours.detach(), exact.detach())
    gradient = random(*ours.shape, seed=seed + 3)
    found = torch.autograd.grad(ours, inputs, gradient)
    wanted = torch.autograd.grad(exact, exact_inputs, gradient.double())
    for one, other in zip(found, wanted, strict=True):
        assert_near(one, other, 1e-4)
