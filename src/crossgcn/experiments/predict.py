"""Predictions for new rows of a user's tables, with their edges."""

from __future__ import annotations

import copy
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

_NODES_AT_ONCE = 65_536


def class_scores(model: NodeClassifier, data: Data, nodes: Tensor | None = None) -> Tensor:
    """Class scores before the softmax, ``[nodes, classes]``, computed in 64 bits.

    Processors differ in how they round sums of 32-bit numbers. Computed in 64 bits, scores
    differ by some 1e-14, which is far below any digit that is written down.

    Args:
        model: A trained model; it is left as it is.
        data: Features and edges.
        nodes: Whose scores; all when left out.
    """
    exact = copy.deepcopy(model).double().eval()
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
    """Softmax of :func:`class_scores`; each row sums to 1."""
    return class_scores(model, data, nodes).softmax(dim=1)


DIGITS = 6
"""Of a probability, behind the point: what is written is the same on every machine."""


@dataclass(frozen=True)
class Scored:
    """Nodes with their probabilities.

    Attributes:
        id_column: What the ids are called.
        ids: Of the nodes scored.
        probabilities: ``[nodes, classes]``.
        data: The graph they were scored in.
        nodes: Their positions in it.
        unused: Columns of the table that the model was not trained with.
        unseen: Values that it knows nothing of, by column.
    """

    id_column: str
    ids: Sequence[str]
    probabilities: Tensor
    data: Data
    nodes: Tensor
    unused: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()


def score_known_nodes(run: RunFolder) -> Scored:
    """All nodes of the graph a model was trained on, those without a label included."""
    encoding = run.saved.preprocess.encoding
    stored = getattr(run.data, "stored", None)
    if stored is not None and run.config.batch_size is not None:
        exact = deepcopy(run.saved.model).double()
        scores = infer(exact, source_of(stored))[:, : exact.num_scores]
        probabilities = scores.softmax(dim=1)
    else:
        data = run.data if stored is None else stored.to_data()
        probabilities = class_probabilities(run.saved.model, data)
    return Scored(
        "node" if encoding is None else read_encoding(run.saved.preprocess)[1].id_column,
        run.ids,
        probabilities,
        run.data,
        torch.arange(len(run.ids)),
    )


def score_new_nodes(run: RunFolder, nodes: Path, edges: Path | None) -> Scored:
    """Nodes the model has not seen; their edges may lead to each other and to those it has.

    The known nodes keep their place in the graph, so that a new one profits from its known
    neighbours. Nothing is trained.

    Args:
        run: The trained model with its graph.
        nodes: Table of the new nodes.
        edges: Table of their edges.

    Raises:
        BadInput: Naming file, row, value and remedy.
    """
    try:
        encoder, plan = read_encoding(run.saved.preprocess)
    except BadInput as error:
        raise BadInput(f"{run.folder}: {error}") from None
    new = load_new_tables(nodes, edges, encoder, plan, run.ids)
    num_known, num_all = len(run.ids), len(run.ids) + len(new.ids)
    weights = None
    if "edge_weight" in run.data:
        own = (
            np.ones(new.edges.shape[1], np.float32) if new.edge_weight is None else new.edge_weight
        )
        weights = torch.cat([run.data.edge_weight, torch.from_numpy(own)])
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
    return Scored(
        plan.id_column,
        new.ids,
        class_probabilities(run.saved.model, data, positions),
        data,
        positions,
        new.unused,
        new.unseen,
    )


def predictions_frame(
    scored: Scored, classes: Sequence[str], crosses: Sequence[str] | None = None
) -> pd.DataFrame:
    """A row a node: its id, its class, how probable that is, and every class's probability.

    Args:
        scored: The nodes.
        classes: Names of the classes.
        crosses: Of each node, in words, where they were asked for.
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
