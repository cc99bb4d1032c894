"""Columns of neighbourhoods by DuckDB, by Spark and from a graph folder; for separate processes."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crossgcn.data.stored.import_graph import build_graph
from crossgcn.data.stored.open import StoredGraph, open_graph
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import WorkFailed
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.kept_columns import columns_beside
from crossgcn.graph.sampling.source import source_of
from crossgcn.workflows.hops import store_hops

__all__ = [
    "CLUSTER_LOG",
    "draw_tables",
    "largest_difference",
    "spark_cluster",
    "start_only",
    "store_from_folder",
    "store_in_duckdb",
    "store_in_spark",
    "stored_columns",
]

CHOICES = TableChoices(target="buys")
CLUSTER_LOG = "cluster.log"
SPARK_SETTINGS = """\
spark.sql.shuffle.partitions 2
spark.ui.enabled false
"""
START_SECONDS, END_SECONDS = 300, 60


def draw_tables(num_nodes: int, num_edges: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw nodes with missing values, a tenth of them isolated, and edges with weights.

    Some edges weigh 0, some are given several times, and some join a node to itself.
    """
    random = np.random.default_rng(seed)
    age = random.normal(40, 12, num_nodes).round(1)
    member = random.random(num_nodes) < 0.3
    score = age / 12 + 2 * member + random.normal(0, 1, num_nodes)
    nodes = pd.DataFrame(
        {
            "id": [f"n{number}" for number in random.permutation(num_nodes)],
            "age": np.where(random.random(num_nodes) < 0.1, np.nan, age),
            "city": random.choice(["Porto", "Lyon", "Gent", "", "NA"], num_nodes),
            "member": member,
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(random.integers(0, 900, num_nodes), "D"),
            "buys": np.where(score > np.median(score), "yes", "no"),
        }
    )
    linked = nodes["id"].to_numpy()[: num_nodes * 9 // 10]
    ends = random.choice(linked, num_edges), random.choice(linked[: num_nodes // 3], num_edges)
    weights = random.choice([0, 0.5, 1, 2.25], num_edges)
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "weight": weights})
    again = edges.head(num_edges // 20).rename(columns={"source": "target", "target": "source"})
    loops = pd.DataFrame({"source": linked[:5], "target": linked[:5], "weight": 1.0})
    return nodes, pd.concat([edges, again.assign(weight=3.0), loops], ignore_index=True)


def start_only() -> None:
    """Do nothing: measure what the imported packages hold."""
    import duckdb  # noqa: F401
    import ibis.backends.duckdb  # noqa: F401


def store_in_duckdb(
    nodes: str, edges: str, out: Path, memory_limit: int, threads: int, scratch: Path
) -> int:
    """Compute the columns in DuckDB, and return the most bytes that it had spilled to disk."""
    scratch.mkdir()
    with _watching(scratch) as most:
        store_hops(
            nodes,
            edges,
            out=out,
            choices=CHOICES,
            memory_limit=memory_limit,
            threads=threads,
            scratch=scratch,
        )
    return most[0]


def store_from_folder(nodes: str, edges: str, out: Path, threads: int) -> None:
    """Import the tables into a graph folder, and compute the columns as training does."""
    torch.set_num_threads(threads)
    graph = build_graph(edges, nodes, out=out, choices=CHOICES, on_warning=lambda words: None)
    plan = HopPlan(graph.num_features)
    identity = {"graph": graph.fingerprint, "hops": plan.hops, "directed": plan.directed}
    HopColumns(source_of(graph), plan.hops, folder=out, identity=identity)


def store_in_spark(nodes: str, edges: str, out: Path, folder: Path) -> None:
    """Start a cluster, compute the columns there, and end the cluster and the driver."""
    with spark_cluster(folder) as server:
        store_hops(f"{server}::{nodes}", f"{server}::{edges}", out=out, choices=CHOICES)
        _end_driver()


def stored_columns(graph: StoredGraph) -> Tensor:
    """Return the columns that lie beside a stored graph."""
    kept = columns_beside(graph, HopPlan(graph.num_features, directed=graph.directed))
    if kept.find() is None:
        raise WorkFailed(f"{graph.folder} has no columns of neighbourhoods")
    return kept.map()


def largest_difference(folder: Path, other: Path) -> float:
    """Return how far the columns of two graph folders are apart, relative to 1.

    Nodes are matched by their ids. The difference is infinite if names, ids or labels differ.
    """
    one, two = open_graph(folder), open_graph(other)
    assert one.preprocess is not None and two.preprocess is not None
    assert one.ids is not None and two.ids is not None
    place = {node_id: at for at, node_id in enumerate(two.ids)}
    order = torch.tensor([place.get(node_id, -1) for node_id in one.ids])
    same = len(place) == len(order) and int(order.min()) >= 0
    same = same and one.preprocess.space == two.preprocess.space
    if not (same and torch.equal(one.labels, two.labels[order])):
        return float("inf")
    found, expected, most = stored_columns(one), stored_columns(two), 0.0
    for rows in torch.split(torch.arange(len(order)), 1 << 16):
        right = expected[order[rows]]
        apart = (found[rows] - right).abs() / right.abs().clamp(min=1)
        most = max(most, float(apart.max()))
    return most


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """Start a Spark master and two workers of one core and 1 GiB each; yield their address.

    Args:
        folder: An existing folder; gets the settings, the workers' files and a log.
    """
    import pyspark

    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(SPARK_SETTINGS)
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = f"spark://127.0.0.1:{port}"
    roles = [["master.Master", "--port", str(port), "--webui-port", "0"]]
    for number in (1, 2):
        work = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
        roles.append(["worker.Worker", *work, "--webui-port", "0", server])
    path = folder / CLUSTER_LOG
    variables = {"SPARK_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    with ExitStack() as stack, path.open("w") as log, patch.dict(os.environ, variables):
        for role, *options in roles:
            command = [program, f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", *options]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
        if not _wait(START_SECONDS, lambda: path.read_text().count("Registering worker") == 2):
            raise WorkFailed(f"no two workers in {START_SECONDS} s: {path.read_text()[-2000:]}")
        yield server
        # A worker counts the CPU time of an executor only when that has ended.
        _wait(END_SECONDS, lambda: not _running_executors(path.read_text()))


def _running_executors(log: str) -> int:
    return log.count("Asked to launch executor") - log.count("finished with state")


def _wait(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition; return whether it came true in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def _end_driver() -> None:
    """End the Java process of PySpark, which otherwise ends some time after this one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@contextmanager
def _watching(folder: Path) -> Iterator[list[int]]:
    """Measure the most bytes that lie in DuckDB's folder for what does not fit into memory."""
    most, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            size = 0
            for file in folder.glob("*/spilled/*"):
                try:
                    size += file.stat().st_size
                except OSError:  # deleted since
                    continue
            most[0] = max(most[0], size)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()
