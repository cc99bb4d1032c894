"""Predictions for the nodes of a trained graph, and for new rows of a user's tables."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.data.tables.encode.column import Unseen
from crossgcn.data.tables.graph import as_features, as_matrix, load_new_tables, read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.layerwise import infer

DIGITS = 6
"""Decimal places of a written probability: few enough to be equal on every machine."""

_NODES_AT_ONCE = 65_536


def class_scores(model: NodeClassifier, data: Data, nodes: Tensor | None = None) -> Tensor:
    """Return class scores before the softmax, ``[nodes, classes]``, computed in float64.

    Processors round float32 sums differently. Scores in float64 differ by about 1e-14, far
    below any digit that is written. The model is not modified. ``nodes`` defaults to all.
    """
    exact = deepcopy(model).double().eval()
    graph = PreparedGraph(
        data.x, data.edge_index, getattr(data, "edge_weight", None), dtype=torch.float64
    )
    nodes = torch.arange(data.x.size(0)) if nodes is None else nodes
    with torch.no_grad():
        scores = [
            exact(*graph.view(part, model.propagations))[:, : model.num_scores]
            for part in torch.split(nodes, _NODES_AT_ONCE)
        ]
    return torch.cat(scores)


def class_probabilities(model: NodeClassifier, data: Data, nodes: Tensor | None = None) -> Tensor:
    """Return the softmax of :func:`class_scores`."""
    return class_scores(model, data, nodes).softmax(dim=1)


@dataclass(frozen=True)
class Scored:
    """Nodes with their class probabilities, ``[nodes, classes]``.

    Attributes:
        data: The graph in which the nodes were scored.
        nodes: Positions of the nodes in ``data``.
        unused: Columns of the table that the model was not trained with.
        unseen: Values that the model was not trained with, by column.
    """

    id_column: str
    ids: Sequence[str]
    probabilities: Tensor
    data: Data
    nodes: Tensor
    unused: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()


def score_known_nodes(run: RunFolder) -> Scored:
    """Score all nodes of the graph a model was trained on, including unlabelled ones."""
    saved = run.saved
    stored = getattr(run.data, "stored", None)
    if stored is not None and run.config.batch_size is not None:
        exact = deepcopy(saved.model).double()
        scores = infer(exact, source_of(stored))[:, : exact.num_scores]
        probabilities = scores.softmax(dim=1)
    else:
        data = run.data if stored is None else stored.to_data()
        probabilities = class_probabilities(saved.model, data)
    encoded = saved.preprocess.encoding is not None
    id_column = read_encoding(saved.preprocess)[1].id_column if encoded else "node"
    return Scored(id_column, run.ids, probabilities, run.data, torch.arange(len(run.ids)))


def score_new_nodes(run: RunFolder, nodes: Path, edges: Path | None) -> Scored:
    """Score nodes that were not in the training graph; nothing is trained.

    The new nodes are added to the training graph, so their edges may lead to known nodes as
    well as to each other.
    """
    try:
        encoder, plan = read_encoding(run.saved.preprocess)
    except BadInput as error:
        raise BadInput(f"{run.folder}: {error}") from None
    new = load_new_tables(nodes, edges, encoder, plan, run.ids)
    num_known, num_all = len(run.ids), len(run.ids) + len(new.ids)
    weights, own = run.data.get("edge_weight"), new.edge_weight
    if weights is not None:
        own = np.ones(new.edges.shape[1], np.float32) if own is None else own
        weights = torch.cat([weights, torch.from_numpy(own)])
    data = canonical_graph(
        Data(
            x=as_features(sp.csr_array(sp.vstack([as_matrix(run.data.x), new.x], format="csr"))),
            edge_index=torch.cat([run.data.edge_index, torch.from_numpy(new.edges)], dim=1),
            edge_weight=weights,
            y=torch.full((num_all,), -1),
            num_classes=run.data.num_classes,
            directed=run.data.get("directed"),
        ),
        str(nodes),
    )
    positions = torch.arange(num_known, num_all)
    probabilities = class_probabilities(run.saved.model, data, positions)
    return Scored(plan.id_column, new.ids, probabilities, data, positions, new.unused, new.unseen)


def predictions_frame(
    scored: Scored, classes: Sequence[str], crosses: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a row per node: id, predicted class, its probability, and that of every class.

    ``crosses`` is a text per node, for a last column ``top_crosses``.
    """
    probabilities = np.round(scored.probabilities.numpy(), DIGITS)
    best = scored.probabilities.argmax(dim=1).numpy()
    columns: list[tuple[str, Any]] = [
        ("predicted", [classes[label] for label in best]),
        ("probability", probabilities[np.arange(len(best)), best]),
        *((f"p({name})", probabilities[:, label]) for label, name in enumerate(classes)),
    ]
    if crosses is not None:
        columns.append(("top_crosses", list(crosses)))
    id_column = scored.id_column
    while id_column in dict(columns):
        id_column = f"{id_column} (id)"
    return pd.DataFrame(dict([(id_column, list(scored.ids)), *columns]))
