"""The folder that ``train`` writes: a saved model, its runs, and the graph they were trained on.

========================  =====================================================
``config.json``, ...      the chosen model, as :mod:`~crossgcn.training.checkpoints` saves it
``chosen.json``           which run it comes from, and hashes of the files below
``graph.npz``             the graph, unless it is a known dataset or
``hop_file.json``         a file of ``crossgcn hops``: its path and SHA-256
``nodes.json``            the ids and the names of the nodes, if they have any
``splits.npz``            which nodes trained, validated and tested, by split
``MODEL/split-NN/``       every run, with its record, learning curve and model
========================  =====================================================
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import (
    read_hashed_json,
    read_json_object,
    read_npz,
    refuse_changed_files,
    sha256_of_file,
    sha256_of_files,
    write_hashed_json,
    write_json,
    write_npz,
)
from crossgcn.data.graph import ROLE_NAMES
from crossgcn.data.graph_file import read_graph, save_graph
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.hop_file import read_hop_file
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import CONFIG, MODEL_FILES, SavedModel, copy_model, load_saved
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS, RECORD, describe_dataset, describe_split

CHOSEN, GRAPH, NODES, SPLITS = "chosen.json", "graph.npz", "nodes.json", "splits.npz"
HOP_FILE = "hop_file.json"


@dataclass(frozen=True)
class FinishedRun:
    """One run of the folder and its ``run.json``."""

    folder: Path
    record: dict[str, Any]

    def model(self) -> SavedModel:
        """Load the saved model."""
        return load_saved(self.folder)

    def curve(self) -> dict[str, list[float]]:
        """Read the metrics by name, one value per epoch."""
        return read_curve(self.folder)


@dataclass(frozen=True)
class RunFolder:
    """A trained model with all it takes to explain, report and predict.

    Attributes:
        chosen: The run that the saved model comes from.
        runs: All runs in the order of their splits, the chosen one included.
        ids: The ids of the nodes; their numbers if they have none.
        names: What the nodes are called, if a column has names.
    """

    folder: Path
    saved: SavedModel
    chosen: FinishedRun
    runs: tuple[FinishedRun, ...]
    data: Data
    ids: Sequence[str]
    splits: tuple[Split, ...]
    names: Sequence[str] | None = None

    @property
    def config(self) -> RunConfig:
        """The configuration of the runs."""
        return RunConfig.create(**self.chosen.record["config"])

    @property
    def split(self) -> Split:
        """The split of the chosen run."""
        return self.split_of(self.chosen)

    def split_of(self, run: FinishedRun) -> Split:
        """Return the split of one of the runs."""
        index: int = run.record["split"]["index"]
        return self.splits[index]

    @property
    def roles(self) -> Tensor:
        """What the chosen run used each node for, as positions in ``ROLE_NAMES``, int8."""
        return roles_of(self.split, len(self.data.y))

    def labels(
        self, model: NodeClassifier, run: FinishedRun | None = None, y: Tensor | None = None
    ) -> NeighbourLabels | None:
        """Return what neighbours show of their labels: those of a run's training nodes.

        Args:
            model: The model of the run; ``None`` is returned if it sees no labels.
            run: The chosen one by default.
            y: Labels of all nodes, if nodes were added after those of the training graph.
        """
        if not isinstance(model, CrossHops) or not model.plan.num_labels:
            return None
        train = self.split_of(run or self.chosen).train
        return neighbour_labels(self.data.y if y is None else y, train, self.data.num_classes)

    @cached_property
    def shown(self) -> Sequence[str]:
        """How the nodes are shown to people: the name, if there is one, and the id."""
        if self.names is None:
            return self.ids
        pairs = zip(self.names, self.ids, strict=True)
        return tuple(f"{name} ({own})" if name else own for name, own in pairs)

    def find(self, node: str) -> int:
        """Return the position of a node by its id, or by its name if no other has it."""
        for known in (self.ids, self.shown):
            with suppress(ValueError):
                return known.index(node)
        named = [place for place, name in enumerate(self.names or ()) if node and name == node]
        if len(named) == 1:
            return named[0]
        if named:
            more = " and so on" * (len(named) > 10)
            raise BadInput(
                f"{self.folder}: {len(named)} nodes are called {node!r}; give an id: "
                f"{', '.join(self.ids[place] for place in named[:10])}{more}"
            )
        raise BadInput(
            f"{self.folder}: there is no node {node!r} among the {len(self.ids)} trained on; "
            f"the first are {', '.join(map(repr, self.shown[:3]))}"
        )


def validation_score(record: Mapping[str, Any]) -> float:
    """Return the score that selected a run's epoch: the larger, the better."""
    score: float = record["validation_score"]
    return score


