"""Choose which nodes train, validate and test, under five protocols."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.datasets.catalogue import locate_splits
from crossgcn.data.files import read_npz
from crossgcn.data.graph import ROLE_NAMES, is_labelled
from crossgcn.errors import BadInput, check_count, unknown_name

PROTOCOLS = ("random", "authors", "public", "stratified", "time")

NUM_RANDOM_SPLITS = 20
TRAIN_PER_CLASS = 20
"""Training nodes per class in the paper's splits, and the default of random ones."""

NUM_STRATIFIED_SPLITS = 5
VALIDATION_SHARE = TEST_SHARE = 0.2
"""Largest shares of each class in stratified splits, and shares of the newest nodes in splits by
time; the rest trains."""

LABELS_SHA256 = {
    "citeseer": "a33560b649dadb27528b35f6bf2a3976cdc61d2e24ae8db5f5d503233b0ef7aa",
    "cora": "d0018d7ffd314eb25a4904973f2c7eb1b7be135d668de42d453714724f8e9d03",
    "pubmed": "973a30d7c0567fe67fb9026058f1105859f87d44981b7b88992d648877d174c7",
}
"""SHA-256 of ``y`` as little-endian 64-bit integers, with -1 for unlabelled nodes."""


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of labelled nodes, each sorted, int64."""

    train: Tensor
    validation: Tensor
    test: Tensor


def make_splits(
    data: Data,
    protocol: str = "random",
    *,
    num_splits: int | None = None,
    train: int | str | None = None,
    seed: int = 0,
) -> list[Split]:
    """Make the splits of a protocol, and check each.

    - ``random`` takes validation and test nodes from row 0 of ``data.roles`` and draws training
      nodes class by class from the other labelled nodes.
    - ``authors`` takes the twenty splits released with the paper.
    - ``public`` takes the rows of ``data.roles``; a single row is repeated ``num_splits`` times.
    - ``stratified`` needs no roles. In every split it divides the labelled nodes of each class at
      random: 60 % to train, 20 % to validate and 20 % to test.
    - ``time`` needs ``data.node_time``. The oldest 60 % of the labelled nodes train, the next 20 %
      validate, and the newest 20 % test; nodes of the same time stay together.

    A drawn split depends on ``seed`` and its index only, not on the number of splits.

    Args:
        data: A graph from :func:`~crossgcn.data.load_dataset`.
        num_splits: By default 20 for ``random``, 5 for ``stratified``, else all that exist.
        train: Training nodes per class: by default 20 for ``random`` and all for
            ``stratified``. ``"all"``, under any protocol, trains on every labelled node outside
            validation and test. A share such as ``"10%"``, for ``stratified``, trains on this
            share of each class and validates on another, of at most half of the rest.
    """
    _check_request(protocol, num_splits, train)
    share = read_share(train)
    if protocol == "random":
        rows = [_graph_roles(data)[0]] * (num_splits or NUM_RANDOM_SPLITS)
        train = train or TRAIN_PER_CLASS
    elif protocol == "stratified":
        count = num_splits or NUM_STRATIFIED_SPLITS
        rows = [_stratify(data, seed, index, share) for index in range(count)]
    else:
        roles = {"authors": _authors_roles, "public": _graph_roles, "time": _split_by_time}
        rows = list(roles[protocol](data))
        num_splits = num_splits or len(rows)
        if len(rows) == 1:
            rows = rows * num_splits  # runs differ by their seeds
        if num_splits > len(rows):
            owner = "the authors released" if protocol == "authors" else f"{data.name} has"
            raise BadInput(
                f"num_splits is {num_splits}, but {owner} {len(rows)} split(s); ask for at most "
                f"{len(rows)}, or draw splits with --splits random or stratified"
            )
        rows = rows[:num_splits]
    if train == "all":
        rows = [torch.where(row < 2, is_labelled(data.y), row) for row in rows]
    elif train is not None and share is None and protocol in ("random", "stratified"):
        rows = [_draw_training(row, data, int(train), seed, i) for i, row in enumerate(rows)]
    return [
        _check_split(row, data, f"{data.name}, {protocol} split {index}")
        for index, row in enumerate(rows)
    ]


def read_share(train: int | str | None) -> float | None:
    """Return 0.1 for ``"10%"``, and ``None`` for what is no share; refuse 0 and 100 %."""
    if not isinstance(train, str) or train == "all":
        return None
    with suppress(ValueError):
        if train.endswith("%") and 0 < (share := float(train[:-1]) / 100) < 1:
            return share
    raise BadInput(f"train is {train!r}; give nodes per class, all, or a share such as 10%")


def _check_request(protocol: str, num_splits: int | None, train: int | str | None) -> None:
    if protocol not in PROTOCOLS:
        raise unknown_name("split protocol", protocol, PROTOCOLS)
    if num_splits is not None:
        check_count("num_splits", num_splits)
    if train is None or train == "all":
        return
    if read_share(train) is not None:
        if protocol != "stratified":
            raise BadInput(
                f"train is {train}, a share, but {protocol} splits are not drawn by shares; leave "
                "--train out, or use --splits stratified"
            )
        return
    check_count("train", train, "nodes per class, or 'all'")
    if protocol in ("public", "time") or (protocol == "authors" and train != TRAIN_PER_CLASS):
        raise BadInput(
            f"train is {train}, but {protocol} splits bring their own training nodes; leave "
            "--train out, or use --splits random or --train all"
        )


def _check_split(roles: Tensor, data: Data, where: str) -> Split:
    """Refuse a split with an empty set, an unlabelled node, or a class without training nodes."""
    sets = [torch.nonzero(roles == role).flatten() for role in (1, 2, 3)]
    for name, nodes in zip(ROLE_NAMES[1:], sets, strict=True):
        if len(nodes) == 0:
            raise BadInput(f"{where}: no {name} nodes; give at least one")
        for node in nodes[~is_labelled(data.y[nodes])][:1].tolist():
            raise BadInput(f"{where}: {name} node {node} has no label; take it out of every role")
    if not data.y.is_floating_point():
        counts = torch.bincount(data.y[sets[0]], minlength=data.num_classes)
        for label in torch.nonzero(counts == 0).flatten()[:1].tolist():
            raise BadInput(
                f"{where}: class {label} of 0 to {data.num_classes - 1} has no training node; add "
                "one, or number the classes without gaps"
            )
    return Split(*sets)


def _graph_roles(data: Data) -> Tensor:
    roles: Tensor | None = data.get("roles")
    if roles is None:
        raise BadInput(
            f"{data.name}: the graph has no roles, which name the validation and test nodes; add "
            "roles [splits, nodes] to its file (1 train, 2 validation, 3 test), or use --splits "
            "stratified"
        )
    return roles


def _authors_roles(data: Data) -> Tensor:
    name = "citeseer" if data.name.startswith("citeseer-cross") else data.name
    roles = torch.from_numpy(read_npz(locate_splits(name))["role"])
    labels = data.y.numpy(force=True).astype("<i8").tobytes()
    if hashlib.sha256(labels).hexdigest() != LABELS_SHA256[name]:
        raise BadInput(
            f"the authors' splits belong to the original {name}; this graph's labels differ; "
            "use --splits random or public"
        )
    # NOTE[D7]: 16 of Citeseer's 20 released training sets hold 1 to 4 unlabelled nodes.
    return torch.where(is_labelled(data.y), roles, 0)


def _split_by_time(data: Data) -> Tensor:
    """Cut the labelled nodes between two times, where it is closest to 60 and 80 %."""
    times: Tensor | None = data.get("node_time")
    if times is None:
        raise BadInput(
            f"{data.name}: the nodes have no time: name the column with it as --time-column"
        )
    labelled = is_labelled(data.y)
    moments, counts = torch.unique(times[labelled], return_counts=True)
    if len(moments) < 3:
        raise BadInput(
            f"{data.name}: the labelled nodes have {len(moments)} different times, and need 3, to "
            "train, validate and test; use --splits stratified"
        )
    older = counts.cumsum(0).double() / counts.sum()
    first = int((older[:-2] - (1 - VALIDATION_SHARE - TEST_SHARE)).abs().argmin())
    second = first + 1 + int((older[first + 1 : -1] - (1 - TEST_SHARE)).abs().argmin())
    roles = 1 + (times > moments[first]).to(torch.int8) + (times > moments[second])
    return torch.where(labelled, roles, 0).to(torch.int8)[None]


def _stratify(data: Data, seed: int, index: int, share: float | None = None) -> Tensor:
    """Divide each class separately, so that all three sets have the same class proportions."""
    generator = np.random.default_rng([seed, index])
    roles = torch.zeros(len(data.y), dtype=torch.int8)
    labels = torch.where(is_labelled(data.y), 0, -1) if data.y.is_floating_point() else data.y
    for label in range(data.num_classes):
        nodes = torch.nonzero(labels == label).flatten()
        if len(nodes) < 3:
            what = f"class {label}" if data.num_classes > 1 else "the target"
            raise BadInput(
                f"{data.name}: {what} has {len(nodes)} labelled nodes, and needs at least 3 "
                "to train, validate and test; label more of them, or merge it with another class"
            )
        test = max(1, round(TEST_SHARE * len(nodes)))
        validation = max(1, round(VALIDATION_SHARE * len(nodes)))
        if share is not None:
            train = max(1, round(share * len(nodes)))
            validation = min(max(1, (len(nodes) - train) // 2), train)
            test = len(nodes) - train - validation
        order = torch.from_numpy(generator.permutation(len(nodes)))
        roles[nodes] = 1
        roles[nodes[order[:test]]] = 3
        roles[nodes[order[test : test + validation]]] = 2
    return roles


def _draw_training(roles: Tensor, data: Data, per_class: int, seed: int, index: int) -> Tensor:
    """Replace the training nodes by ``per_class`` random nodes of each class."""
    if data.y.is_floating_point():
        raise BadInput(
            f"{data.name}: train is {per_class} nodes per class, but the target is a number; "
            "leave it out, or use --train all"
        )
    is_free = roles < 2
    roles = torch.where(is_free, 0, roles)
    generator = np.random.default_rng([seed, index])
    for label in range(data.num_classes):
        candidates = torch.nonzero(is_free & (data.y == label)).flatten()
        if len(candidates) < per_class:
            raise BadInput(
                f"{data.name}: class {label} has {len(candidates)} labelled nodes outside "
                f"validation and test, {per_class} are asked for; lower --train, or use --train all"
            )
        roles[candidates[generator.permutation(len(candidates))[:per_class]]] = 1
    return roles
