"""Compare encoders by the links that they predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossgcn.data.tables.graph import TableGraph
from crossgcn.links.compare import LinkExperiment
from crossgcn.links.settings import (
    LINK_DEFAULTS,
    NUM_EDGE_SPLITS,
    LinkSettings,
    check_encoder,
    encoder_names,
)
from crossgcn.models.catalogue import settings_of_models
from crossgcn.reports.terminal.links import summarise_links
from crossgcn.training.config import RunConfig
from crossgcn.workflows.compare import keep_summary
from crossgcn.workflows.table_settings import cross_in_first_layer


def link_experiment(
    dataset: str | TableGraph | None,
    models: Sequence[str],
    link_settings: LinkSettings | None,
    settings: Mapping[str, Any],
    **splits: Any,
) -> LinkExperiment:
    """Return the comparison of encoders, with the defaults for links.

    Args:
        settings: Fields of :class:`~crossgcn.RunConfig`, for the models that have them.
        **splits: As for :class:`~crossgcn.links.compare.LinkExperiment`.
    """
    for name in models:
        check_encoder(name)
    graph = dataset if isinstance(dataset, TableGraph) else None
    defaults = {**LINK_DEFAULTS, **({} if graph is None else {"bias": True})}
    named = {} if graph is not None else {"dataset": dataset}
    configs = {
        name: RunConfig.create(defaults=defaults, model=name, **named, **own)
        for name, own in settings_of_models(models, settings, encoder_names()).items()
    }
    if graph is None:
        return LinkExperiment(configs, link_settings, **splits)
    configs = {name: cross_in_first_layer(config) for name, config in configs.items()}
    return LinkExperiment(configs, link_settings, graph.data, **splits)


def predict_links(
    dataset: str | TableGraph,
    models: Sequence[str] = ("gcn", "cross-gcn"),
    *,
    link_settings: LinkSettings | None = None,
    num_splits: int = NUM_EDGE_SPLITS,
    num_layers: int = 2,
    out: Path | str | None = None,
    workers: int = 1,
    threads: int = 1,
    device: str = "cpu",
    on_epochs: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train encoders to predict missing edges, and pair their results split by split.

    Args:
        dataset: A known dataset, a graph file or a graph folder; or tables that
            :func:`~crossgcn.load_tables` read.
        models: Names of presets; the first is the baseline.
        link_settings: Embeddings, decoder, folds and ranks.
        num_splits: Random splits of the edges.
        num_layers: Layers of each encoder.
        out: Folder for the records and ``result.json``; finished runs in it are not repeated.
        workers: Number of processes.
        threads: Threads of each run.
        device: ``cpu``, ``cuda`` or ``auto``.
        on_epochs: Called with the epochs done and the epochs in total.
        **settings: Fields of :class:`~crossgcn.RunConfig`, for the models that have them.

    Returns:
        The summary that ``crossgcn links --json`` prints.
    """
    own = {"num_layers": num_layers, **settings}
    experiment = link_experiment(dataset, models, link_settings, own, num_splits=num_splits)
    folder = None if out is None else Path(out)
    comparison = experiment.run(
        out=folder, workers=workers, threads=threads, device=device, on_epochs=on_epochs
    )
    return keep_summary(summarise_links(comparison), folder)
