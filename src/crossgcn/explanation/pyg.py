"""Exact explanations in PyG's terms: masks of node features and of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import MaskType, ModelMode, ModelReturnType, ModelTaskLevel

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.node import NodeExplainer, NodeExplanation


class CrossExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """PyG's ``Explainer`` with the exact decomposition as its algorithm.

    The masks hold contributions to the class score, of either sign. In the mask of node
    features a cross counts in equal parts for the features it multiplies, which is the
    Shapley value of a product; the mask of edges holds what came along each.

    Example:
        ``Explainer(model, CrossExplainer(), explanation_type="model",
        node_mask_type="attributes", edge_mask_type="object", model_config=dict(
        mode="multiclass_classification", task_level="node", return_type="raw"))``
    """

    def forward(
        self,
        model: torch.nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """The masks of some nodes' class scores, added up over these nodes."""
        unknown = set(kwargs) - {"edge_weight"}
        if unknown:
            raise BadInput(
                f"CrossExplainer was given {', '.join(sorted(unknown))}, which is no input of a "
                "cross-feature graph convolution; give x, edge_index and, if any, edge_weight"
            )
        data = Data(x=x, edge_index=edge_index, **kwargs)
        explainer = NodeExplainer(model, data)
        nodes = _chosen_nodes(index, x.size(0))
        parts = [explainer.explain(node, int(target[node])) for node in nodes]
        node_mask = sp.csr_array(tuple(x.shape))
        for part in parts:
            node_mask = node_mask + feature_mask(part)
        masks = {"node_mask": torch.from_numpy(node_mask.toarray()).to(x.device, torch.float32)}
        if self.explainer_config.edge_mask_type is not None:
            flow = sum(flow_along_edges(part, edge_index) for part in parts)
            masks["edge_mask"] = torch.as_tensor(flow).to(x.device, torch.float32)
        return Explanation(**masks)

    def supports(self) -> bool:
        """Class scores of nodes, with a mask per feature of each node."""
        return bool(
            self.explainer_config.node_mask_type == MaskType.attributes
            and self.explainer_config.edge_mask_type in (None, MaskType.object)
            and self.model_config.mode == ModelMode.multiclass_classification
            and self.model_config.task_level == ModelTaskLevel.node
            and self.model_config.return_type == ModelReturnType.raw
        )


def _chosen_nodes(index: int | Tensor | None, num_nodes: int) -> list[int]:
    """The nodes an index chooses, as it would choose rows of a tensor."""
    if index is None:
        return list(range(num_nodes))
    given = torch.as_tensor(index)
    if given.dtype == torch.bool:
        if given.shape != (num_nodes,):
            raise BadInput(
                f"index is a mask of shape {list(given.shape)}, but the graph has {num_nodes} "
                "nodes; give one entry per node, or numbers of nodes"
            )
        given = given.nonzero()
    nodes: list[int] = given.reshape(-1).tolist()
    for node in nodes:
        if not -num_nodes <= node < num_nodes:
            raise BadInput(
                f"index holds node {node}, which does not exist; the graph has nodes 0 to "
                f"{num_nodes - 1}"
            )
    return [node % num_nodes for node in nodes]


def explanation_of(part: NodeExplanation) -> Explanation:
    """One node's explanation as PyG's, its inputs with it.

    Args:
        part: The explanation. Biases and what it leaves out are in no mask.
    """
    reading = part.reading
    edge_index = torch.from_numpy(reading.edges)
    return Explanation(
        x=torch.from_numpy(reading.features.toarray()).float(),
        edge_index=edge_index,
        node_mask=torch.from_numpy(feature_mask(part).toarray()).float(),
        edge_mask=torch.from_numpy(flow_along_edges(part, edge_index)).float(),
        prediction=torch.from_numpy(reading.logits).float(),
        target=torch.tensor(part.target),
        index=part.node,
    )


