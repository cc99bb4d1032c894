"""``crossgcn example graph``: a large graph to measure with."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from crossgcn.cli import options
from crossgcn.cli.import_graph import FolderOption, MemoryOption, showing_stages

__all__ = ["example_graph"]


def example_graph(
    out: FolderOption,
    num_nodes: Annotated[int, typer.Option(help="How many nodes.")] = 100_000,
    num_edges: Annotated[
        int, typer.Option(help="Undirected edges to draw; a few are drawn twice.")
    ] = 1_000_000,
    num_features: Annotated[int, typer.Option(help="Of each node, dense.")] = 100,
    num_classes: Annotated[int, typer.Option(help="Of unequal size.")] = 47,
    memory: MemoryOption = 256,
    seed: Annotated[int, typer.Option(help="Which draw.", min=0, max=2**32 - 1)] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Draw a heavy-tailed graph of any size with labels that can be learnt, as a graph folder."""
    with showing_stages("drawing") as show:
        from crossgcn.data.large_graph import large_graph
        from crossgcn.reports.folder_view import folder_lines, summarise_folder

        graph = large_graph(
            out,
            num_nodes,
            num_edges,
            num_features,
            num_classes,
            seed,
            memory_limit=memory << 20,
            progress=show,
        )
    summary = summarise_folder(graph) | {
        "seed": seed,
        "next": shlex.join(["crossgcn", "train", str(out), "--splits", "public"]),
    }
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    typer.echo("\n".join(folder_lines(summary)))
