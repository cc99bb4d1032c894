"""Tables of a Spark cluster: a master and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from engine_tables import (
    columns_of,
    difference_of_relations,
    draw_tables,
    largest_difference,
    write_relations,
)
from spark_cluster import CLUSTER_LOG, spark_cluster

from crossgcn.data.tables.plan import TableChoices
from crossgcn.graph.hop_file import read_hop_file, write_hops

pytest.importorskip("ibis")
pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.enable_socket,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)  # Spark and Derby leave files in the current folder
    with spark_cluster(tmp_path) as server:
        yield server


def hops(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crossgcn", "hops", *map(str, arguments), "--target", "buys"]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, env=os.environ)


def test_two_workers_give_the_columns_of_duckdb_and_of_memory(tmp_path: Path, cluster: str) -> None:
    nodes, edges = draw_tables(20_000, 80_000)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    places = [f"{cluster}::{tmp_path / name}.parquet" for name in ("nodes", "edges")]
    done = hops(*places, "--out", tmp_path / "spark.parquet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"] == 20_000
    table = read_hop_file(tmp_path / "spark.parquet")
    assert largest_difference(table, tmp_path / "nodes.parquet", tmp_path / "edges.parquet") < 1e-6
    launched = re.findall(
        r"Launching executor \S+ on worker (\S+)", (tmp_path / CLUSTER_LOG).read_text()
    )
    assert len({*launched}) == 2
    files = [str(tmp_path / f"{name}.parquet") for name in ("nodes", "edges")]
    choices = TableChoices(target="buys")
    out = tmp_path / "duckdb.parquet"
    write_hops(files[0], files[1], out=out, choices=choices)
    columns = columns_of(table), columns_of(read_hop_file(out))
    torch.testing.assert_close(*columns, rtol=1e-6, atol=1e-6)


def test_relations_columns_of_edges_and_shared_things_are_those_of_memory(
    tmp_path: Path, cluster: str
) -> None:
    write_relations(tmp_path)
    assert difference_of_relations(tmp_path, f"{cluster}::") < 1e-6


SAVE_TABLES = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master(sys.argv[1]).getOrCreate()
session.sql("create database shop")
for name in ("nodes", "edges"):
    session.read.parquet(f"{sys.argv[2]}/{name}.parquet").write.saveAsTable(f"shop.{name}")
"""


def test_a_table_of_a_catalogue_that_applications_share(tmp_path: Path, cluster: str) -> None:
    nodes, edges = draw_tables(2000, 8000)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    missing = hops(f"{cluster}::nodes", f"{cluster}::edges", "--out", tmp_path / "none.parquet")
    assert missing.returncode == 2
    assert "there is no table 'nodes'; there are none, or give" in missing.stderr
    with (tmp_path / "conf" / "spark-defaults.conf").open("a") as settings:
        settings.write(
            "spark.sql.catalogImplementation hive\n"
            f"spark.sql.warehouse.dir {(tmp_path / 'warehouse').as_uri()}\n"
            "spark.hadoop.javax.jdo.option.ConnectionURL "
            f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true\n"
        )
    save = [sys.executable, "-c", SAVE_TABLES, cluster, str(tmp_path)]
    saved = subprocess.run(save, capture_output=True, text=True, timeout=600)
    assert saved.returncode == 0, saved.stderr
    places = [f"{cluster}::shop.{name}" for name in ("nodes", "edges")]
    done = hops(*places, "--out", tmp_path / "spark.parquet")
    assert done.returncode == 0, done.stderr
    table = read_hop_file(tmp_path / "spark.parquet")
    assert largest_difference(table, tmp_path / "nodes.parquet", tmp_path / "edges.parquet") < 1e-6
    missing = hops(f"{cluster}::shop.persons", places[1], "--out", tmp_path / "none.parquet")
    assert missing.returncode == 2
    assert "there is no table 'persons'; there are edges, nodes: give one of" in missing.stderr
