"""Options for a user's own tables, and reading the tables with them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

from crossgcn.cli.options import argument, option, option_name
from crossgcn.cli.running import status, terminal
from crossgcn.data.datasets.catalogue import TABLES
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TableChoices

_TEXT_ENDINGS = (".csv", ".tsv", ".tab")
TABLE_ENDINGS = (
    *(*_TEXT_ENDINGS, *(f"{ending}.gz" for ending in _TEXT_ENDINGS)),
    *(".parquet", ".pq", ".xlsx"),
)

NodesArgument = Annotated[Path, argument("Table of nodes: CSV, TSV, Parquet or XLSX.", "NODES")]
EdgesArgument = Annotated[Path | None, argument("Table of edges, likewise.", "EDGES")]


def _column(words: str) -> Any:
    return option(words, metavar="COLUMN")


def _columns(words: str) -> Any:
    return option(words, metavar="COLUMNS")


TargetOption = Annotated[str | None, _column("What to predict: classes, or a number.")]
Task = Literal["classification", "regression"]
TaskOption = Annotated[
    Task | None, option("Predict classes or a number.", metavar="classification|regression")
]
RareClasses = Literal["drop", "merge", "refuse"]
RareClassesOption = Annotated[
    RareClasses | None,
    option("Classes of under 10 nodes (default drop).", metavar="drop|merge|refuse"),
]
IdOption = Annotated[str | None, _column("Ids of the nodes (default: detected).")]
NameOption = Annotated[str | None, _column("Names to show beside the ids.")]
SourceOption = Annotated[str | None, _column("First end of an edge (default: detected).")]
DestinationOption = Annotated[str | None, _column("Second end (default: detected).")]
WeightOption = Annotated[str | None, _column("Weights of edges (default: weight).")]
SplitColumnOption = Annotated[str | None, _column("Column with train, validation or test.")]
CategoricalOption = Annotated[str | None, _columns("Columns to read as categories: a,b.")]
NumericOption = Annotated[str | None, _columns("Columns to read as numbers.")]
ListsOption = Annotated[str | None, _columns("Columns to read as lists of words.")]
IgnoreOption = Annotated[str | None, _columns("Columns to leave out.")]
MissingOption = Annotated[
    str | None, option("More words for a missing value (-none: one less).", metavar="WORDS")
]
UnknownIds = Literal["refuse", "drop"]
UnknownIdsOption = Annotated[
    UnknownIds | None,
    option("Edges to ids of no node (default refuse).", metavar="refuse|drop"),
]
RelationOption = Annotated[
    str | None, option("Name of neighbours in columns (default neighbours).", metavar="WORD")
]


@dataclass(frozen=True)
class TableOptions:
    """What the columns of a user's tables are, as given on the command line."""

    target: str | None = None
    task: Task | None = None
    rare_classes: RareClasses | None = None
    id_column: str | None = None
    name_column: str | None = None
    source_column: str | None = None
    destination_column: str | None = None
    weight_column: str | None = None
    split_column: str | None = None
    categorical: str | None = None
    numeric: str | None = None
    lists: str | None = None
    ignore: str | None = None
    missing: str | None = None
    unknown_ids: UnknownIds | None = None
    relation: str | None = None

    def choices(self) -> TableChoices:
        """Return the options as :func:`crossgcn.load_tables` takes them."""
        from crossgcn.data.tables.plan import TableChoices

        given = asdict(self)
        for name in ("categorical", "numeric", "lists", "ignore", "missing"):
            given[name] = _names(given[name])
        given["rare_classes"] = self.rare_classes or "drop"
        given["unknown_ids"] = self.unknown_ids or "refuse"
        if self.relation is None:
            del given["relation"]
        return TableChoices(ignored=given.pop("ignore"), **given)

    def command(self, name: str, nodes: str | Path, edges: Path | None, *more: str) -> str:
        """Return what to type for another command on the same tables, with the same options."""
        words = ["crossgcn", name, str(nodes), *([] if edges is None else [str(edges)])]
        for each, value in self.given().items():
            words += [option_name(each), str(value)]
        return shlex.join([*words, *more])

    def load(self, dataset: str | None, edges: Path | None, out: Path | None) -> TableGraph | None:
        """Read tables, the user's or known ones; return nothing for another dataset.

        What was decided about the columns, and warnings, go to stderr. The options are refused
        with a dataset that is no table, and a folder ``out`` that is that of the tables.
        """
        if not is_table(dataset):
            self.refuse_unless_table(dataset, edges)
            return None
        if dataset in TABLES:
            refuse_edges_of(dataset, edges)
        else:
            self._check_files(dataset, edges, out)

        with status(f"reading {dataset}"):
            from crossgcn.data.datasets.real import load_real
            from crossgcn.data.tables.graph import load_tables
            from crossgcn.reports.terminal.check import reading_lines

            if dataset in TABLES:
                graph = load_real(dataset, choices=self.choices())
            else:
                graph = load_tables(Path(dataset), edges, self.choices())
        terminal().print(*reading_lines(graph), sep="\n", highlight=False)
        return graph

    def _check_files(self, dataset: str, edges: Path | None, out: Path | None) -> None:
        """Refuse files that contradict the other arguments, or are no tables."""
        from crossgcn.graph.hop_file import is_hop_file  # imports torch

        if is_hop_file(dataset):
            raise BadInput(
                f"{dataset} holds columns of crossgcn hops, for crossgcn train alone; give the "
                "tables of nodes and of edges"
            )
        for table in (Path(dataset), edges):
            if out is not None and table is not None and out.resolve() == table.resolve().parent:
                raise BadInput(
                    f"--out {out} is where {table.name} is: give the results their own folder"
                )
        if self.target is None:
            raise BadInput(
                f"{dataset} is a table: give the column to predict as --target COLUMN "
                f"({self.command('check', dataset, edges)} lists the columns)"
            )

    def refuse_unless_table(self, dataset: str | None, edges: Path | None) -> None:
        """Refuse a second file and options for tables with a dataset that is no table."""
        given, dataset = self.given(), dataset or "citeseer"
        if (given or edges is not None) and Path(dataset).exists():
            raise BadInput(
                f"{dataset}: cannot tell that it is a table: end its name in one of "
                f"{', '.join(TABLE_ENDINGS)}"
            )
        remedy = (
            f"give two files, NODES.csv and EDGES.csv (or .tsv, .parquet), in place of {dataset}"
        )
        if edges is not None:
            raise BadInput(
                f"{edges} is one argument too many for {dataset}: {remedy}, or leave it out"
            )
        for name, value in given.items():
            raise BadInput(f"{option_name(name)} {value} is for tables of your own: {remedy}")

    def given(self) -> dict[str, Any]:
        """Return the options that the user gave."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_table(dataset: str | None) -> TypeGuard[str]:
    """Whether a dataset argument is the file name of a table, or a known dataset of tables."""
    return dataset is not None and (dataset in TABLES or dataset.lower().endswith(TABLE_ENDINGS))


def refuse_edges_of(name: str, edges: Path | None) -> None:
    """Refuse a table of edges with a known dataset, which has edges of its own."""
    if edges is not None:
        raise BadInput(f"{edges} is one argument too many: {name} has its own edges; leave it out")


def refuse_table_in_config(dataset: str, config: Path | None, command: str) -> None:
    """Refuse a table that a TOML file names as its dataset: tables are arguments."""
    if is_table(dataset):
        arguments = dataset if dataset in TABLES else f"{dataset} EDGES --target COLUMN"
        raise BadInput(
            f"{config}: {dataset} is a table, and tables are given as arguments: crossgcn "
            f"{command} {arguments} --config {config}, without dataset in the file"
        )


def _names(text: str | None) -> tuple[str, ...]:
    r"""Read column names from ``a,b``; a comma within a name is written ``\,``."""
    if text is None:
        return ()
    hidden = text.replace("\\,", "\0").split(",")
    return tuple(name.strip().replace("\0", ",") for name in hidden if name.strip())
