"""A graph folder as experiments take a dataset, with all that is large left on the disk."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.catalogue import CATALOGUE
from crossgcn.data.stored.changed_file import changed_file
from crossgcn.data.stored.stored_graph import StoredGraph, open_graph
from crossgcn.errors import BadInput

__all__ = ["is_opened", "open_dataset"]


def is_opened(dataset: str) -> bool:
    """Whether a dataset is a folder, and so can be opened instead of loaded."""
    return dataset not in CATALOGUE and Path(dataset).is_dir()


def open_dataset(folder: Path | str) -> Data:
    """What :func:`~crossgcn.data.load_dataset` gives, less features and edges.

    These are read from ``stored``, a few rows at a time, by training in batches; what classes
    and features mean is its ``preprocess``, and the nodes' names are its ``ids``.

    Args:
        folder: Made by ``crossgcn data import``.

    Raises:
        BadInput: If it is no whole graph folder, or has no labels or no features.
    """
    stored = open_graph(folder)
    if stored.num_features == 0 or int(stored.labels.max()) < 0:
        raise BadInput(
            f"{folder}: the nodes have no {'features' if stored.num_features == 0 else 'classes'}, "
            "and there is nothing to train on; import the graph with --nodes FILE --target COLUMN"
        )
    _check_range(stored, "labels", stored.labels, -1, stored.num_classes)
    if stored.roles is not None:
        _check_range(stored, "roles", stored.roles, 0, 4)
    classes = stored.num_classes
    num_classes = int(stored.labels.max()) + 1 if classes is None else classes
    named = num_classes if stored.preprocess is None else len(stored.preprocess.classes)
    if named != num_classes:
        raise BadInput(
            f"{folder}: {named} classes have names, but the nodes are of {num_classes}; store the "
            "graph again with a name for each"
        )
    return Data(
        y=stored.labels,
        roles=stored.roles,
        name=stored.name,
        num_classes=num_classes,
        num_nodes=stored.num_nodes,
        stored=stored,
    )


def _check_range(
    stored: StoredGraph, name: str, values: Tensor, lowest: int, end: int | None
) -> None:
    """Refuse an array of a folder that says what cannot be."""
    low, high = (int(value) for value in values.aminmax())
    if low < lowest or (end is not None and high >= end):
        what = f"holds {low} to {high} where {lowest} to {'…' if end is None else end - 1} may be"
        raise changed_file(stored.folder, name, what)
