"""A Spark cluster on this machine: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from crossgcn import WorkFailed

CLUSTER_LOG = "cluster.log"
SETTINGS = """\
spark.sql.shuffle.partitions 2
spark.ui.enabled false
"""
START_SECONDS, END_SECONDS = 300, 60


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """Start a Spark master and two workers of one core and 1 GiB each; yield their address.

    Args:
        folder: An existing folder; gets the settings, the workers' files and a log.
    """
    import pyspark

    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(SETTINGS)
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