def metrics_of_test(record: Mapping[str, Any]) -> dict[str, float]:
    """Return every metric of a run's test nodes."""
    test: dict[str, float] = record["test"]
    return test


def read_curve(folder: Path) -> dict[str, list[float]]:
    """Read the metrics of a run by name, one value per epoch."""
    path = folder / EPOCHS
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); train again") from None


def clear_model(folder: Path) -> None:
    """Remove the chosen model and its graph, so that no new run is taken for an older one."""
    for name in (CHOSEN, *MODEL_FILES, GRAPH, HOP_FILE, NODES, SPLITS):
        (folder / name).unlink(missing_ok=True)


def choose_model(
    folder: Path,
    model: str,
    data: Data,
    splits: Sequence[Split],
    ids: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    hop_file: Path | None = None,
) -> FinishedRun:
    """Save the model with the best validation score, the graph and the splits with its runs.

    Of equal runs the first is chosen. Test nodes are not used. ``model`` is the subfolder of
    the runs to choose from. The graph is saved unless it can be loaded by name, or is that of a
    ``hop_file``.
    """
    runs = _finished_runs(folder / model)
    chosen = max(runs, key=lambda run: validation_score(run.record))
    clear_model(folder)
    roles = torch.stack([roles_of(split, len(data.y)) for split in splits])
    write_npz(folder / SPLITS, {"roles": roles.numpy()})
    if hop_file is not None:
        about = {"file": str(hop_file.resolve()), "sha256": sha256_of_file(hop_file)}
        write_json(folder / HOP_FILE, about)
    elif not _is_known(data):
        save_graph(folder / GRAPH, data)
        nodes = {"ids": ids, "names": names}
        write_json(folder / NODES, {key: each and list(each) for key, each in nodes.items()})
    copy_model(chosen.folder, folder)
    of_runs = [run.folder / name for run in runs for name in (RECORD, EPOCHS, *MODEL_FILES)]
    described = [folder / name for name in (SPLITS, NODES, HOP_FILE) if (folder / name).exists()]
    files = (path.relative_to(folder).as_posix() for path in (*described, *of_runs))
    description = {
        "run": chosen.folder.relative_to(folder).as_posix(),
        "dataset": describe_dataset(data),
        "files": sha256_of_files(folder, files),
    }
    write_hashed_json(folder / CHOSEN, description)
    return chosen


def open_run(folder: Path) -> RunFolder:
    """Open a folder written by :func:`choose_model`.

    Raises:
        BadInput: If there is no model, a file was changed or cut short, or the graph is not the
            one of the training.
    """
    try:
        return _open_run(folder)
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        # The hashes are right, so that somebody wrote them anew.
        raise BadInput(f"{folder}: lacks a part of a run ({error!r}); {_IF_CHANGED}") from None


def _open_run(folder: Path) -> RunFolder:
    description = read_hashed_json(folder / CHOSEN, _IF_MISSING, _IF_CHANGED)
    _check_description(folder / CHOSEN, description)
    place = folder / description["run"]
    copies = sha256_of_files(place, MODEL_FILES)
    refuse_changed_files(folder, {**description["files"], **copies}, _IF_CHANGED)
    saved = load_saved(folder)
    runs = tuple(
        run
        for run in _finished_runs(place.parent)
        # Runs that were added after the choice are not listed, and do not count.
        if (run.folder / RECORD).relative_to(folder).as_posix() in description["files"]
    )
    chosen = next((run for run in runs if run.folder == place), None)
    if chosen is None:
        raise BadInput(f"{place}: the chosen run is not there any more; train again")
    data, ids, called = _open_graph(folder, description["dataset"])
    ids = tuple(map(str, range(data.num_nodes))) if ids is None else ids
    space, sizes = saved.preprocess.space, (data.num_nodes, data.num_classes)
    if (
        (len(ids), len(saved.preprocess.classes)) != sizes
        or (called is not None and len(called) != len(ids))
        or not all(isinstance(name, str) for name in (*ids, *(called or ())))
        or len(space.names if space else range(saved.in_channels)) != saved.in_channels
    ):
        raise BadInput(f"{folder}: names of nodes, classes or features do not fit; {_IF_CHANGED}")
    splits = _read_splits(folder / SPLITS, runs, data.num_nodes)
    return RunFolder(folder, saved, chosen, runs, data, ids, splits, called)


def _is_known(data: Data) -> bool:
    """Return whether a graph is the catalogue's, which a file of that name is not."""
    if data.name not in CATALOGUE:
        return False
    try:
        return describe_dataset(load_dataset(data.name)) == describe_dataset(data)
    except BadInput:  # not on this machine
        return False