def feature_mask(part: NodeExplanation) -> sp.csr_array:
    """What each feature of each node contributes, ``[nodes, features]``.

    A cross counts in equal parts for its features. Where features are summed over
    neighbours before they are crossed, a feature's part goes to the nodes in
    proportion to what they bring to that sum.
    """
    shares = _shares(part)
    if not part.reading.of_neighbourhoods:
        return shares
    per_unit = _per_unit(part, shares)
    return sp.csr_array(part.reading.features.multiply(part.reading.adjacencies[0].T @ per_unit))


def flow_along_edges(part: NodeExplanation, edge_index: Tensor) -> Floats:
    """What came to the score along each edge, added up over the layers.

    What a node takes from itself came along no edge, unless the edges hold a self-loop. A
    contribution that took two edges counts for both.

    Args:
        part: The explanation.
        edge_index: Sources and targets, ``[2, edges]``.
    """
    reading = part.reading
    size = (reading.num_nodes, reading.num_nodes)
    flow = sp.coo_array(size)
    for position, step in zip(reversed(range(len(reading.layers))), part.paths.steps, strict=True):
        adjacency = reading.adjacencies[position]
        if adjacency is None:
            continue
        if position:
            sent = step.slopes @ reading.hidden[position - 1][step.nodes].T
        elif reading.of_neighbourhoods:
            flow = flow + _flow_into_sums(part)
            continue
        else:
            layer = reading.layers[0]
            linear, crosses = layer.apply(reading.inputs[step.nodes], None)
            sent = step.slopes @ (linear + crosses).T
        weights = adjacency[step.targets][:, step.nodes].tocoo()
        values = weights.data * sent[weights.row, weights.col]
        places = (step.targets[weights.row], step.nodes[weights.col])
        flow = flow + sp.coo_array((values, places), shape=size)
    return _pick(sp.coo_array(flow), edge_index.detach().cpu().numpy(), reading.num_nodes)


def _shares(part: NodeExplanation) -> sp.csr_array:
    """Contributions by the node where products are formed and by feature."""
    codes, shape = part.expansion.codes, part.reading.inputs.shape
    shares = sp.csr_array(shape)
    for terms in part.expansion.chunks():
        digits = codes.digits(terms.code)
        new = digits > 0
        new[:, 1:] &= digits[:, 1:] != digits[:, :-1]
        row, column = np.nonzero(new)
        values = (terms.contribution / np.maximum(new.sum(axis=1), 1))[row]
        nodes = part.paths.nodes[terms.row][row]
        features = codes.features[digits[row, column] - 1]
        shares = shares + sp.csr_array(sp.coo_array((values, (nodes, features)), shape=shape))
    return sp.csr_array(shares)


def _per_unit(part: NodeExplanation, shares: sp.csr_array) -> sp.csr_array:
    """What one unit of each summed feature contributes at each neighbourhood."""
    inputs = part.reading.inputs.copy()
    inputs.data = np.reciprocal(inputs.data, where=inputs.data != 0, out=np.zeros(inputs.nnz))
    return sp.csr_array(shares.multiply(inputs))


def _flow_into_sums(part: NodeExplanation) -> sp.coo_array:
    """What each node brings to the sums of features over neighbours."""
    per_unit = _per_unit(part, _shares(part))
    weights = part.reading.adjacencies[0].copy()
    used = np.diff(per_unit.indptr) > 0
    weights = sp.csr_array(sp.diags_array(used.astype(np.float64)) @ weights)
    return sp.coo_array(weights.multiply(per_unit @ part.reading.features.T))


def _pick(flow: sp.coo_array, edges: NDArray[np.int64], num_nodes: int) -> Floats:
    """The entries of a matrix that edges stand for; edges given twice share theirs."""
    key = edges[1] * num_nodes + edges[0]
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    flow.sum_duplicates()
    held = flow.row.astype(np.int64) * num_nodes + flow.col
    order = np.argsort(held)
    held, values = held[order], flow.data[order]
    place = np.minimum(np.searchsorted(held, key), max(held.size - 1, 0))
    if not held.size:
        return np.zeros(key.size)
    return np.where(held[place] == key, values[place], 0.0) / counts[inverse]
