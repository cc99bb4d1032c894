"""Measure link prediction on the citation graphs: GCN, ours, and ours with crosses in one layer.

The script writes the summary of ``crossgcn links`` for each graph to ``results/links.json``. It
needs Cora and Pubmed (``crossgcn data get``) and takes about seven minutes on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from crossgcn.data.files import write_json
from crossgcn.links.compare import LinkExperiment
from crossgcn.links.settings import LINK_DEFAULTS
from crossgcn.reports.terminal.links import links_verdicts, summarise_links
from crossgcn.training.config import RunConfig

PROJECT = Path(__file__).parents[2]
GRAPHS = ("citeseer", "cora", "pubmed")
ENCODERS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn"},
    "cross-gcn": {"model": "cross-gcn"},
    "cross-gcn, order 2,1": {"model": "cross-gcn", "order": (2, 1)},
}


def measure(dataset: str, num_splits: int, runs: Path | None, workers: int) -> dict[str, Any]:
    """Measure all encoders on one graph."""
    configs = {
        name: RunConfig.create(defaults=LINK_DEFAULTS, dataset=dataset, **settings)
        for name, settings in ENCODERS.items()
    }
    experiment = LinkExperiment(configs, num_splits=num_splits)
    out = None if runs is None else runs / dataset
    return summarise_links(experiment.run(out=out, workers=workers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--splits", type=int, default=10, help="number of splits (default 10)")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default 2)")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, help="graphs (default all)")
    parser.add_argument("--runs", type=Path, help="folder of run records, to resume")
    parser.add_argument("--out", type=Path, default=PROJECT / "results" / "links.json")
    options = parser.parse_args()
    found = []
    for graph in options.graphs:
        found.append(measure(graph, options.splits, options.runs, options.workers))
        write_json(options.out, {"datasets": found})
        print(
            f"{graph}: {found[-1]['seconds']:.0f} s of work", *links_verdicts(found[-1]), sep="\n"
        )
