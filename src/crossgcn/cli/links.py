"""``crossgcn links``: encoders compared as link predictors, paired over splits of the edges."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from rich.text import Text

from crossgcn.cli.command import Answer, command, option
from crossgcn.cli.options import (
    MODEL,
    SETTINGS,
    DatasetArgument,
    RunOptions,
    SettingOptions,
    Settings,
    parse_names,
    parse_numbers,
)
from crossgcn.cli.running import check_workers, show_progress, status
from crossgcn.cli.tables import EdgesArgument, TableOptions
from crossgcn.links.settings import (
    DEFAULT_RANKS,
    LINK_DEFAULTS,
    NUM_EDGE_SPLITS,
    TEST_SHARE,
    VALIDATION_SHARE,
    LinkSettings,
    check_encoder,
    encoder_names,
)
from crossgcn.models.catalogue import MODEL_OPTIONS, get_preset, settings_of_models

_EDGES = "Edges"
_DEFAULTS = LinkSettings()
_OF_ENCODERS = MODEL_OPTIONS.intersection(
    each for name in encoder_names() for each in get_preset(name).options
)
_TRAINING = {"epochs", "learning_rate", "weight_decay", "precision", "seed"}
_NAMES = [
    name for name in SETTINGS if name in {"hidden_channels", "dropout", *_TRAINING, *_OF_ENCODERS}
]


@command
def links(
    dataset: DatasetArgument = None,
    edges: EdgesArgument = None,
    models: Annotated[
        str,
        option(
            f"Encoders, separated by commas, the baseline first: {', '.join(encoder_names())}.",
            metavar="NAMES",
            panel=MODEL,
        ),
    ] = "gcn,cross-gcn",
    num_layers: Annotated[int, option("Number of layers of each encoder.", panel=MODEL)] = 2,
    embedding_channels: Annotated[
        int, option("Width of a node's embedding.", panel=MODEL)
    ] = _DEFAULTS.embedding_channels,
    decoder: Annotated[
        Literal["dot", "hadamard"],
        option("Score of two embeddings: inner product, or one with learned weights.", panel=MODEL),
    ] = _DEFAULTS.decoder,
    num_splits: Annotated[
        int, option("Number of random splits of the edges.", panel=_EDGES)
    ] = NUM_EDGE_SPLITS,
    validation_share: Annotated[
        float, option("Share of the edges that select the epoch.", panel=_EDGES)
    ] = VALIDATION_SHARE,
    test_share: Annotated[
        float, option("Share of the edges to test on.", panel=_EDGES)
    ] = TEST_SHARE,
    negatives: Annotated[
        int, option("Negative pairs for each validation and test edge.", panel=_EDGES)
    ] = 1,
    folds: Annotated[
        int,
        option(
            "Parts of the training edges; each step predicts one from the others.", panel=_EDGES
        ),
    ] = _DEFAULTS.folds,
    hits_at: Annotated[
        str | None,
        option(
            f"The K of Hits@K. [default: {', '.join(map(str, DEFAULT_RANKS))}, up to the number of "
            "negative test pairs]",
            metavar="K,K,...",
            panel=_EDGES,
        ),
    ] = None,
    *,
    settings: Annotated[Settings, SettingOptions(_NAMES, defaults=LINK_DEFAULTS)],
    tables: TableOptions,
    run: RunOptions,
) -> Answer:
    """Train encoders to predict missing edges, and pair their results split by split.

    The score of two nodes is the inner product of their embeddings. Edges to be predicted carry
    no messages, neither in training nor in the test. All encoders get the same edges, the same
    negative pairs and the same training. --order and other details apply to the encoders that
    have them; at least one must.

    With tables of your own, crossgcn links nodes.csv edges.csv, no --target is needed; a column
    given as target is left out of the features.
    """
    names = parse_names(models, "--models")
    for name in names:
        check_encoder(name)
    ranks = None if hits_at is None else tuple(parse_numbers(hits_at, "--hits-at"))
    settings_of_models(names, settings, encoder_names())

    check_workers(run.workers, run.threads)
    link_settings = LinkSettings(embedding_channels, decoder, folds, ranks)
    graph = tables.load(dataset, edges, run.out, for_links=True)
    started = time.perf_counter()
    with status(f"loading {dataset or 'citeseer'}"):
        from crossgcn.workflows.compare import link_experiment

        experiment = link_experiment(
            graph or dataset,
            names,
            link_settings,
            settings | {"num_layers": num_layers},
            num_splits=num_splits,
            validation_share=validation_share,
            test_share=test_share,
            negatives=negatives,
        )
    words = f"{', '.join(names)} × {num_splits} split{'s' * (num_splits > 1)}"
    stem = Path(experiment.configs[names[0]].dataset).stem
    with show_progress(run, words, f"{stem}-links") as (folder, work):
        comparison = experiment.run(out=folder, **work)

    from crossgcn.reports.terminal.links import links_table, links_verdicts, summarise_links

    summary = summarise_links(comparison)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    verdicts = map(Text, links_verdicts(summary))
    return Answer(summary, [links_table(summary), "", *verdicts], folder)
