"""The folder that ``train`` writes: a saved model, its runs, and the graph they were trained on.

========================  =====================================================
``config.json``, ...      the chosen model, as :mod:`~crossgcn.training.saved_models` saves it
``chosen.json``           which run is the chosen one, and the SHA-256 of all other files; if
                          the graph is a file of ``crossgcn hops``, also its path and SHA-256
``graph.npz``             the graph, if it is not a file of ``crossgcn hops``
``nodes.json``            the ids and names of the nodes, if they have any
``splits.npz``            which nodes trained, validated and tested, by split
``MODEL/split-NN/``       every run, with its record, learning curve and model
========================  =====================================================
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

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
from crossgcn.data.graph import ROLE_NAMES, read_graph, save_graph
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.hop_file import read_hop_file
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS, RECORD
from crossgcn.training.saved_models import CONFIG, MODEL_FILES, SavedModel, copy_model, load_saved

if TYPE_CHECKING:
    from crossgcn.experiments.experiment import Experiment

CHOSEN, GRAPH, NODES, SPLITS = "chosen.json", "graph.npz", "nodes.json", "splits.npz"

_IF_MISSING = "give the folder that crossgcn train made"
_IF_CHANGED = "copy the whole folder again, or train again"


@dataclass(frozen=True)
class FinishedRun:
    """One run of the folder, and the content of its ``run.json``."""

    folder: Path
    record: dict[str, Any]

    def model(self) -> SavedModel:
        """Load the saved model."""
        return load_saved(self.folder)

    def curve(self) -> dict[str, list[float]]:
        """Read the learning curves: for each metric, one value per epoch."""
        with (self.folder / EPOCHS).open(newline="") as file:
            names, *rows = csv.reader(file)
        columns = zip(*rows, strict=True)
        return {name: list(map(float, each)) for name, each in zip(names, columns, strict=True)}


@dataclass(frozen=True)
class RunFolder:
    """A trained model, with everything that explaining, reporting and predicting need.

    Attributes:
        chosen: The run of the saved model.
        runs: All runs in the order of their splits, the chosen one included.
        ids: The ids of the nodes; by default their positions.
        names: The names of the nodes, if a column has names.
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
        """The role of each node in the chosen run, as a position in ``ROLE_NAMES``, int8."""
        return roles_of(self.split, len(self.data.y))

    def labels(
        self, model: NodeClassifier, run: FinishedRun | None = None, data: Data | None = None
    ) -> NeighbourLabels | None:
        """Return the labels that neighbours show: those of a run's training nodes.

        Args:
            model: The model of the run; if it takes no labels, ``None`` is returned.
            run: By default the chosen run.
            data: The graph, if nodes were added to that of the training.
        """
        if not isinstance(model, CrossHops) or not model.plan.num_labels:
            return None
        train = self.split_of(run or self.chosen).train
        data = self.data if data is None else data
        return neighbour_labels(data.y, train, self.data.num_classes, data.get("node_time"))

    @cached_property
    def shown(self) -> Sequence[str]:
        """The nodes as shown to users: the name, if there is one, and the id."""
        if self.names is None:
            return self.ids
        pairs = zip(self.names, self.ids, strict=True)
        return tuple(f"{name} ({node})" if name else node for name, node in pairs)

    def find(self, node: str) -> int:
        """Return the position of a node by its id, or by its name if that is unique."""
        for known in (self.ids, self.shown):
            if node in known:
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
            f"{self.folder}: there is no node {node!r} among the {len(self.ids):,} trained on; "
            + self._like(node)
        )

    def _like(self, node: str) -> str:
        """Return the first nodes whose id or name begins like this one, or else the first."""
        like = [each for each in self.shown if node and each.lower().startswith(node.lower())][:3]
        words = "did you mean" if like else "the first are"
        return f"{words} {', '.join(map(repr, like or self.shown[:3]))}{'?' * bool(like)}"


def clear_model(folder: Path) -> None:
    """Remove the chosen model and its graph, so that they are not mixed with new runs."""
    for name in (CHOSEN, *MODEL_FILES, GRAPH, NODES, SPLITS):
        (folder / name).unlink(missing_ok=True)


