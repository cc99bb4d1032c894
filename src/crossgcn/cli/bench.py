"""``crossgcn bench``: run the benchmarks of the checkout that this package is installed from."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import crossgcn
from crossgcn.cli.command import RUN, JsonOption, argument, command, option
from crossgcn.cli.running import new_folder
from crossgcn.errors import BadInput, unknown_name


@command
def bench(
    names: Annotated[
        list[str] | None,
        argument(
            "Benchmarks, as listed below. [default: all that this machine can run]", "[NAME]..."
        ),
    ] = None,
    quick: Annotated[bool, option("About a minute each; not for publication.", "--quick")] = False,
    rounds: Annotated[
        int | None, option("How often each side is timed, at least 5. [default: 7]")
    ] = None,
    seed: Annotated[int, option("Seed of splits, weights and dropout.", panel=RUN)] = 0,
    out: Annotated[
        Path | None, option("Folder for the records. [default: a new one in runs/]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time training against PyTorch Geometric, both sides in turns, and print the ratios.

    Each benchmark first checks that both sides compute the same function. It writes a record
    with every round, the hardware and the versions.
    """
    checkout = _find_checkout()
    if checkout is None:
        raise BadInput(
            "the benchmarks are not part of the installed package: clone the repository, install "
            "it with `pip install -e .`, and run `crossgcn bench` again"
        )
    known = list_benchmarks()
    for name in names or ():
        if name not in known:
            raise unknown_name("benchmark", name, known)
    if out is None:
        out = new_folder("bench")
    arguments = [sys.executable, "-m", "research.benchmarks", *(names or ())]
    arguments += ["--seed", str(seed), "--out", str(out.absolute())]
    arguments += [] if rounds is None else ["--rounds", str(rounds)]
    arguments += ["--quick"] * quick + ["--json"] * as_json
    path = os.pathsep.join(filter(None, [str(checkout / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(arguments, cwd=checkout, env={**os.environ, "PYTHONPATH": path})
    raise typer.Exit(done.returncode)


def list_benchmarks() -> dict[str, str]:
    """Return what each benchmark measures, by name; nothing if there is no checkout."""
    checkout = _find_checkout()
    if checkout is None:
        return {}
    catalogue = runpy.run_path(str(checkout / "research" / "benchmarks" / "catalogue.py"))
    return {name: entry.title for name, entry in catalogue["BENCHMARKS"].items()}


def _find_checkout() -> Path | None:
    checkout = Path(crossgcn.__file__).parents[2]
    return checkout if (checkout / "research" / "benchmarks").is_dir() else None
