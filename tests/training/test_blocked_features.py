from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from architectures import graph_of, make, one_thread  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from test_compiled_step import COMPILED, assert_steps_are_exact, training
from torch_geometric.data import Data

from crossgcn.graph import SparseMatrix
from crossgcn.kernels.draws import Draws
from crossgcn.kernels.plain import drop
from crossgcn.training.compiled import blocked_features
from crossgcn.training.compiled import network as compiled_network
from crossgcn.training.compiled.blocked_features import BlockedFeatures


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sparse first layer is wide, and its weight goes by in several blocks."""
    monkeypatch.setattr(compiled_network, "_WIDE_FROM", 0)
    monkeypatch.setattr(blocked_features, "_WEIGHTS_PER_BLOCK", 80)
    monkeypatch.setattr(blocked_features, "_ENTRIES_PER_BLOCK", 40)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dropout", [0.5, 0.0])
@pytest.mark.parametrize("architecture", COMPILED)
def test_steps_in_blocks_are_those_of_autograd_and_torchs_adam(
    architecture: str, dropout: float, small_graph: Data
) -> None:
    model = make(architecture, small_graph, seed=1, dropout=dropout)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    step = training(model, graph_of(architecture, small_graph), small_graph)
    assert step._compiled is not None and step._compiled.network.is_wide
    assert_steps_are_exact(step)


@pytest.mark.usefixtures("small_blocks")
def test_the_number_of_threads_changes_no_bit(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossgcn.kernels.cpu.loops._SHARED_FROM", 0)
    states = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        step = training(
            make("cross-gcn", small_graph, seed=1), graph_of("cross-gcn", small_graph), small_graph
        )
        for _ in range(3):
            step()
        states.append(step.states[0])
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 30),
    width=st.integers(1, 5),
    density=st.sampled_from([0.0, 0.1, 0.6]),
    p=st.sampled_from([0.0, 0.3]),
    per_block=st.integers(1, 40),
    seed=st.integers(0, 2**16),
)
def test_blocks_hold_each_column_once_and_sum_to_the_gradient(
    rows: int, columns: int, width: int, density: float, p: float, per_block: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < density)
    matrix = SparseMatrix.from_scipy(sp.csr_array(x.astype(np.float32)))
    slopes = random.normal(size=(rows, width)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked_features, "_WEIGHTS_PER_BLOCK", per_block)
        patch.setattr(blocked_features, "_ENTRIES_PER_BLOCK", per_block)
        source = BlockedFeatures(matrix, width)
        source.drop((seed, 3), p)
        gradient = np.full((columns, width), np.nan)

        def put(first: int, last: int, part: np.ndarray) -> None:
            assert np.isnan(gradient[first:last]).all() and part.shape == (last - first, width)
            gradient[first:last] = part

        source.each_gradient(slopes, put)
    draws = Draws(torch.tensor([seed]), torch.tensor(3), 0)
    left = drop(matrix.values, None, draws, p, False)
    np.testing.assert_allclose(source.current[2], left.numpy(), rtol=1e-6)
    dense = matrix.with_values(left.double()).to_scipy().toarray()
    np.testing.assert_allclose(gradient, dense.T @ slopes.astype(np.float64), rtol=1e-4, atol=1e-5)


def test_frequent_columns_at_the_front_do_not_share_one_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocked_features, "_ENTRIES_PER_BLOCK", 1 << 16)
    counts = np.array([200_000, 150_000, 70_000, *[10] * 10_000])
    bounds = blocked_features._block_bounds(np.concatenate([[0], counts.cumsum()]), 8192)
    work = np.add.reduceat(counts, bounds[:-1])
    assert bounds[0] == 0 and bounds[-1] == counts.size
    assert set(bounds[:4]) >= {0, 1, 2} and work[3:].max() <= (1 << 16) + 10
    assert np.diff(bounds).max() <= 8192
