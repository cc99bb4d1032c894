"""A dataset by name or by path, ready for a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, CatalogueEntry
from crossgcn.data.datasets.citeseer_cross import citeseer_cross, citeseer_cross_pairs
from crossgcn.data.datasets.drawn_graphs import reddit400k_shaped
from crossgcn.data.datasets.graphsage import GRAPH_ENDING, read_graphsage
from crossgcn.data.datasets.planetoid import read_bundled_citeseer, read_planetoid
from crossgcn.data.datasets.registry import available, locate, not_here
from crossgcn.data.features import row_normalise
from crossgcn.data.graph_file import read_graph
from crossgcn.data.stored.open import open_graph
from crossgcn.errors import unknown_name

__all__ = ["CATALOGUE", "DATASET_NAMES", "CatalogueEntry", "available", "load_dataset"]

_GENERATORS: dict[str, Callable[[int], Data]] = {
    "citeseer-cross": lambda seed: citeseer_cross(order=2, seed=seed),
    "citeseer-cross-3": lambda seed: citeseer_cross(order=3, seed=seed),
    "citeseer-cross-4": lambda seed: citeseer_cross(order=4, seed=seed),
    "citeseer-cross-pairs": citeseer_cross_pairs,
    "reddit400k-shaped": reddit400k_shaped,
}


def load_dataset(name_or_path: str | Path, seed: int = 0) -> Data:
    """Load a graph with features as models take them. Nothing is downloaded.

    Planetoid's features are divided by their row sums; generated ones and the
    features of a user's own ``.npz`` file are left as they are.

    Args:
        name_or_path: One of :data:`DATASET_NAMES`; a graph file ending in ``.npz``
            (see :mod:`crossgcn.data.graph_file`); one ending in ``-G.json``, with
            GraphSAGE's other three beside it (see :mod:`crossgcn.data.datasets.graphsage`); or a
            graph folder (see :mod:`crossgcn.data.stored`), which is read as a whole.
        seed: Which draw, for the generated ones.

    Returns:
        ``x``, ``edge_index`` (unique, undirected unless ``directed`` is there and true),
        ``y`` (-1 unlabelled), ``num_classes``, ``name`` and, where there are any,
        ``edge_weight`` and ``roles``.

    Raises:
        BadInput: Unknown name, unusable file, or a dataset that is not on this
            machine; the message then names ``crossgcn data get``.
    """
    path = Path(name_or_path)
    if path.suffix == ".npz":
        return read_graph(path)
    if path.name.endswith(GRAPH_ENDING):
        return read_graphsage(path.parent, path.name.removesuffix(GRAPH_ENDING))
    name = str(name_or_path)
    if name not in CATALOGUE and path.is_dir():
        return open_graph(path).to_data()
    if name not in CATALOGUE:
        others = ("FILE.npz", f"NAME{GRAPH_ENDING}", "FOLDER")
        raise unknown_name("dataset", name, [*DATASET_NAMES, *others])
    if name in _GENERATORS:
        return _GENERATORS[name](seed)
    data = read_bundled_citeseer() if name == "citeseer" else _read_located(name)
    data.x = row_normalise(data.x)
    return data


def _read_located(name: str) -> Data:
    folder = locate(name)
    if folder is None:
        raise not_here(name)
    return read_planetoid(folder, name)
