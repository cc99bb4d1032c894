"""``crossgcn links``: several encoders as link predictors, paired over splits of the edges."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from crossgcn.cli import options
from crossgcn.cli.compare import refuse_unused
from crossgcn.cli.option_groups import (
    EdgesArgument,
    RunOptions,
    TableOptions,
    is_table,
    with_option_groups,
)
from crossgcn.errors import BadInput
from crossgcn.links.compare import check_encoder, encoder_names
from crossgcn.links.predictor import DEFAULT_RANKS, LINK_DEFAULTS, LinkSettings
from crossgcn.models.catalogue import get_preset

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.training.config import RunConfig

_EDGES, _TRAINING = "Edges", "Training"
_SETTINGS = LinkSettings()


@dataclass(frozen=True)
class LinkModelOptions:
    """What an encoder is like in detail: wider than a classifier, and trained by links alone."""

    hidden_channels: Annotated[
        int | None,
        typer.Option(
            help=f"Width of the hidden layers. \\[default: {LINK_DEFAULTS['hidden_channels']}]",
            rich_help_panel=options.MODEL,
        ),
    ] = None
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Dropout before each layer. \\[default: 0.5]", rich_help_panel=options.MODEL
        ),
    ] = None
    order: options.OrderOption = None
    order_weights: options.OrderWeightsOption = None
    first_order: options.FirstOrderOption = None
    aggregate_first: options.AggregateFirstOption = None
    bias: options.BiasOption = None
    aggr: options.AggrOption = None
    transform: options.TransformOption = None
    scaling: options.ScalingOption = None
    residual: options.ResidualOption = None

    def shared(self) -> dict[str, Any]:
        """What every encoder has."""
        return {"hidden_channels": self.hidden_channels, "dropout": self.dropout}

    def variants(self) -> dict[str, Any]:
        """What only some encoders have."""
        given = asdict(self) | {
            "order": options.parse_order(self.order),
            "order_weights": options.parse_order_weights(self.order_weights),
            "transform": options.parse_transform(self.transform),
        }
        return {name: value for name, value in given.items() if name not in self.shared()}


@dataclass(frozen=True)
class LinkTrainingOptions:
    """How encoders are trained."""

    epochs: Annotated[
        int | None,
        typer.Option(
            help=f"Steps. \\[default: {LINK_DEFAULTS['epochs']}]", rich_help_panel=_TRAINING
        ),
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's. \\[default: 0.01]", rich_help_panel=_TRAINING)
    ] = None
    weight_decay: Annotated[
        float | None,
        typer.Option(help="On every matrix. \\[default: 0]", rich_help_panel=_TRAINING),
    ] = None
    precision: options.PrecisionOption = None
    seed: options.SeedOption = None


@with_option_groups
def links(
    dataset: options.DatasetArgument = None,
    edges: EdgesArgument = None,
    models: Annotated[
        str,
        typer.Option(
            help="Encoders, separated by commas, the baseline first: "
            f"{', '.join(encoder_names())}.",
            metavar="NAMES",
            rich_help_panel=options.MODEL,
        ),
    ] = "gcn,cross-gcn",
    num_layers: Annotated[
        int, typer.Option(help="Layers of each encoder.", rich_help_panel=options.MODEL)
    ] = 2,
    embedding_channels: Annotated[
        int, typer.Option(help="Width of a node's embedding.", rich_help_panel=options.MODEL)
    ] = _SETTINGS.embedding_channels,
    decoder: Annotated[
        Literal["dot", "hadamard"],
        typer.Option(
            help="How two embeddings make a score: inner product, or one with learned weights.",
            rich_help_panel=options.MODEL,
        ),
    ] = _SETTINGS.decoder,
    num_splits: Annotated[
        int,
        typer.Option(
            "--num-splits",
            "--splits",
            help="How many times the edges are dealt out anew.",
            rich_help_panel=_EDGES,
        ),
    ] = 10,
    validation_share: Annotated[
        float,
        typer.Option(help="Share of the edges that chooses the epoch.", rich_help_panel=_EDGES),
    ] = 0.05,
    test_share: Annotated[
        float, typer.Option(help="Share of the edges that is tested on.", rich_help_panel=_EDGES)
    ] = 0.1,
    negatives: Annotated[
        int,
        typer.Option(
            help="Pairs that are no edges, for each validation and test edge.",
            rich_help_panel=_EDGES,
        ),
    ] = 1,
    folds: Annotated[
        int,
        typer.Option(
            help="Parts of the training edges; in each step one is predicted from the others.",
            rich_help_panel=_EDGES,
        ),
    ] = _SETTINGS.folds,
    hits_at: Annotated[
        str | None,
        typer.Option(
            help="The K of Hits@K. \\[default: those of "
            f"{', '.join(map(str, DEFAULT_RANKS))} that the test set has negatives for]",
            metavar="K,K,...",
            rich_help_panel=_EDGES,
        ),
    ] = None,
    *,
    details: LinkModelOptions,
    training: LinkTrainingOptions,
    tables: TableOptions,
    run: RunOptions,
) -> None:
    """Train encoders to predict missing edges, and pair their results split by split.

    Two nodes are scored by the inner product of their embeddings. Edges that are to be
    predicted carry no message, neither in training nor when they are tested on. Every
    encoder is given the same edges, the same pairs that are none, and the same training.
    --order and the details of a model apply to those encoders that have them; one must.

    With tables of your own, crossgcn links nodes.csv edges.csv, no --target is needed; a
    column given as one is left out of the features.
    """
    names = _names(models)
    ranks = None if hits_at is None else tuple(options.parse_numbers(hits_at, "--hits-at"))
    refuse_unused(details.variants(), names, encoder_names())

    from crossgcn.cli.running import check_workers, finish, show_progress

    check_workers(run.workers, run.threads)
    settings = LinkSettings(embedding_channels, decoder, folds, ranks)
    graph = None
    if is_table(dataset):
        assert dataset is not None
        graph = _load_tables(dataset, edges, tables, run.out)
    else:
        tables.refuse(dataset, edges)
    configs = {
        name: _configure(name, dataset, num_layers, details, training, graph) for name in names
    }
    started = time.perf_counter()
    with Console(stderr=True).status(f"loading {escape(dataset or 'citeseer')}"):
        from crossgcn.links.compare import LinkExperiment

        experiment = LinkExperiment(
            configs,
            settings,
            None if graph is None else graph.data,
            num_splits=num_splits,
            validation_share=validation_share,
            test_share=test_share,
            negatives=negatives,
        )
    words = f"{', '.join(names)} × {num_splits} split{'s' * (num_splits > 1)}"
    stem = Path(configs[names[0]].dataset).stem
    with show_progress(run, words, f"{stem}-links") as (folder, work):
        comparison = experiment.run(out=folder, **work)

    from crossgcn.reports.terminal.links import links_table, links_verdicts, summarise_links

    summary = summarise_links(comparison)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    def show(console: Console) -> None:
        console.print(links_table(summary), "")
        for sentence in links_verdicts(summary):
            console.print(sentence, highlight=False, markup=False)

    finish(summary, folder, run.as_json, show)


def _configure(
    name: str,
    dataset: str | None,
    num_layers: int,
    details: LinkModelOptions,
    training: LinkTrainingOptions,
    graph: TableGraph | None,
) -> RunConfig:
    from crossgcn.cli.running import cross_in_first_layer
    from crossgcn.training.config import RunConfig

    own = {
        option: value
        for option, value in details.variants().items()
        if option in get_preset(name).options
    }
    config = RunConfig.create(
        defaults={**LINK_DEFAULTS, **({} if graph is None else {"bias": True})},
        dataset=dataset,
        model=name,
        num_layers=num_layers,
        **own,
        **details.shared(),
        **asdict(training),
    )
    return config if graph is None else cross_in_first_layer(config)


def _load_tables(
    nodes: str, edges: Path | None, tables: TableOptions, out: Path | None
) -> TableGraph:
    """Read both tables and say on stderr what was decided; nothing has to be the target."""
    terminal = Console(stderr=True)
    for table in (Path(nodes), edges):
        if out is not None and table is not None and out.resolve() == table.resolve().parent:
            raise BadInput(f"--out {out} is where {table.name} is: give the work its own folder")
    if edges is None:
        raise BadInput(
            f"{nodes} is a table of nodes, and links are learnt from edges: give a table of edges "
            f"after it, such as crossgcn links {nodes} edges.csv"
        )
    with terminal.status(f"reading {escape(nodes)}"):
        from crossgcn.data.tables.graph import load_tables
        from crossgcn.reports.terminal.check import reading_lines

        graph = load_tables(Path(nodes), edges, tables.choices())
    terminal.print(*reading_lines(graph), sep="\n", highlight=False)
    return graph


def _names(models: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise BadInput(
            f"--models takes names separated by commas, such as gcn,cross-gcn; got {models!r}"
        )
    for name in names:
        check_encoder(name)
    return names
