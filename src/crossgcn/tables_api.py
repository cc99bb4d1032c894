"""A user's own tables in Python: train, compare, explain, predict, report."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pydantic import ValidationError

from crossgcn.data.tables.graph import (
    AnyEdges,
    AnyTable,
    TableGraph,
    describe_encoding,
    load_tables,
)
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import DEFAULT_TRIALS, configure_for_tables
from crossgcn.experiments.compare import table_experiment
from crossgcn.experiments.experiment import Experiment, RepeatedRuns
from crossgcn.experiments.predict import predict_nodes
from crossgcn.experiments.run_folder import RunFolder, choose_model, open_run
from crossgcn.explanation.api import explain, list_largest_terms
from crossgcn.reports.page.render import write_report
from crossgcn.reports.summaries import summarise_candidates
from crossgcn.training.records import write_summary


def from_tables(
    nodes: AnyTable,
    edges: AnyEdges = None,
    target: str | None = None,
    *,
    through: Mapping[str, AnyTable] | None = None,
    **options: Any,
) -> TableModel:
    """Return a model of two tables, to be trained by :meth:`TableModel.fit`.

    Args:
        nodes: One row per node: a data frame, or a CSV, TSV, Parquet or XLSX file. Columns may
            hold texts, numbers, dates, lists and ids of any kind.
        edges: One row per edge, likewise; or several tables by the name of their relation,
            ``{"borders": ..., "ties": ...}``.
        target: Column of ``nodes`` to predict: classes, or a number.
        through: Tables of nodes and things, such as planes and routes, by name: nodes that share
            a thing are neighbours.
        **options: Fields of :class:`~crossgcn.TableChoices`, such as ``id_column``, and of
            :class:`~crossgcn.RunConfig`, such as ``model`` (``"cross-hops"`` by default),
            ``order``, ``columns`` (``"auto"``), ``tuning`` or ``num_splits`` (10).

    Raises:
        BadInput: If the tables have errors; the message names file, row, value and remedy.
    """
    given = {name: options.pop(name) for name in TableChoices.model_fields if name in options}
    try:
        choices = TableChoices(target=target, **given)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadInput(f"{wrong['loc'][0]} is {wrong['input']!r}: {wrong['msg']}") from None
    model = TableModel(load_tables(nodes, edges, choices, through=through), options)
    files = {"dataset": _absolute(nodes), "edges": _list_files(edges)}
    model._source = {**files, "tables": choices.as_options()}
    if through:
        model._source["tables"]["through"] = _list_files(through)
    return model


class TableModel:
    """A model of a user's tables.

    It does what the commands ``train``, ``compare``, ``explain``, ``predict`` and ``report`` do,
    with the same results, and its folder is theirs.

    Attributes:
        graph: The tables as a graph, with what was decided about the columns (``graph.plan``)
            and the warnings (``graph.problems``); ``None`` after :meth:`load`.
        results: The records of all splits, after :meth:`fit`.
        run: The trained model with its graph, after :meth:`fit` or :meth:`load`.
    """

    def __init__(self, graph: TableGraph | None, settings: dict[str, Any] | None = None) -> None:
        self.graph = graph
        self.settings = dict(settings or {})
        self.results: RepeatedRuns | None = None
        self._run: RunFolder | None = None
        self._source: dict[str, Any] = {"dataset": None}

    @property
    def run(self) -> RunFolder:
        """The trained model with its graph."""
        if self._run is None:
            raise BadInput("the model is not trained yet; call fit()")
        return self._run

    def fit(
        self,
        out: Path | str | None = None,
        *,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
    ) -> Self:
        """Train on all splits; keep the model of best validation score.

        ``crossgcn train --config OUT/config.json`` repeats it. If the tables are data frames, it
        takes them as files: ``crossgcn train NODES EDGES --config OUT/config.json``.

        Args:
            out: Folder of the run; a temporary one by default.
            workers: As for :meth:`crossgcn.Experiment.run`, like ``threads`` and ``device``.
        """
        graph = self._tables()
        config = configure_for_tables(graph, {"splits": None, **self.settings})
        if out is None:
            out = tempfile.mkdtemp(prefix="crossgcn-")
            weakref.finalize(self, shutil.rmtree, out, ignore_errors=True)
        folder = Path(out)
        experiment = Experiment([config], graph.data, describe_encoding(graph))
        given = config.model_dump(mode="json", exclude={"dataset"}, exclude_none=True)
        (self.results,) = experiment.run(
            out=folder,
            save_models=True,
            workers=workers,
            threads=threads,
            device=device,
            training={**self._source, "settings": given},
        )
        choose_model(folder, experiment, graph.ids, graph.names)
        self._run = open_run(folder)
        return self

    @property
    def scores(self) -> pd.DataFrame:
        """Every metric of the test nodes, one row per split."""
        if self.results is None:
            raise BadInput("there are no scores before fit()")
        return pd.DataFrame(self.results.test)

    @property
    def columns(self) -> list[list[str]] | None:
        """The columns that the model of each split reads; ``None`` if they were not chosen.

        The most important comes first. A column of neighbours has a name like ``neighbours: age``.
        """
        if self.results is None:
            raise BadInput("there are no columns before fit()")
        if not self.results.config.drops_columns:
            return None
        return [record["columns"] for record in self.results.records]

    def compare(
        self,
        models: Sequence[str] | None = None,
        *,
        tuning: int = DEFAULT_TRIALS,
        baseline: str | None = None,
        out: Path | str | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        **settings: Any,
    ) -> dict[str, Any]:
        """Train many models on the same splits: do crosses, the graph or a black box help?

        Args:
            models: Names of candidates; all but the slowest by default.
            tuning: Trials per model.
            baseline: The model that the others are paired with.
            out: Folder for the records and the summary.
            workers: As for :meth:`fit`, like ``threads`` and ``device``.
            **settings: Settings for every model, such as ``num_splits``.

        Returns:
            The summary that ``crossgcn compare --json`` prints: ``models``, ``answers``,
            ``answer`` (in words), ``recommended``.
        """
        folder, started = None if out is None else Path(out), time.perf_counter()
        experiment = table_experiment(self._tables(), models, tuning, baseline, settings)
        compared = experiment.run(out=folder, workers=workers, threads=threads, device=device)
        summary = summarise_candidates(compared, baseline)
        summary["wall_seconds"] = time.perf_counter() - started
        if folder is not None:
            summary["out"] = str(folder)
            write_summary(folder, summary)
        return summary

    def explain(
        self,
        nodes: AnyTable | None = None,
        edges: AnyEdges = None,
        *,
        node: str | None = None,
        contrast: tuple[str | None, str | None] | None = None,
        since: TableModel | Path | str | None = None,
    ) -> Any:
        """Return the scores of all nodes as sums of named terms; see :func:`crossgcn.explain`.

        Args:
            nodes: Table of new nodes, as :meth:`predict` takes it; the nodes of the training table
                by default. The id of one of these alone is taken as ``node``.
            edges: Table of their edges, to each other or to nodes of the training table; of
                several relations, tables by name.
            node: Explain this node only: its id, or its name if it has one that no other node has.
            contrast: Two of the classes: why the first and not the second; ``None`` for one of them
                is the class that ``node`` is predicted as.
            since: An older model, or its folder: why the scores of its nodes changed since.
        """
        if isinstance(nodes, str) and nodes in self.run.ids and node is None:
            nodes, node = None, nodes
        return explain(self.run, nodes, edges, node=node, contrast=contrast, since=since)

    def predict(
        self,
        nodes: AnyTable | None = None,
        edges: AnyEdges = None,
        *,
        interval: float | None = None,
        terms: int | None = None,
    ) -> pd.DataFrame:
        """Return what is predicted for each node: a class with probabilities, or a number.

        Args:
            nodes: Table of new nodes with the columns of the training table; the nodes of the
                training table by default.
            edges: Table of their edges, to each other or to nodes of the training table; of
                several relations, tables by name.
            interval: Also return columns ``lower`` and ``upper``, between which this percentage of
                the truths lie, or a ``set`` of classes that holds it, joined by semicolons, if new
                nodes are from the same population as the validation nodes; 50 to 99.9. A set is
                empty if no class is likely enough.
            terms: Also return the largest terms of each node in words, so many.
        """
        predictions = predict_nodes(self.run, nodes, edges, interval=interval)
        for told in (*predictions.unseen, *predictions.notes):
            warnings.warn(str(told), stacklevel=2)
        if terms is None:
            return predictions.frame
        largest = list_largest_terms(self.run, nodes, edges, top=terms)
        return pd.concat([predictions.frame, largest], axis=1)

    def report(self, path: Path | str, *, comparison: Path | str | None = None) -> Path:
        """Write one HTML page about the model: scores, curves, mistakes, crosses, nodes.

        Args:
            path: The page to write.
            comparison: The folder ``out`` of :meth:`compare`, to show its answer.
        """
        path, compared = Path(path), None if comparison is None else Path(comparison)
        write_report(self.run, path, comparison=compared)
        return path

    def save(self, folder: Path | str) -> None:
        """Copy the run to a folder, for :meth:`load` and for the commands."""
        if Path(folder).exists() and any(Path(folder).iterdir()):
            raise BadInput(f"{folder} exists and is not empty; give another folder")
        shutil.copytree(self.run.folder, folder, dirs_exist_ok=True)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return a model that :meth:`save`, :meth:`fit` or ``crossgcn train`` wrote."""
        loaded = cls(None)
        loaded._run = open_run(Path(folder))
        return loaded

    def _tables(self) -> TableGraph:
        if self.graph is None:
            raise BadInput("a loaded model has no tables to train on; start with from_tables()")
        return self.graph

    def __repr__(self) -> str:
        if self._run is None:
            return f"TableModel({len(self._tables().ids):,} nodes, not trained yet)"
        return f"TableModel({self._run.config.model}, trained on {len(self._run.ids):,} nodes)"


def _absolute(table: AnyTable | None) -> str | None:
    """Return the path of a table; ``None`` if it is no file."""
    return str(Path(table).resolve()) if isinstance(table, str | Path) else None


def _list_files(edges: AnyEdges) -> list[str] | None:
    """Return tables of edges as a command takes them; ``None`` if they are no files."""
    if not isinstance(edges, Mapping):
        path = _absolute(edges)
        return None if path is None else [path]
    paths = {name: _absolute(table) for name, table in edges.items()}
    return [f"{name}={path}" for name, path in paths.items() if path] or None
