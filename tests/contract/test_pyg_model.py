"""What PyG's files test of ``BasicGNN``, explainers and attacks, for ``CrossGCN``.

Each test names the case of PyG's ``test/nn/models/test_basic_gnn.py``, ``test/explain`` or
``test/contrib/nn/models/test_rbcd_attack.py`` that it answers.
"""

from __future__ import annotations

import inspect
import io
import shutil
from typing import Any

import pytest
import torch
from contract_cases import EDGES, NODES, ORDERS, copy_weights, features, shake
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import (
    CaptumExplainer,
    DummyExplainer,
    Explainer,
    GNNExplainer,
    GraphMaskExplainer,
    PGExplainer,
    fidelity,
    unfaithfulness,
)
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GCN as PyGGCN
from torch_geometric.nn import GIN as PyGGIN
from torch_geometric.nn import to_hetero
from torch_geometric.utils import to_undirected

from crossgcn import (
    GCN,
    GIN,
    CrossGCN,
    CrossHops,
)

every_order = pytest.mark.parametrize("order", ORDERS)
assert_close = torch.testing.assert_close


def make(order: int = 2, **settings: Any) -> CrossGCN:
    torch.manual_seed(0)
    model: CrossGCN = shake(CrossGCN(8, 16, 2, 3, order=order, **settings))
    return model


@pytest.mark.parametrize("out", [None, 5])
@pytest.mark.parametrize("depth", [1, 3])
def test_gcn(out: int | None, depth: int) -> None:
    """With the weights of PyG's model, the one of order 1 computes the same.

    ``act``, ``norm`` and ``jk`` of PyG's models are not taken: put layers into PyG's own model.
    """
    theirs, ours = PyGGCN(8, 16, depth, out, 0.5), GCN(8, 16, depth, out, 0.5)
    assert (ours.in_channels, ours.out_channels) == (8, out or 16)
    assert ours.num_layers == len(ours.convs) == depth
    for conv, layer in zip(theirs.convs, ours.convs, strict=True):
        copy_weights(conv, layer)
    x = features(NODES, 8)
    assert_close(ours.eval()(x, EDGES), theirs.eval()(x, EDGES))


