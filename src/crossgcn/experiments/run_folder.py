"""The folder that ``train`` leaves: a saved model, its runs, and the graph they saw.

========================  =====================================================
``config.json``, ...      the chosen model, as :mod:`~crossgcn.training.checkpoints` saves it
``chosen.json``           which of the runs it is, and hashes of all of the following
``graph.npz``             the graph in features and edges, unless it is one that has a name
``graph_folder.json``     or where its graph folder is, where it was only opened
``nodes.json``            the nodes' own names, where they have any
``MODEL/split-NN/``       every run, with its record, learning curve and model
========================  =====================================================
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import (
    add_checksum,
    checksum_matches,
    digest_of_file,
    read_json_object,
    write_json,
)
from crossgcn.data.graph_file import read_graph, save_graph
from crossgcn.data.splits import Split, make_splits
from crossgcn.data.stored.open import open_dataset
from crossgcn.errors import BadInput
from crossgcn.models.presets import get_preset
from crossgcn.training.checkpoints import MODEL_FILES, SavedModel, copy_model, load_saved
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS, RECORD, describe_dataset, describe_split

CHOSEN, GRAPH, NODES = "chosen.json", "graph.npz", "nodes.json"
FOLDER = "graph_folder.json"


@dataclass(frozen=True)
class FinishedRun:
    """One run of the folder.

    Attributes:
        folder: Where its model is.
        record: Its ``run.json``.
    """

    folder: Path
    record: dict[str, Any]

    def model(self) -> SavedModel:
        """Its model, read anew."""
        return load_saved(self.folder)

    def curve(self) -> dict[str, list[float]]:
        """Its metrics by name, one value per epoch."""
        try:
            with (self.folder / EPOCHS).open(newline="") as file:
                rows = list(csv.DictReader(file))
            return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{self.folder / EPOCHS}: cannot be read ({error}); train again"
            ) from None


@dataclass(frozen=True)
class RunFolder:
    """A run that can be explained, reported, and used to predict.

    Attributes:
        folder: Where it is.
        saved: The chosen model.
        chosen: The run it comes from.
        runs: All runs, that one included, in the order of their splits.
        data: The graph they were trained on.
        ids: The nodes' own names; their numbers where they have none.
        splits: Of the runs, by their index.
    """

    folder: Path
    saved: SavedModel
    chosen: FinishedRun
    runs: tuple[FinishedRun, ...]
    data: Data
    ids: Sequence[str]
    splits: tuple[Split, ...]

    @property
    def config(self) -> RunConfig:
        """What the runs were made with."""
        return RunConfig.create(**self.chosen.record["config"])

    @property
    def split(self) -> Split:
        """The one of the chosen run."""
        index: int = self.chosen.record["split"]["index"]
        return self.splits[index]

    def find(self, node: str) -> int:
        """Position of a node by its name.

        Raises:
            BadInput: If there is none of that name.
        """
        try:
            return self.ids.index(node)
        except ValueError:
            raise BadInput(
                f"{self.folder}: there is no node {node!r} among the {len(self.ids)} trained on; "
                f"the first are {', '.join(map(repr, self.ids[:3]))}"
            ) from None


def choose_model(
    folder: Path, model: str, data: Data, ids: Sequence[str] | None = None
) -> FinishedRun:
    """Make a folder of finished runs a saved model: that of the best validation accuracy.

    Test accuracy has no part in the choice; of equals the first is taken.

    Args:
        folder: Holds the runs, each with its model.
        model: The folder within it that holds those to choose from.
        data: The graph; kept in the folder unless it can be had by its name.
        ids: The nodes' own names.
    """
    runs = _finished_runs(folder / model)
    chosen = max(runs, key=lambda run: run.record["validation_accuracy"])
    stored = getattr(data, "stored", None)
    if stored is not None:
        write_json(folder / FOLDER, {"folder": str(stored.folder.resolve())})
    elif data.name not in CATALOGUE:
        save_graph(folder / GRAPH, data)
        write_json(folder / NODES, {"ids": None if ids is None else list(ids)})
    copy_model(chosen.folder, folder)
    description = {
        "run": chosen.folder.relative_to(folder).as_posix(),
        "dataset": describe_dataset(data),
        "files": {
            path.relative_to(folder).as_posix(): digest_of_file(path)
            for path in _described_files(folder, runs)
        },
    }
    write_json(folder / CHOSEN, add_checksum(description))
    return chosen


def open_run(folder: Path, *, load: bool = True) -> RunFolder:
    """Read what :func:`choose_model` left.

    Args:
        folder: Where it is.
        load: Load a graph that was only opened in training; else it is only opened here as well,
            and ``data`` has no features and edges, but ``stored``.

    Raises:
        BadInput: If there is no model, if something was changed or cut short, or if the graph
            is not the one that was trained on.
    """
    saved = load_saved(folder)
    description = _read_json(folder / CHOSEN)
    if not checksum_matches(description):
        raise _changed(folder / CHOSEN)
    place = folder / description["run"]
    for name, expected in description["files"].items():
        if digest_of_file(folder / name) != expected:
            raise _changed(folder / name)
    for name in MODEL_FILES:
        if digest_of_file(folder / name) != digest_of_file(place / name):
            raise _changed(folder / name)
    runs = tuple(
        run for run in _finished_runs(place.parent) if _is_listed(run, folder, description)
    )
    chosen = next((run for run in runs if run.folder == place), None)
    if chosen is None:
        raise BadInput(f"{place}: the chosen run is not there any more; train again")
    name, source = chosen.record["dataset"]["name"], folder / GRAPH
    ids: Sequence[str] | None = None
    if (folder / FOLDER).exists():
        source, data = _open_graph_folder(folder / FOLDER)
        data.name, ids = name, data.stored.ids
    elif name in CATALOGUE:
        data = load_dataset(name)
    else:
        data, ids = read_graph(folder / GRAPH), _read_names(folder / NODES)
        data.name = name
    if describe_dataset(data) != description["dataset"]:
        raise BadInput(
            f"{source}: is not the graph the model was trained on (its SHA-256 is another one); "
            "copy the whole folder again, or train again"
        )
    if load and getattr(data, "stored", None) is not None:
        data = data.stored.to_data()
        data.name = name
    config = RunConfig.create(**chosen.record["config"])
    if get_preset(config.model).inputs == "embedding":
        raise BadInput(
            f"{folder}: {config.model} sees no features, only places in the graph it was trained "
            "on, so there is nothing to explain and no way to score a new node; train another model"
        )
    return RunFolder(
        folder,
        saved,
        chosen,
        runs,
        data,
        tuple(map(str, range(data.num_nodes))) if ids is None else ids,
        _splits_of(runs, config, data),
    )


def _open_graph_folder(pointer: Path) -> tuple[Path, Data]:
    """The graph that was only opened in training, from where it was then."""
    path = Path(_read_json(pointer)["folder"])
    if not path.is_dir():
        raise BadInput(
            f"{pointer}: the model was trained on the graph folder {path}, which is not there any "
            "more; move it back, put a link to it there, or train again on it where it is now"
        )
    return path, open_dataset(path)


def _read_names(path: Path) -> tuple[str, ...] | None:
    ids = _read_json(path)["ids"]
    return None if ids is None else tuple(ids)


def _splits_of(runs: Sequence[FinishedRun], config: RunConfig, data: Data) -> tuple[Split, ...]:
    count = 1 + max(run.record["split"]["index"] for run in runs)
    own = config.splits == "public"
    splits = make_splits(
        data,
        config.splits,
        num_splits=count,
        train=config.train if not own or config.train == "all" else None,
        seed=config.seed,
    )
    for run in runs:
        index = run.record["split"]["index"]
        if run.record["split"] != {"index": index} | describe_split(splits[index]):
            raise BadInput(
                f"{run.folder / RECORD}: its split cannot be made again from the graph; train again"
            )
    return tuple(splits)


def _finished_runs(folder: Path) -> tuple[FinishedRun, ...]:
    runs = []
    for path in sorted(folder.glob(f"split-*/{RECORD}")):
        record = _read_json(path)
        if record.get("status") == "done":
            runs.append(FinishedRun(path.parent, record))
    if not runs:
        raise BadInput(f"{folder}: holds no finished run; make one with crossgcn train --out")
    return tuple(runs)


def _described_files(folder: Path, runs: Sequence[FinishedRun]) -> Iterator[Path]:
    """What a reader of the folder goes by, besides the model and the graph."""
    yield from (folder / name for name in (NODES, FOLDER) if (folder / name).exists())
    for run in runs:
        yield from (run.folder / name for name in (RECORD, EPOCHS, *MODEL_FILES))


def _is_listed(run: FinishedRun, folder: Path, description: dict[str, Any]) -> bool:
    """Whether a run was there when the model was chosen; others came later and do not count."""
    return (run.folder / RECORD).relative_to(folder).as_posix() in description["files"]


def _changed(path: Path) -> BadInput:
    return BadInput(
        f"{path}: is not what crossgcn train wrote there (its SHA-256 is another one): it was "
        "changed or cut short; copy the whole folder again, or train again"
    )


def _read_json(path: Path) -> dict[str, Any]:
    whence = "give the folder that crossgcn train made"
    return read_json_object(path, whence, "train again")
