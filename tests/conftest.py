from conftest_fixtures import crossgcn, graph_file, small_graph

__all__ = ["crossgcn", "graph_file", "small_graph"]
