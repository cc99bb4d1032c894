"""``crossgcn data import``: files of edges, however many, as a graph folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.option_groups import TableOptions, with_option_groups
from crossgcn.cli.running import work_progress
from crossgcn.errors import BadInput

__all__ = ["FolderOption", "MemoryOption", "import_graph", "showing_stages"]

FolderOption = Annotated[
    Path, typer.Option(help="The graph folder to make, new or empty.", metavar="FOLDER")
]
MemoryOption = Annotated[
    int,
    typer.Option("--memory", help="MiB that sorting may take; the rest is done on disk.", min=1),
]


@with_option_groups
def import_graph(
    edges: Annotated[
        list[Path],
        typer.Argument(
            help="Edges, a row each: CSV, TSV (also .gz) or Parquet; several with equal headers.",
            metavar="EDGES",
        ),
    ],
    out: FolderOption,
    nodes: Annotated[
        Path | None,
        typer.Option(help="Table of nodes. Without one, ends are numbers from 0.", metavar="NODES"),
    ] = None,
    *,
    tables: TableOptions,
    num_nodes: Annotated[
        int | None,
        typer.Option(help="How many nodes, if there is no table. \\[default: as edges say]", min=1),
    ] = None,
    directed: Annotated[
        bool,
        typer.Option("--directed", help="An edge counts for its second end alone."),
    ] = False,
    memory: MemoryOption = 256,
    seed: options.UnusedSeedOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Read edges piece by piece into a folder that is opened, not loaded."""
    if nodes is None and tables.target is not None:
        raise BadInput("--target names a column of the table of nodes: give it as --nodes FILE")
    warnings: list[str] = []

    def warn(words: str) -> None:
        warnings.append(words)
        typer.echo(f"warning: {words}", err=True)

    with showing_stages("importing") as show:
        from crossgcn.data.stored.building import build_graph
        from crossgcn.reports.folder_view import folder_lines, summarise_folder

        graph = build_graph(
            [str(path) for path in edges],
            None if nodes is None else str(nodes),
            out=out,
            choices=tables.choices(),
            num_nodes=num_nodes,
            directed=directed,
            memory_limit=memory << 20,
            progress=show,
            on_warning=warn,
        )
    if graph.preprocess is not None and graph.preprocess.encoding is not None:
        typer.echo("\n".join(graph.preprocess.encoding["plan"]["reasons"]), err=True)
    summary = summarise_folder(graph) | {"warnings": warnings}
    if graph.num_features and graph.num_classes:
        summary["next"] = shlex.join(["crossgcn", "train", str(out)]) + (
            " --splits public" if graph.roles is not None else " --splits stratified"
        )
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    typer.echo("\n".join(folder_lines(summary)))


@contextmanager
def showing_stages(what: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar that starts anew with each stage of the work.

    Args:
        what: Said before the first stage begins.

    Yields:
        To be called with a stage, how much of it is done, and of how much.
    """
    with work_progress(Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        last = what

        def show(stage: str, done: int, total: int | None) -> None:
            nonlocal last
            if stage != last:
                progress.reset(task, description=stage, total=total)
                last = stage
            progress.update(task, completed=done, total=total)

        yield show
