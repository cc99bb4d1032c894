"""The query of a run in PostgreSQL and in Spark: scores of ``predict``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest_fixtures import Command, result_of
from test_sql import FEW, check_scores, read_text, write_related_tables

from crossgcn.experiments.run_folder import open_run

pytest.importorskip("ibis")
pytestmark = pytest.mark.slow

POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[list[str]]:
    """Start PostgreSQL in a new folder; return the command that runs SQL there."""
    if POSTGRES is None:
        pytest.skip("PostgreSQL is not installed")
    user = "postgres" if os.geteuid() == 0 else None  # it does not run as root
    folder = Path("/tmp") / f"crossgcn-{tmp_path.parent.name}-{os.getpid()}"  # short, for a socket
    folder.mkdir()
    if user is not None:
        shutil.chown(folder, user)

    def run(name: str, *words: str) -> None:
        command = [f"{POSTGRES}/{name}", "-D", f"{folder}/data", *words]
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)

    try:
        run("initdb", "--username=test", "--auth=trust", "--encoding=UTF8", "--locale=C")
        run("pg_ctl", "-w", "-l", "log", "-o", f"-k {folder} -c listen_addresses=''", "start")
        yield ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(folder), "-U", "test", "test"]
        run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def train_and_export(crossgcn: Command, dialect: str, *more: str) -> tuple[Path, list[str]]:
    options = (*write_related_tables(), "--columns", "all", "--order", "1", *more)
    result_of(crossgcn("train", *options, "--out", "run", *FEW, "--json"))
    done = result_of(crossgcn("export", "run", "--sql", dialect, "--json"))
    return Path(done["out"]), list(done["tables"])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_postgres(crossgcn: Command, postgres: list[str], tmp_path: Path) -> None:
    path, names = train_and_export(crossgcn, "postgres")
    lines = []
    for name in names:
        columns = ", ".join(f"{quoted(str(each))} text" for each in read_text(name))
        lines.append(f"create table {quoted(name)} ({columns});")
        lines.append(f"\\copy {quoted(name)} from '{tmp_path}/{name}.csv' csv header")
    create = [*postgres[:-1], "postgres"]
    subprocess.run([*create, "-c", "create database test"], check=True)
    subprocess.run(postgres, input="\n".join(lines), text=True, check=True)
    with Path("scores.csv").open("w") as out:
        subprocess.run([*postgres, "--csv", "-f", path], check=True, stdout=out)
    check_scores(pd.read_csv("scores.csv"), open_run(Path("run")))


@pytest.mark.enable_socket
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark(crossgcn: Command, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyspark.sql")
    path, names = train_and_export(crossgcn, "spark")
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    builder = sql.SparkSession.builder.master("local[1]").config(map=settings)
    session = builder.getOrCreate()
    try:
        for name in names:
            table = session.read.csv(f"{tmp_path}/{name}.csv", header=True)
            table.createOrReplaceTempView(name)
        found = [row.asDict() for row in session.sql(path.read_text()).collect()]
    finally:
        session.stop()
    check_scores(pd.DataFrame(found), open_run(Path("run")))
