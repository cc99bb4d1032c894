"""Conversion of a Parquet edge file to CSR: our import, and pandas with SciPy in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from crossgcn.data.stored.import_graph import build_graph
from crossgcn.data.stored.open import StoredGraph

__all__ = ["draw_edges", "import_in_memory", "import_ours", "start_only"]

PIECE = 1 << 20


def draw_edges(path: Path, num_edges: int, num_nodes: int, seed: int) -> None:
    """Write edges in random order, with a skewed degree distribution."""
    random = np.random.default_rng(seed)
    places = random.permutation(num_nodes)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, num_edges, PIECE):
            share = random.random((2, min(PIECE, num_edges - start))) ** 2
            ends = places[(share * num_nodes).astype(np.int64)]
            writer.write_table(pa.table(list(ends), schema=schema))


def import_ours(path: Path, out: Path, num_nodes: int) -> StoredGraph:
    """Import the edges into a graph folder."""
    return build_graph(path, out=out, num_nodes=num_nodes)


def import_in_memory(path: Path, num_nodes: int) -> sparse.csr_array:
    """Build the same CSR in memory: both directions, no self-loops, no duplicates."""
    edges = pd.read_parquet(path)
    edges = edges[edges["source"] != edges["target"]]
    source, target = edges["source"].to_numpy(), edges["target"].to_numpy()
    rows, columns = np.concatenate([source, target]), np.concatenate([target, source])
    ones = np.ones(len(rows), np.int32)
    matrix = sparse.coo_array((ones, (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()
    return matrix


def start_only() -> None:
    """Do nothing; measures the memory of a process that only imports the packages."""
