"""Exact explanations as PyG's masks of node features and of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import MaskType, ModelMode, ModelReturnType, ModelTaskLevel

from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import check_nodes
from crossgcn.explanation.node import NodeExplainer, NodeExplanation
from crossgcn.explanation.reading import Floats, Ints


class CrossExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """The exact explanation as an algorithm of PyG's ``Explainer``.

    The masks hold signed contributions to the class score. In the mask of node features, a cross
    counts in equal parts for the features it multiplies (the Shapley value of a product). The
    mask of edges holds what each edge passed on.

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
        """Return the masks for the class scores of some nodes, summed over these nodes."""
        unknown = set(kwargs) - {"edge_weight"}
        if unknown:
            raise BadInput(
                f"CrossExplainer was given {', '.join(sorted(unknown))}, which is no input of a "
                "cross-feature graph convolution; give x, edge_index and, if any, edge_weight"
            )
        explainer = NodeExplainer(model, Data(x=x, edge_index=edge_index, **kwargs))
        num_nodes = x.size(0)
        nodes = check_nodes("index", torch.arange(num_nodes) if index is None else index, num_nodes)
        for node in nodes.tolist():
            if not -num_nodes <= node < num_nodes:
                raise BadInput(
                    f"index holds node {node}, which does not exist; the graph has nodes 0 to "
                    f"{num_nodes - 1}"
                )
        parts = [explainer.explain(int(node), int(target[node])) for node in nodes % num_nodes]
        node_mask = sp.csr_array(tuple(x.shape))
        for part in parts:
            node_mask = node_mask + feature_mask(part)
        masks = {"node_mask": torch.from_numpy(node_mask.toarray()).to(x.device, torch.float32)}
        if self.explainer_config.edge_mask_type is not None:
            flow = sum(flow_along_edges(part, edge_index) for part in parts)
            masks["edge_mask"] = torch.as_tensor(flow).to(x.device, torch.float32)
        return Explanation(**masks)

    def supports(self) -> bool:
        """Return whether the settings ask for class scores of nodes and a mask per feature."""
        return bool(
            self.explainer_config.node_mask_type == MaskType.attributes
            and self.explainer_config.edge_mask_type in (None, MaskType.object)
            and self.model_config.mode == ModelMode.multiclass_classification
            and self.model_config.task_level == ModelTaskLevel.node
            and self.model_config.return_type == ModelReturnType.raw
        )


def explanation_of(part: NodeExplanation) -> Explanation:
    """Convert the explanation of one node; biases and what it leaves out are in no mask."""
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
    """Return the contribution of each feature of each node, ``[nodes, features]``.

    A cross counts in equal parts for its features. If features are summed over neighbours
    before they are multiplied, the part of a feature is divided among the nodes in proportion to
    what they add to that sum.
    """
    shares = _shares(part)
    if not part.reading.of_neighbourhoods:
        return shares
    per_unit = _per_unit(part, shares)
    return sp.csr_array(part.reading.features.multiply(part.reading.adjacencies[0].T @ per_unit))


def flow_along_edges(part: NodeExplanation, edge_index: Tensor) -> Floats:
    """Return the contribution that came along each edge, summed over the layers.

    What a node takes from itself came along no edge, unless there is a self-loop. A contribution
    that came along two edges counts for both.
    """
    reading = part.reading
    size = (reading.num_nodes, reading.num_nodes)
    flow = sp.coo_array(size)
    for position, step in zip(reversed(range(len(reading.layers))), part.steps, strict=True):
        adjacency = reading.adjacencies[position]
        if adjacency is None:
            continue
        if position:
            sent = step.slopes @ np.maximum(reading.outputs[position - 1][step.nodes], 0.0).T
        elif reading.of_neighbourhoods:
            flow = flow + _flow_into_sums(part)
            continue
        else:
            linear, crosses = reading.layers[0].apply(reading.inputs[step.nodes], None)
            sent = step.slopes @ (linear + crosses).T
        weights = adjacency[step.targets][:, step.nodes].tocoo()
        values = weights.data * sent[weights.row, weights.col]
        places = (step.targets[weights.row], step.nodes[weights.col])
        flow = flow + sp.coo_array((values, places), shape=size)
    return _pick(sp.coo_array(flow), edge_index.detach().cpu().numpy(), reading.num_nodes)


def _shares(part: NodeExplanation) -> sp.csr_array:
    """Return the contributions by feature, at the node where the products are formed."""
    codes, shape = part.expansion.codes, part.reading.inputs.shape
    shares = sp.csr_array(shape)
    for terms in part.expansion.chunks():
        digits = codes.digits(terms.code)
        new = digits > 0
        new[:, 1:] &= digits[:, 1:] != digits[:, :-1]
        row, column = np.nonzero(new)
        values = (terms.contribution / np.maximum(new.sum(axis=1), 1))[row]
        nodes = part.nodes[terms.row][row]
        features = codes.features[digits[row, column] - 1]
        shares = shares + sp.csr_array(sp.coo_array((values, (nodes, features)), shape=shape))
    return sp.csr_array(shares)


def _per_unit(part: NodeExplanation, shares: sp.csr_array) -> sp.csr_array:
    """Divide shares by the summed features: the contribution of one unit of each feature."""
    inputs = part.reading.inputs.copy()
    inputs.data = np.reciprocal(inputs.data, where=inputs.data != 0, out=np.zeros(inputs.nnz))
    return sp.csr_array(shares.multiply(inputs))


def _flow_into_sums(part: NodeExplanation) -> sp.coo_array:
    """Return what each node contributes through the sums of features over neighbours."""
    per_unit = _per_unit(part, _shares(part))
    used = np.diff(per_unit.indptr) > 0
    weights = sp.diags_array(used.astype(np.float64)) @ part.reading.adjacencies[0]
    return sp.coo_array(sp.csr_array(weights).multiply(per_unit @ part.reading.features.T))


def _pick(flow: sp.coo_array, edges: Ints, num_nodes: int) -> Floats:
    """Return the entry of a matrix for each edge; duplicate edges share theirs."""
    flow.sum_duplicates()
    values = pd.Series(flow.data, index=flow.row.astype(np.int64) * num_nodes + flow.col)
    key = edges[1] * num_nodes + edges[0]
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return values.reindex(key, fill_value=0.0).to_numpy(np.float64) / counts[inverse]
