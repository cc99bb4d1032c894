"""Load a dataset by its name or its path."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES
from crossgcn.data.datasets.generated import citeseer_cross, reddit400k_shaped
from crossgcn.data.datasets.planetoid import read_bundled_citeseer, read_planetoid
from crossgcn.data.datasets.registry import locate, planetoid_not_here
from crossgcn.data.features import row_normalise
from crossgcn.data.graph_file import read_graph
from crossgcn.errors import unknown_name


def load_dataset(name_or_path: str | Path, seed: int = 0) -> Data:
    """Load a graph; nothing is downloaded.

    Rows of Planetoid's features are normalised to sum 1; other features are left as they are.
    Datasets of tables are encoded as :func:`~crossgcn.data.load_real` does, which also returns
    the names of their features and classes.

    Args:
        name_or_path: One of :data:`~crossgcn.data.DATASET_NAMES`, or a graph file ending in
            ``.npz`` (see :mod:`crossgcn.data.graph_file`).
        seed: Of the generated datasets.

    Returns:
        ``x``, ``edge_index`` (unique, and undirected unless ``directed`` is true), ``y`` (-1
        for unlabelled), ``num_classes``, ``name`` and, where there are any, ``edge_weight``
        and ``roles``.
    """
    path = Path(name_or_path)
    if path.suffix == ".npz":
        return read_graph(path)
    name = str(name_or_path)
    if name in TABLES:
        from crossgcn.data.datasets.real import load_real

        return load_real(name).data
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, [*DATASET_NAMES, "FILE.npz"])
    if name == "reddit400k-shaped":
        return reddit400k_shaped(seed)
    if name.startswith("citeseer-cross"):
        order = {"citeseer-cross": 2, "citeseer-cross-3": 3, "citeseer-cross-4": 4}[name]
        return citeseer_cross(order, seed)
    if name == "citeseer":
        data = read_bundled_citeseer()
    else:
        folder = locate(name)
        if folder is None:
            raise planetoid_not_here(name)
        data = read_planetoid(folder, name)
    data.x = row_normalise(data.x)
    return data
