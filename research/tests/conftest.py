"""The fixtures of the package's own tests serve the tests of research too."""

from conftest_fixtures import crossgcn, graph_file, small_graph

__all__ = ["crossgcn", "graph_file", "small_graph"]