@pytest.mark.parametrize(
    ("ours", "theirs"), [(CrossGCN, PyGGCN), (GIN, PyGGIN), (CrossHops, PyGGCN)]
)
def test_positional_arguments_are_pygs(ours: Any, theirs: Any) -> None:
    depth = 1 if ours is CrossHops else 2
    model, other = ours(16, 8, depth, 3), theirs(16, 8, depth, 3)
    for name in ("in_channels", "out_channels"):
        assert getattr(model, name) == getattr(other, name)
    wanted = list(inspect.signature(theirs.__init__).parameters)[1:6]
    found = [
        name
        for name, parameter in inspect.signature(ours).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert found == wanted


@every_order
def test_packaging(order: int) -> None:
    model, file = make(order), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert_close(loaded(features(NODES, 8), EDGES), model(features(NODES, 8), EDGES))


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compile_graph_breaks() -> None:
    torch._dynamo.reset()
    model = make(order=3, add_self_loops=False)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert_close(compiled(features(NODES, 8), EDGES), model(features(NODES, 8), EDGES))


CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
MASKS = [("attributes", "object"), ("object", None), (None, "object"), ("common_attributes", None)]


@every_order
@pytest.mark.parametrize(("node_mask", "edge_mask"), MASKS)
def test_gnn_explainer(order: int, node_mask: str | None, edge_mask: str | None) -> None:
    explainer = Explainer(
        make(order),
        algorithm=GNNExplainer(epochs=3),
        explanation_type="model",
        node_mask_type=node_mask,
        edge_mask_type=edge_mask,
        model_config=CONFIG,
    )
    explanation = explainer(features(NODES, 8), EDGES, index=3)
    assert explanation.validate()
    for mask in (explanation.get("node_mask"), explanation.get("edge_mask")):
        assert mask is None or (mask.min() >= 0 and mask.max() <= 1 and mask.any())


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@every_order
def test_pg_explainer(order: int) -> None:
    x, y = features(NODES, 8), torch.arange(NODES) % 3
    explainer = Explainer(
        make(order),
        algorithm=PGExplainer(epochs=2),
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    for epoch in range(2):
        loss = explainer.algorithm.train(epoch, explainer.model, x, EDGES, target=y, index=3)
        assert loss == loss
    assert explainer(x, EDGES, target=y, index=3).edge_mask.shape == (EDGES.size(1),)


@every_order
def test_graph_mask_explainer(order: int) -> None:
    explainer = Explainer(
        make(order, add_self_loops=False),
        algorithm=GraphMaskExplainer(2, epochs=2, log=False),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    explanation = explainer(features(NODES, 8), EDGES, index=3)
    assert explanation.edge_mask.shape == (EDGES.size(1),)


@pytest.mark.filterwarnings("ignore:Input Tensor . did not already require:UserWarning")
@pytest.mark.filterwarnings("ignore:Setting .* hooks on ReLU:UserWarning")
@every_order
@pytest.mark.parametrize("method", CaptumExplainer.SUPPORTED_METHODS)
def test_captum_explainer(order: int, method: str) -> None:
    """Attributions to features and edges; integrated gradients add up to the score."""
    pytest.importorskip("captum")
    model, x = make(order, add_self_loops=False), features(NODES, 8)
    settings = {"n_steps": 40} if method == "IntegratedGradients" else {}
    if method == "ShapleyValueSampling":
        settings = {"n_samples": 1}
    explainer = Explainer(
        model,
        algorithm=CaptumExplainer(method, **settings),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type=None if method == "ShapleyValueSampling" else "object",
        model_config=CONFIG,
    )
    explanation = explainer(x, EDGES, index=3)
    assert explanation.validate() and explanation.node_mask.any()
    if method == "IntegratedGradients":
        score = (model(x, EDGES)[3] - model.convs[1].bias)[model(x, EDGES)[3].argmax()]
        added = explanation.node_mask.sum() + explanation.edge_mask.sum()
        assert_close(added, score, rtol=0.02, atol=0.02)


@every_order
def test_fidelity_and_unfaithfulness(order: int) -> None:
    explainer = Explainer(
        make(order),
        algorithm=DummyExplainer(),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
        threshold_config=("topk", 4),
    )
    explanation = explainer(features(NODES, 8), EDGES)
    assert all(0.0 <= each <= 1.0 for each in fidelity(explainer, explanation))
    assert 0.0 <= unfaithfulness(explainer, explanation) <= 1.0


@every_order
def test_hetero_explainer(order: int) -> None:
    data = HeteroData()
    data["a"].x, data["b"].x = features(4, 8), features(6, 8)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 3], [0, 5, 2]])
    data["b", "to", "a"].edge_index = torch.tensor([[0, 5, 2], [0, 1, 3]])
    data["a", "near", "a"].edge_index = torch.tensor([[0, 1], [1, 0]])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            model = CrossGCN(8, 16, 2, 3, order=order, add_self_loops=False)
            self.model = to_hetero(model, data.metadata())

        def forward(self, x: dict[str, Tensor], edge_index: dict[Any, Tensor]) -> Tensor:
            out: Tensor = self.model(x, edge_index)["a"]
            return out

    explainer = Explainer(
        Net().eval(),
        algorithm=GNNExplainer(epochs=2),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    explanation = explainer(data.x_dict, data.edge_index_dict, index=1)
    assert explanation["a", "to", "b"].edge_mask.shape == (3,)
    assert explanation["b"].node_mask.shape == (6, 8)


@pytest.mark.filterwarnings("ignore:'torch_geometric.contrib':UserWarning")
@pytest.mark.parametrize("name", ["PRBCDAttack", "GRBCDAttack"])
@every_order
def test_attacks(order: int, name: str) -> None:
    """Attacks need gradients of edge weights through normalisation."""
    from torch_geometric.contrib import nn as contributed

    torch.manual_seed(0)
    settings = {"epochs": 2, "epochs_resampling": 1} if name == "PRBCDAttack" else {}
    made = getattr(contributed, name)(make(order), block_size=40, log=False, **settings)
    edges = EDGES[:, EDGES[0] < EDGES[1]]
    edges = torch.cat([edges, edges.flip(0)], 1)
    y = torch.arange(NODES) % 3
    found, flipped = made.attack(features(NODES, 8), edges, y, budget=2)
    assert flipped.size(1) <= 2 and found.size(0) == 2


@every_order
def test_cross_hops(order: int) -> None:
    """It reads node features and COO edges as any model, and is saved and copied as any."""
    model: CrossHops = shake(CrossHops(8, 4, 1, 3, order=order, bags=2))
    x, file = features(NODES, 8), io.BytesIO()
    out = model(x, EDGES)
    assert out.shape == (NODES, 3)
    assert (model.in_channels, model.out_channels) == (8, 3)
    torch.save(model, file)
    file.seek(0)
    assert_close(torch.load(file, weights_only=False)(x, EDGES), out)
    assert_close(model(model.columns(x, EDGES)), out)


def test_gnn_explainer_finds_the_edge_and_the_features_that_matter() -> None:
    """Node 0 hears x₀·x₁ of node 1 and nothing that matters from nodes 2 to 5."""
    x = torch.ones(6, 4)
    x[2:] = 0.0
    edges = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    model = CrossGCN(4, 8, 1, 2, order_weights=[0.0, 1.0], normalize=False)
    conv: Any = model.layers[0]
    with torch.no_grad():
        conv.weight.zero_()
        conv.bias.copy_(torch.tensor([0.0, 2.0]))
        conv.weight[0, 0, 0] = conv.weight[1, 0, 1] = 3.0
    torch.manual_seed(0)
    explainer = Explainer(
        model.eval(),
        algorithm=GNNExplainer(epochs=60),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    explanation = explainer(x, edges, index=0)
    assert explanation.edge_mask.argmax() == 0
    assert set(explanation.node_mask[1].topk(2).indices.tolist()) == {0, 1}


def test_training_on_random_subgraphs_learns() -> None:
    torch.manual_seed(0)
    edges = to_undirected(torch.randint(60, (2, 90)))
    graph = Data(x=features(60, 8), edge_index=edges, y=torch.randint(3, (60,)))
    model = CrossGCN(8, 16, 2, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss(data: Data) -> Tensor:
        return functional.cross_entropy(model(data.x, data.edge_index), data.y)

    before = loss(graph).item()
    for _ in range(20):
        for batch in RandomNodeLoader(graph, num_parts=3, shuffle=True):
            optimizer.zero_grad()
            torch.autograd.backward(loss(batch))
            optimizer.step()
    assert loss(graph).item() < 0.8 * before


@pytest.mark.slow  # the C++ compiler needs 18 s
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.skipif(shutil.which("g++") is None, reason="the inductor needs a C++ compiler")
def test_inductor() -> None:
    torch._dynamo.reset()
    model = make(order=3, add_self_loops=False)
    compiled = torch.compile(model, fullgraph=True, backend="inductor")
    x = features(NODES, 8).requires_grad_()
    wanted, out = model(x, EDGES), compiled(x, EDGES)
    assert_close(out, wanted)
    gradients = (torch.autograd.grad(each.square().sum(), x) for each in (out, wanted))
    assert_close(next(gradients), next(gradients))
