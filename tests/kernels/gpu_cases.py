"""The Triton kernels against plain PyTorch in float64; run by ``test_gpu.py``."""

import pytest
import torch
from torch import Tensor

from crossgcn.kernels import gpu, plain
from crossgcn.kernels.draws import Draws, keep
from crossgcn.kernels.gpu import rows as gpu_rows
from crossgcn.kernels.pattern import SEGMENT_LENGTH, Pattern, cut_into_segments

HERE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE)
UNEQUAL = [0, 1200, 1200, 1203, 1203, 2500]


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(dtype).to(HERE)


def assert_near(actual: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype == dtype
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


def random_pattern(lengths: list[int], num_columns: int, seed: int) -> Pattern:
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randint(num_columns, (int(offsets[-1]),), generator=generator)
    return Pattern(offsets, columns).to(HERE)


def exact_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    out = torch.zeros(pattern.num_rows, dense.size(1), dtype=torch.float64, device=HERE)
    row_of_entry = torch.arange(pattern.num_rows, device=HERE).repeat_interleave(
        pattern.row_offsets.diff()
    )
    terms = values.double().unsqueeze(1) * dense.double()[pattern.columns]
    return out.index_add_(0, row_of_entry, terms)


LENGTHS = {
    "empty rows": [0, 3, 0, 1, 9, 0],
    "no entry": [0, 0],
    "whole segments": [SEGMENT_LENGTH, 2 * SEGMENT_LENGTH, 5],
    "a heavy row": [2, 9 * SEGMENT_LENGTH + 7, 0, SEGMENT_LENGTH + 1, 17, 1, 1, 1, 2, 2],
}


@pytest.mark.parametrize(
    ("rows", "width"),
    [
        *(("empty rows", 1), ("empty rows", 64), ("no entry", 3), ("whole segments", 130)),
        *(("a heavy row", 3), ("a heavy row", 41), ("a heavy row", 64)),
    ],
)
def test_row_sums_add_what_each_row_names(rows: str, width: int) -> None:
    lengths = LENGTHS[rows]
    pattern = random_pattern(lengths, num_columns=11, seed=width)
    values = random(sum(lengths), seed=1)
    dense = random(11, width, seed=2)
    exact = exact_sums(pattern, values, dense)
    actual = gpu.row_sums(pattern, values, dense)
    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("width", "dtype"), [(5, torch.bfloat16), (48, torch.float32), (200, torch.bfloat16)]
)
def test_row_sums_of_what_no_cache_holds(
    width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_rows, "_CACHE", 0)
    lengths = [2, 2 * SEGMENT_LENGTH + 7, 0, 17, 1]  # an interpreted kernel is slow
    pattern = random_pattern(lengths, num_columns=11, seed=width)
    values, dense = random(sum(lengths), seed=1), random(11, width, seed=2, dtype=dtype)
    assert_near(gpu.row_sums(pattern, values, dense), exact_sums(pattern, values, dense), dtype)


def test_row_sums_of_half_precision_add_up_in_float32() -> None:
    # A sum kept in bfloat16 would stop growing at 256.
    pattern = random_pattern([1000, 3], num_columns=5, seed=0)
    values = torch.ones(1003, device=HERE)
    dense = torch.ones(5, 6, dtype=torch.bfloat16, device=HERE)
    actual = gpu.row_sums(pattern, values, dense)
    assert actual.dtype == torch.bfloat16
    assert actual.tolist() == [[1000.0] * 6, [3.0] * 6]


@pytest.mark.parametrize(
    ("shape", "length"), [((16, 2, 4, 2), 3), ((32, 16, 1, 1), 64), ((16, 1, 8, 4), 3)]
)
def test_row_sums_do_not_hang_on_how_work_is_shared_out(
    shape: tuple[int, int, int, int], length: int
) -> None:
    pattern = random_pattern([7, 0, 31, 2, 5], num_columns=9, seed=3)
    values, dense = random(45, seed=4), random(9, 33, seed=5)
    segments = cut_into_segments(pattern.row_offsets, length)
    actual = gpu_rows.launch_row_sums(
        pattern, segments, values, dense, gpu_rows.RowSumShape(*shape)
    )
    assert_near(actual, exact_sums(pattern, values, dense), torch.float32)


