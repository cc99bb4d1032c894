from collections.abc import Iterator

import pytest
import torch
from conftest_fixtures import crossgcn, graph_file, small_graph

__all__ = ["crossgcn", "graph_file", "one_thread", "small_graph"]


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one torch thread: on tiny graphs two are slower, above all on a busy machine.

    Peers are traced as for ``torch.compile``, but no C++ is compiled, which takes long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("cpu_step", "cpu_protocol"):
        monkeypatch.setattr(f"research.benchmarks.{name}.available_cores", lambda: 1)
    monkeypatch.setattr("research.benchmarks.harness.peer_training.BACKEND", "aot_eager")
    yield
    torch.set_num_threads(before)