def choose_model(
    folder: Path,
    experiment: Experiment,
    ids: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    hop_file: Path | None = None,
) -> FinishedRun:
    """Save the model with the best validation score, the graph and the splits.

    The first of several equal runs is chosen. Test nodes are not used.

    Args:
        folder: The folder where ``experiment``, of one configuration, saved its models.
        ids: The ids of the nodes, if they have any; likewise ``names``.
        hop_file: The file that holds the graph, which is then not saved again.
    """
    (model,), data, splits = experiment.folders, experiment.data, experiment.splits
    runs = [_read_run(folder / model / f"split-{split:02d}") for split in range(len(splits))]
    chosen = max(runs, key=lambda run: run.record["validation_score"])
    clear_model(folder)
    roles = torch.stack([roles_of(split, len(data.y)) for split in splits])
    write_npz(folder / SPLITS, {"roles": roles.numpy()})
    about: dict[str, Any] = {
        "run": f"{model}/{chosen.folder.name}",
        "runs": [f"{model}/{run.folder.name}" for run in runs],
        "dataset": data.name,
    }
    if hop_file is not None:
        about["hop_file"] = str(hop_file.resolve())
        about["hop_file_sha256"] = sha256_of_file(hop_file)
    else:
        save_graph(folder / GRAPH, data)
        nodes = {"ids": ids, "names": names}
        write_json(folder / NODES, {key: each and list(each) for key, each in nodes.items()})
    copy_model(chosen.folder, folder)
    files = [name for name in (SPLITS, GRAPH, NODES) if (folder / name).exists()]
    files += [f"{run}/{name}" for run in about["runs"] for name in (RECORD, EPOCHS, *MODEL_FILES)]
    about["files"] = sha256_of_files(folder, files)
    write_hashed_json(folder / CHOSEN, about)
    return chosen


def open_run(folder: Path) -> RunFolder:
    """Open a folder written by :func:`choose_model`.

    Raises:
        BadInput: If there is no model, or a file is missing, changed or cut short.
    """
    about = read_hashed_json(folder / CHOSEN, _IF_MISSING, _IF_CHANGED)
    copies = sha256_of_files(folder / about["run"], MODEL_FILES)
    refuse_changed_files(folder, {**about["files"], **copies}, _IF_CHANGED)
    runs = tuple(_read_run(folder / name) for name in about["runs"])
    chosen = runs[about["runs"].index(about["run"])]
    splits = tuple(
        Split(*(torch.nonzero(row == role).flatten() for role in (1, 2, 3)))
        for row in torch.from_numpy(read_npz(folder / SPLITS)["roles"])
    )
    data, ids, names = _open_graph(folder, about)
    data.name = about["dataset"]
    return RunFolder(folder, load_saved(folder), chosen, runs, data, ids, splits, names)


def _open_graph(
    folder: Path, about: dict[str, Any]
) -> tuple[Data, Sequence[str], Sequence[str] | None]:
    """Return the training graph, and the ids and names of its nodes."""
    if "hop_file" in about:
        source = Path(about["hop_file"])
        if not source.is_file():
            raise BadInput(
                f"{folder}: the model was trained on {source}, which is not there any more; move "
                "it back, put a link there, or train again on the file at its new place"
            )
        again = "write it again with crossgcn hops, and train again"
        refuse_changed_files(source.parent, {source.name: about["hop_file_sha256"]}, again)
        table = read_hop_file(source)
        return table.data, table.ids, table.names
    data = read_graph(folder / GRAPH)
    nodes = read_json_object(folder / NODES, _IF_MISSING, _IF_CHANGED)
    return data, tuple(nodes["ids"] or map(str, range(data.num_nodes))), nodes["names"]


def refuse_overwriting(folder: Path, path: Path) -> None:
    """Refuse to overwrite the tables that a run was trained on, or the files of the run.

    Args:
        folder: The folder of the run.
        path: The file to be written. A page or a table may be in the folder.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder")
    if not path.exists():
        return
    config = read_json_object(folder / CONFIG, _IF_MISSING, _IF_CHANGED)
    training = config.get("training") or {}
    through = (training.get("tables") or {}).get("through")
    sources = [training.get("dataset"), *(training.get("edges") or ()), *(through or ())]
    words = [each for each in sources if isinstance(each, str)]
    for source in [*words, *(each.partition("=")[2] for each in words)]:
        if source and Path(source).exists() and path.samefile(source):
            raise BadInput(f"{path}: the run was trained on this file; give another name")
    inside = path.resolve().is_relative_to(folder.resolve())
    if inside and (path.suffix in (".json", ".npz", ".safetensors") or path.name == EPOCHS):
        raise BadInput(f"{path}: this file is part of the run; give another name")


def roles_of(split: Split, num_nodes: int) -> Tensor:
    """Return the role of each node in a split, as a position in ``ROLE_NAMES``, int8."""
    roles = torch.zeros(num_nodes, dtype=torch.int8)
    for role, name in enumerate(ROLE_NAMES[1:], 1):
        roles[getattr(split, name)] = role
    return roles


def _read_run(folder: Path) -> FinishedRun:
    return FinishedRun(folder, read_json_object(folder / RECORD, _IF_MISSING, "train again"))