def test_segments_cover_each_entry_once_and_start_with_the_longest() -> None:
    pattern = random_pattern([3, 0, 30, 7, 14], num_columns=9, seed=6)
    segments = cut_into_segments(pattern.row_offsets, 7)
    lengths = segments.end - segments.begin
    assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
    covered = [
        (row, entry)
        for row, begin, end in zip(
            segments.row.tolist(), segments.begin.tolist(), segments.end.tolist(), strict=True
        )
        for entry in range(begin, end)
    ]
    offsets = pattern.row_offsets.tolist()
    rows = [(row, e) for row in range(5) for e in range(offsets[row], offsets[row + 1])]
    assert sorted(covered) == rows


def draws_of(num_models: int, step: int, site: int) -> Draws:
    seeds = torch.tensor([2**32 - 1, 0, 7, 123456789, 2**31][:num_models], device=HERE)
    return Draws(seeds, torch.tensor(step, device=HERE), site)


@pytest.mark.parametrize("p", [0.1, 0.9])
@pytest.mark.parametrize(
    ("entries", "num_models", "starts"),
    [(1500, 1, None), (2500, 5, None), (2100, 3, None), (5, 5, None), (2500, 5, UNEQUAL)],
    ids=["one model", "equal", "equal of 700", "one entry each", "unequal"],
)
def test_the_same_entries_are_dropped_as_everywhere(
    entries: int, num_models: int, starts: list[int] | None, p: float
) -> None:
    draws = draws_of(num_models, step=2**31 + 5, site=3)
    where = None if starts is None else torch.tensor(starts, device=HERE)
    ones = torch.ones(entries, device=HERE)
    expected = keep(draws, where, entries, p).bool()
    assert torch.equal(gpu.drop(ones, where, draws, p, False) != 0, expected)
    assert torch.equal(gpu.drop_backward(ones, ones, where, draws, p, True) != 0, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activate", [False, True])
@pytest.mark.parametrize("starts", [None, UNEQUAL])
def test_drop_and_its_gradient_equal_the_plain_ones(
    starts: list[int] | None, activate: bool, dtype: torch.dtype
) -> None:
    draws = draws_of(5, step=1, site=1)
    where = None if starts is None else torch.tensor(starts, device=HERE)
    x, gradient = random(50, 50, seed=1, dtype=dtype), random(50, 50, seed=2, dtype=dtype)
    x[3, :7] = 0.0
    exact = plain.drop(x.double(), where, draws, 0.3, activate)
    assert_near(gpu.drop(x, where, draws, 0.3, activate), exact, dtype)
    exact = plain.drop_backward(gradient.double(), x.double(), where, draws, 0.3, activate)
    assert_near(gpu.drop_backward(gradient, x, where, draws, 0.3, activate), exact, dtype)


def test_a_number_gone_wrong_is_not_hidden_by_the_activation() -> None:
    x = torch.tensor([float("nan"), -1.0, 1.0], device=HERE)
    dropped = gpu.drop(x, None, draws_of(1, step=0, site=0), 0.0, True)
    assert torch.isnan(dropped).tolist() == [True, False, False]


def test_step_may_be_a_vector_of_one_and_x_a_transposed_view() -> None:
    draws = Draws(torch.tensor([4], device=HERE), torch.tensor([9], device=HERE), 0)
    x = random(6, 4, seed=3).t()
    expected = plain.drop(x.double(), None, draws, 0.5, True)
    assert_near(gpu.drop(x, None, draws, 0.5, True), expected, torch.float32)


@pytest.mark.parametrize("first_is_one", [False, True])
@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize(
    ("order", "channels", "dtype"),
    [
        *((1, 3, torch.float32), (2, 41, torch.bfloat16), (3, 64, torch.float32)),
        *((4, 5, torch.bfloat16), (2, 130, torch.float32), (8, 2, torch.float32)),
    ],
)
def test_cross_and_its_gradients_equal_the_plain_ones(
    order: int, channels: int, release: bool, first_is_one: bool, dtype: torch.dtype
) -> None:
    models, rows = 2, 19
    projections = random(models, rows, order * channels, seed=1, dtype=dtype)
    weights = random(models, order, seed=2)
    gradient = random(models, rows, channels, seed=3, dtype=dtype)
    exact = plain.cross(projections.double(), weights.double(), release, first_is_one)
    assert_near(gpu.cross(projections, weights, release, first_is_one), exact, dtype)

    for_projections, for_weights = plain.cross_backward(
        gradient.double(), projections.double(), weights.double(), release, True, first_is_one
    )
    actual, actual_weights = gpu.cross_backward(
        gradient, projections, weights, release, True, first_is_one
    )
    assert_near(actual, for_projections, dtype)
    assert for_weights is not None
    assert actual_weights is not None
    torch.testing.assert_close(actual_weights.double(), for_weights, rtol=1e-4, atol=1e-4)
    alone, none = gpu.cross_backward(gradient, projections, weights, release, False, first_is_one)
    assert torch.equal(alone, actual)
    assert none is None


def test_nothing_to_do_is_done() -> None:
    draws = draws_of(2, step=0, site=0)
    nothing, weights = torch.empty(2, 0, 6, device=HERE), torch.ones(2, 3, device=HERE)
    assert gpu.drop(nothing, None, draws, 0.5, True).shape == (2, 0, 6)
    assert gpu.cross(nothing, weights, False).shape == (2, 0, 2)
    _, for_weights = gpu.cross_backward(nothing[..., :2], nothing, weights, False, True)
    assert for_weights is not None
    assert for_weights.tolist() == [[0.0] * 3] * 2
    pattern = Pattern(torch.tensor([0]), torch.tensor([], dtype=torch.long)).to(HERE)
    values, dense = torch.ones(0, device=HERE), torch.ones(4, 3, device=HERE)
    assert gpu.row_sums(pattern, values, dense).shape == (0, 3)


@pytest.mark.skipif(HERE == "cpu", reason="graphs are captured on a GPU")
def test_all_may_be_captured_in_a_graph_and_follow_the_step() -> None:
    pattern = random_pattern(LENGTHS["a heavy row"], num_columns=10, seed=1)
    values, dense = random(pattern.columns.numel(), seed=2), random(10, 8, seed=3)
    weights = random(1, 2, seed=4)
    draws = draws_of(1, step=0, site=0)

    def work() -> tuple[Tensor, Tensor, Tensor]:
        dropped = gpu.drop(gpu.row_sums(pattern, values, dense), None, draws, 0.5, True)
        crossed = gpu.cross(dropped[None], weights, False)
        backward, for_weights = gpu.cross_backward(crossed, dropped[None], weights, False, True)
        assert for_weights is not None
        return dropped, backward, for_weights

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = work()
    for step in (5, 6):
        draws.step.fill_(step)
        graph.replay()
        for actual, expected in zip(captured, work(), strict=True):
            assert torch.equal(actual, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_judged_as_plain_ones_are(dtype: torch.dtype) -> None:
    scores = random(3, 50, 8, seed=4, dtype=dtype)
    labels = torch.arange(150).view(3, 50).remainder(6).to(HERE)
    labels[1, 20:] = -1
    counts = (labels >= 0).sum(1)
    losses, accuracies, gradient = gpu.score(scores, labels, counts, 6)
    exact = plain.score(scores.double(), labels, counts, 6)
    torch.testing.assert_close(losses.double(), exact[0], rtol=1e-5, atol=1e-6)
    assert torch.equal(accuracies, exact[1])
    assert_near(gradient, exact[2], dtype)
    turned = (
        scores.mT.contiguous().mT,
        labels.t().contiguous().t(),
        counts.repeat_interleave(2)[::2],
    )
    for actual, expected in zip(gpu.score(*turned, 6), (losses, accuracies, gradient), strict=True):
        assert torch.equal(actual, expected)


def test_adam_is_that_of_pytorch() -> None:
    sizes, decays = (3000, 1, 1024), (0.1, 0.0, 0.2)
    weights = [random(size, seed=5) for size in sizes]
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    counts = [torch.zeros((), device=HERE) for _ in sizes]
    others = [weight.clone().requires_grad_() for weight in weights]
    groups = [{"params": [w], "weight_decay": d} for w, d in zip(others, decays, strict=True)]
    theirs = torch.optim.Adam(groups, lr=0.03)
    for step in range(5):
        slopes = [random(size, seed=6 + step) for size in sizes]
        torch._foreach_add_(counts, 1)
        gpu.adam(weights, slopes, means, squares, counts, 0.03, decays)
        for weight, slope in zip(others, slopes, strict=True):
            weight.grad = slope
        theirs.step()
        for weight, other in zip(weights, others, strict=True):
            torch.testing.assert_close(weight, other.detach(), rtol=1e-6, atol=1e-7)
