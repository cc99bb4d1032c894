"""Load a graph by its name or its path."""

from __future__ import annotations

import pickle
from collections import defaultdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES, locate_files
from crossgcn.data.datasets.generated import plant_crosses, reddit400k_shaped
from crossgcn.data.features import csr_tensor, row_normalise
from crossgcn.data.graph import read_graph
from crossgcn.errors import unknown_name

NUM_VALIDATION = 500
"""Validation nodes of Planetoid's public split: the rows after the training rows."""


def load_dataset(name_or_path: str | Path, seed: int = 0) -> Data:
    """Load a graph; nothing is downloaded.

    Rows of Planetoid's features are normalised to sum 1; other features are left as they are.
    Datasets of tables are encoded as :func:`~crossgcn.data.load_real` does, which also returns
    the names of their features and classes.

    Args:
        name_or_path: One of :data:`~crossgcn.data.DATASET_NAMES`, or a graph file ending in
            ``.npz`` (see :mod:`crossgcn.data.graph`).
        seed: Seed of the generated datasets.

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
    if CATALOGUE[name].origin == "generated":
        order = {"citeseer-cross": 2, "citeseer-cross-3": 3, "citeseer-cross-4": 4}[name]
        return citeseer_cross(order, seed)
    data = read_bundled_citeseer() if name == "citeseer" else read_planetoid(name)
    data.x = row_normalise(data.x)
    return data


def citeseer_cross(order: int = 2, seed: int = 0) -> Data:
    """Return Citeseer with features drawn by :func:`~crossgcn.data.plant_crosses`.

    The command line uses seed 0; ``crossgcn data get citeseer-cross --seed N --out DIR`` writes
    another draw to a file.

    NOTE[D8]: the paper's label rate is 0.036, and the release has no script for this graph, so
    results are reported with 20 training nodes per class and with all.
    """
    data = read_bundled_citeseer()
    generator = torch.Generator().manual_seed(seed)
    data.x = plant_crosses(data.y, data.num_classes, order, generator=generator)
    data.name = "citeseer-cross" if order == 2 else f"citeseer-cross-{order}"
    return data


def read_bundled_citeseer() -> Data:
    """Read the Citeseer in this package, with binary features and the public split."""
    with as_file(files("crossgcn.data.datasets") / "citeseer.npz") as path:
        return read_graph(path)


def read_planetoid(name: str) -> Data:
    """Read a Planetoid graph from its eight files, whose SHA-256 is checked first.

    Citeseer's ``test.index`` skips 15 numbers in its range: nodes with edges but without features
    and labels. Nodes whose one-hot label is all zero are unlabelled (``y = -1``).

    Args:
        name: ``"citeseer"``, ``"cora"`` or ``"pubmed"``.

    Returns:
        ``x`` (sparse CSR, not normalised), ``edge_index`` (undirected, unique, sorted, with
        self-loops), ``y``, ``num_classes``, ``name``, and the public split as ``roles`` [1, N].
    """
    *pickles, test_index = locate_files(name)
    x, _, tx, ty, allx, ally, graph = map(_unpickle, pickles)
    test = np.loadtxt(test_index, dtype=np.int64)
    first_test, num_nodes = len(ally), int(test.max()) + 1

    # The nodes that test.index skips get the last row, which is empty.
    row_of_node = np.full(num_nodes, first_test + len(test))
    row_of_node[:first_test] = np.arange(first_test)
    row_of_node[test] = first_test + np.arange(len(test))
    empty = sparse.csr_matrix(np.zeros((1, allx.shape[1]), np.float32))
    features = sparse.vstack([allx, tx, empty], "csr", np.float32)[row_of_node]
    features.sum_duplicates()
    one_hot = np.vstack([ally, ty, np.zeros_like(ty[:1])])[row_of_node]

    roles = np.zeros((1, num_nodes), np.int8)
    roles[0, : x.shape[0]] = 1
    roles[0, x.shape[0] : first_test][:NUM_VALIDATION] = 2
    roles[0, test] = 3

    pairs = [(node, neighbour) for node, near in graph.items() for neighbour in near]
    return Data(
        x=csr_tensor(features.indptr, features.indices, features.data, features.shape),
        edge_index=to_undirected(torch.tensor(pairs).t(), num_nodes=num_nodes),
        # NOTE[D7]: a plain argmax would turn an all-zero row into class 0.
        y=torch.from_numpy(np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)),
        roles=torch.from_numpy(roles),
        name=name,
        num_classes=one_hot.shape[1],
        num_nodes=num_nodes,
    )


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        return _Unpickler(file, encoding="latin1").load()


_ALLOWED = {
    "numpy.core.multiarray._reconstruct": np.empty(0).__reduce__()[0],
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "scipy.sparse.csr.csr_matrix": sparse.csr_matrix,
    "collections.defaultdict": defaultdict,
    "__builtin__.list": list,
}


class _Unpickler(pickle.Unpickler):
    """Reads pickles of Python 2 that only use the allowed classes and functions."""

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a Planetoid file")
        return _ALLOWED[f"{module}.{name}"]
