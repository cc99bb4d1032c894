"""From files or arrays of edges, and a table of nodes, to a graph folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.adopt import adopt_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.stored.building_folder import check_target
from crossgcn.data.stored.graph_writer import MEMORY_LIMIT, Progress, writing_graph
from crossgcn.data.stored.import_files import import_files
from crossgcn.data.stored.stored_graph import StoredGraph, open_graph
from crossgcn.data.tables.graph import as_matrix
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput

__all__ = ["build_graph", "store_graph"]

Chunk = Sequence[NDArray[Any]]
"""Sources, targets and, if there are any, weights of some edges."""

CHUNK = 1 << 18


def build_graph(
    edges: Path | str | Sequence[Path | str] | NDArray[Any] | Iterable[Chunk],
    nodes: Path | str | pd.DataFrame | None = None,
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    num_nodes: int | None = None,
    directed: bool = False,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> StoredGraph:
    """Make a graph folder, in memory that does not grow with the number of edges.

    Edges become undirected and unique, unless ``directed``; one given more than once weighs
    the mean of its weights. From files, self-loops are left out, as everywhere with tables;
    from arrays they are kept, as in ``.npz`` files. The folder is there when all is done and
    not at all otherwise.

    A table of nodes is encoded as for training on tables, and for that it is read as a whole.

    Args:
        edges: A file, CSV or TSV (also ``.gz``) or Parquet, a row an edge; several with the
            same headers; an array ``[2, edges]``; or pieces ``(sources, targets)`` or
            ``(sources, targets, weights)``, read once.
        nodes: A table, a row a node. Without one, ends of edges are numbers from 0.
        out: The folder to make, new or empty.
        choices: What the columns of the tables are; found by looking where not said.
        num_nodes: How many nodes there are, where no table says so; one more than the highest
            end if left out.
        directed: An edge counts for its second end alone.
        memory_limit: Bytes that sorting may take, though never less than about 32 MiB; the
            rest is done on disk.
        progress: Told what is being done, how much of it is done, and of how much.
        on_warning: Told what may be wrong with a file, though it can be read.

    Raises:
        BadInput: What cannot be read, or an end that is no node: file, row, value, remedy.
        WorkFailed: The disk is too small, or got full.
    """
    out = Path(out)
    options: dict[str, Any] = {
        "directed": directed,
        "memory_limit": memory_limit,
        "progress": progress,
    }
    check_target(out)
    files = _as_files(edges)
    if files is not None:
        options["on_warning"] = on_warning
        import_files(files, nodes, out, choices or TableChoices(), num_nodes, **options)
        return open_graph(out)
    if nodes is not None or choices is not None:
        raise BadInput("tables of nodes go with files of edges: give the edges as a file as well")
    chunks = iter(_as_chunks(edges))
    first = next(chunks, None)
    weighted = first is not None and len(first) == 3
    with writing_graph(out, num_nodes=num_nodes, weighted=weighted, **options) as writer:
        for chunk in chain([] if first is None else [first], chunks):
            writer.add_edges(*chunk)
    return open_graph(out)


def store_graph(
    data: Data,
    out: Path | str,
    *,
    preprocess: Preprocess | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> StoredGraph:
    """Write a graph to a folder; ``to_data`` gives it back as adopted.

    Args:
        data: What :func:`~crossgcn.data.adopt_graph` accepts.
        out: The folder to make, new or empty.
        preprocess: Names of classes and features, where they have any.
        memory_limit: Bytes that sorting may take.
    """
    out = Path(out)
    check_target(out)
    data = adopt_graph(data, "the graph to store")
    weight = data.get("edge_weight")
    source, target = data.edge_index.numpy(force=True)
    directed = data.get("directed") is True
    once = slice(None) if directed else source <= target
    weights = () if weight is None else (weight.numpy(force=True)[once],)
    with writing_graph(
        out,
        num_nodes=data.num_nodes,
        directed=directed,
        weighted=weight is not None,
        memory_limit=memory_limit,
    ) as writer:
        writer.add_edges(source[once], target[once], *weights)
        if data.x.layout == torch.sparse_csr:
            writer.add_sparse_features(as_matrix(data.x))
        else:
            writer.add_features(data.x.numpy(force=True))
        writer.set_labels(data.y.numpy(force=True), data.num_classes)
        if "roles" in data:
            writer.set_roles(data.roles.numpy(force=True))
        if preprocess is not None:
            writer.set_preprocess(preprocess)
    return open_graph(out)


def _as_files(edges: object) -> list[Path | str] | None:
    """The files, if it is files that were given."""
    if isinstance(edges, str | Path):
        return [edges]
    if isinstance(edges, list | tuple) and edges and isinstance(edges[0], str | Path):
        return list(edges)
    return None


def _as_chunks(edges: Any) -> Iterable[Chunk]:
    if not isinstance(edges, np.ndarray):
        return edges  # type: ignore[no-any-return]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise BadInput(
            f"edges are {edges.dtype} {list(edges.shape)}; they must be integers [2, edges]"
        )
    starts = range(0, edges.shape[1], CHUNK)
    return ((edges[0, at : at + CHUNK], edges[1, at : at + CHUNK]) for at in starts)