def _open_graph(
    folder: Path, expected: dict[str, Any]
) -> tuple[Data, Sequence[str] | None, Sequence[str] | None]:
    """Return the graph of the training, and the ids and names of its nodes."""
    ids: Sequence[str] | None = None
    names: Sequence[str] | None = None
    source = folder / GRAPH
    if (folder / HOP_FILE).exists():
        about = _read_json(folder / HOP_FILE)
        source = Path(about["file"])
        if not source.is_file():
            raise BadInput(
                f"{folder / HOP_FILE}: the model was trained on {source}, which is not there any "
                "more; move it back, put a link to it there, or train again on it where it is now"
            )
        again = "write it again with crossgcn hops, and train again"
        refuse_changed_files(source.parent, {source.name: about["sha256"]}, again)
        table = read_hop_file(source)
        data, ids = table.data, table.ids
    elif (folder / NODES).exists():
        data = read_graph(source)
        nodes = _read_json(folder / NODES)
        ids, names = (each and tuple(each) for each in (nodes["ids"], nodes.get("names")))
    else:
        data = load_dataset(expected["name"])
    data.name = expected["name"]
    if describe_dataset(data) != expected:
        raise BadInput(
            f"{source}: is not the graph the model was trained on (its SHA-256 is another one); "
            "copy the whole folder again, or train again"
        )
    return data, ids, names


def refuse_overwriting(folder: Path, path: Path) -> None:
    """Refuse to write a result over what a run was made from, or over what it consists of.

    Args:
        folder: The folder of the run.
        path: The file to be written. A page or a table may lie in the folder.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder")
    if not path.exists():
        return
    training = _read_json(folder / CONFIG).get("training") or {}
    sources = [training.get("dataset"), training.get("edges")]
    for source in (each for each in sources if isinstance(each, str)):
        if Path(source).exists() and path.samefile(source):
            raise BadInput(f"{path}: the run was made from this file; give another name")
    inside = path.resolve().is_relative_to(folder.resolve())
    if inside and (path.suffix in (".json", ".npz", ".safetensors") or path.name == EPOCHS):
        raise BadInput(f"{path}: the run consists of this file; give another name")


def roles_of(split: Split, num_nodes: int) -> Tensor:
    """Return what a split uses each node for, as positions in ``ROLE_NAMES``, int8."""
    roles = torch.zeros(num_nodes, dtype=torch.int8)
    for role, name in enumerate(ROLE_NAMES[1:], 1):
        roles[getattr(split, name)] = role
    return roles


def _read_splits(path: Path, runs: Sequence[FinishedRun], num_nodes: int) -> tuple[Split, ...]:
    roles = torch.from_numpy(read_npz(path)["roles"])
    if roles.ndim != 2 or roles.size(1) != num_nodes:
        raise BadInput(f"{path}: has no role for each of {num_nodes:,} nodes; {_IF_CHANGED}")
    splits = tuple(
        Split(*(torch.nonzero(row == role).flatten() for role in (1, 2, 3))) for row in roles
    )
    for run in runs:
        index = run.record["split"]["index"]
        if not 0 <= index < len(splits):
            raise BadInput(
                f"{path.parent}: run `{run.folder.name}` is not in `{path.name}`: the folder mixes "
                "two trainings; use a new one"
            )
        if run.record["split"] != {"index": index} | describe_split(splits[index]):
            raise BadInput(f"{run.folder / RECORD}: {path.name} holds another split; train again")
    return splits


def _finished_runs(folder: Path) -> tuple[FinishedRun, ...]:
    runs = []
    for path in sorted(folder.glob(f"split-*/{RECORD}")):
        record = _read_json(path)
        if record.get("status") == "done":
            runs.append(FinishedRun(path.parent, record))
    if not runs:
        raise BadInput(f"{folder}: holds no finished run; make one with crossgcn train --out")
    return tuple(runs)


_IF_MISSING = "give the folder that crossgcn train made"
_IF_CHANGED = "copy the whole folder again, or train again"


def _check_description(path: Path, description: dict[str, Any]) -> None:
    """Refuse a description that lacks a part, or names files outside its folder."""
    run, dataset, files = (description.get(name) for name in ("run", "dataset", "files"))
    if not (isinstance(run, str) and isinstance(dataset, dict) and isinstance(files, dict)):
        raise BadInput(f"{path}: does not describe a run; {_IF_CHANGED}")
    for name in (run, *files):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BadInput(f"{path}: names {name}, which is outside the folder; {_IF_CHANGED}")


def _read_json(path: Path) -> dict[str, Any]:
    return read_json_object(path, _IF_MISSING, "train again")
