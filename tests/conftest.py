import gc

from conftest_fixtures import crossgcn, graph_file, small_graph
from hypothesis import settings

__all__ = ["crossgcn", "graph_file", "small_graph"]

# Few examples keep the suite short; a busy machine may take its time for each.
settings.register_profile("crossgcn", max_examples=30, deadline=None)
settings.load_profile("crossgcn")


def pytest_collection_finish() -> None:
    """Leave what was imported out of all garbage collections: a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
