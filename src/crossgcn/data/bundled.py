"""The graph that ships with the package: Citeseer, in the project's own format.

``scripts/bundle_citeseer.py`` builds ``citeseer.npz``; see NOTICE for its origin.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from torch_geometric.data import Data

from crossgcn.data.archive import read_graph

__all__ = ["read_bundled_citeseer"]


def read_bundled_citeseer() -> Data:
    """Citeseer with raw binary features and Planetoid's public split."""
    with as_file(files("crossgcn.data") / "citeseer.npz") as path:
        return read_graph(path)
