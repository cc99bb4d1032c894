"""What PyG's files test of ``BasicGNN``, explainers and attacks, for ``CrossGCN``.

Each test names the case of PyG's ``test/nn/models/test_basic_gnn.py``, ``test/explain`` or
``test/contrib/nn/models/test_rbcd_attack.py`` that it answers.
"""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest
import torch
from contract_cases import EDGES, NODES, ORDERS, features, shake
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Batch, Data, HeteroData
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
from torch_geometric.nn import GCN as PyGGCN
from torch_geometric.nn import GIN as PyGGIN
from torch_geometric.nn import to_hetero

from crossgcn import (
    GCN,
    GIN,
    BadInput,
    CrossGCN,
    CrossHops,
    NeighborLoader,
    PreparedGraph,
    Split,
    train_full_batch,
)

every_order = pytest.mark.parametrize("order", ORDERS)
assert_close = torch.testing.assert_close
ACTS = [None, "leaky_relu", torch.relu_, functional.elu, nn.ReLU()]
ACT_NAMES = ["none", "name", "torch", "functional", "module"]
NORMS = [None, "batch_norm", "layer_norm"]
JKS = [None, "last", "cat", "max", "lstm"]


def make(order: int = 2, **settings: Any) -> CrossGCN:
    torch.manual_seed(0)
    model: CrossGCN = shake(CrossGCN(8, 16, 2, 3, order=order, **settings))
    return model


@pytest.mark.parametrize("jk", range(len(JKS)), ids=map(str, JKS))
@pytest.mark.parametrize("act", range(len(ACTS)), ids=ACT_NAMES)
def test_gcn(act: int, jk: int) -> None:
    """With the weights of PyG's model, the one of order 1 computes the same."""
    norm, out = (act + jk) % len(NORMS), (None, 5)[(act + jk) % 2]
    settings: dict[str, Any] = {"act": ACTS[act], "norm": NORMS[norm], "jk": JKS[jk]}
    theirs, ours = PyGGCN(8, 16, 3, out, 0.5, **settings), GCN(8, 16, 3, out, 0.5, **settings)
    assert (ours.in_channels, ours.out_channels) == (8, out or 16)
    assert ours.num_layers == len(ours.convs) == 3
    with torch.no_grad():
        for conv, layer in zip(theirs.convs, ours.convs, strict=True):
            layer.load_state_dict(conv.state_dict())
        for name in ("jk", "lin", "norms"):
            if ours.stack is not None and hasattr(theirs, name):
                getattr(ours.stack, name).load_state_dict(getattr(theirs, name).state_dict())
    x = features(NODES, 8)
    assert_close(ours.eval()(x, EDGES), theirs.eval()(x, EDGES))


@pytest.mark.parametrize(("ours", "theirs"), [(CrossGCN, PyGGCN), (GCN, PyGGCN), (GIN, PyGGIN)])
def test_positional_arguments_are_pygs(ours: Any, theirs: Any) -> None:
    model, other = ours(16, 8, 2, 3), theirs(16, 8, 2, 3)
    for name in ("in_channels", "out_channels", "num_layers"):
        assert getattr(model, name) == getattr(other, name)
    wanted = list(inspect.signature(theirs.__init__).parameters)[1:12]
    found = [
        name
        for name, parameter in inspect.signature(ours).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert ours is GCN or found == wanted[: len(found)]


@every_order
@pytest.mark.parametrize("jk", JKS)
def test_one_layer_gnn(order: int, jk: str | None) -> None:
    model = CrossGCN(8, 16, 1, jk=jk, order=order)
    assert model(features(NODES, 8), EDGES).shape == (NODES, 16)


@every_order
def test_training_with_norm_and_jk(order: int) -> None:
    torch.manual_seed(0)
    model = CrossGCN(8, 16, 2, 3, 0.2, norm="batch_norm", jk="cat", order=order)
    x, y = features(NODES, 8), torch.arange(NODES) % 3
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x, EDGES), y)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@every_order
@pytest.mark.parametrize("aggr", ["gcn", "mean", "gat", "appnp"])
def test_basic_gnn_inference(order: int, aggr: str) -> None:
    model = make(order, aggr=aggr)
    weight = torch.linspace(0.2, 2.0, EDGES.size(1))
    data = Data(x=features(NODES, 8), edge_index=EDGES, edge_weight=weight)
    loader = NeighborLoader(data, [-1], batch_size=3)
    wanted = model(data.x, EDGES, weight)
    assert_close(model.inference(loader), wanted)
    assert_close(model.inference(loader, cache=True), wanted)
    assert "n_id" not in data


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "batch_norm", "jk": "last"},
        {"residual": "norm"},
        {"norm": "layer_norm"},
        {"norm": "graph_norm", "jk": "last"},
        {"norm": "pair_norm"},
    ],
    ids=str,
)
def test_inference_with_what_is_between_layers(settings: dict[str, Any]) -> None:
    model = make(**settings)
    data = Data(x=features(NODES, 8), edge_index=EDGES)
    assert_close(model.inference(NeighborLoader(data, [-1], batch_size=3)), model(data.x, EDGES))


@pytest.mark.parametrize("norm", ["batch_norm", "graph_norm", "instance_norm", "layer_norm"])
def test_batch(norm: str) -> None:
    """Each graph of a batch is normalised as if it were alone."""
    model = make(norm=norm, jk="cat")
    graphs = [Data(x=features(NODES, 8, seed=seed), edge_index=EDGES) for seed in (0, 1)]
    both = Batch.from_data_list(graphs)
    found = model(both.x, both.edge_index, batch=both.batch, batch_size=2)
    one = torch.zeros(NODES, dtype=torch.long)
    assert_close(found, torch.cat([model(each.x, EDGES, batch=one) for each in graphs]))


def test_training_refuses_norms_over_all_nodes() -> None:
    x, y = features(NODES, 8), torch.arange(NODES) % 3
    split = Split(*torch.arange(6).view(3, 2))
    with pytest.raises(BadInput, match=r"GraphNorm\(16\) normalises over all nodes"):
        train_full_batch(make(norm="graph_norm"), PreparedGraph(x, EDGES), y, split, epochs=1)


def test_inference_refuses_with_a_sentence() -> None:
    loader = NeighborLoader(Data(x=features(NODES, 8), edge_index=EDGES), [-1], batch_size=3)
    with pytest.raises(BadInput, match=r"call model.eval\(\)"):
        make().train().inference(loader)
    with pytest.raises(BadInput, match=r"with this jk cannot be computed layer by layer"):
        make(jk="cat").inference(loader)
    with pytest.raises(BadInput, match=r"CrossHops cannot be computed layer by layer"):
        CrossHops(8, 4, 3).eval().inference(loader)


def test_neighbor_loader() -> None:
    """Batches have what PyG's have, and all neighbours give the whole graph's output."""
    mask = torch.tensor([True, False, True, True, False, False, True])
    data = Data(x=features(NODES, 8), edge_index=EDGES, y=torch.arange(NODES), train_mask=mask)
    data.edge_weight = torch.linspace(0.2, 2.0, EDGES.size(1))
    model = make(normalize=False)
    wanted = model(data.x, EDGES, data.edge_weight)
    seen = []
    for batch in NeighborLoader(data, [-1, -1], mask, batch_size=2, shuffle=True):
        out = model(batch.x, batch.edge_index, batch.edge_weight)[: batch.batch_size]
        seeds = batch.n_id[: batch.batch_size]
        assert_close(out, wanted[seeds])
        assert torch.equal(batch.y, batch.n_id)
        seen += seeds.tolist()
    assert sorted(seen) == mask.nonzero().flatten().tolist()
    few = next(iter(NeighborLoader(data, [1], batch_size=NODES)))
    assert torch.bincount(few.edge_index[1]).max() == 1


@every_order
@pytest.mark.parametrize("jk", [None, "cat"])
def test_trim_to_layer(order: int, jk: str | None) -> None:
    """Layers leave out what the seed nodes no longer need, and compute the same for these."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(60, (2, 240), generator=generator)
    data = Data(x=features(60, 8), edge_index=edges, edge_weight=torch.rand(240))
    model, rows = make(order, normalize=False, jk=jk), []
    model.convs[1].register_forward_pre_hook(lambda _, given: rows.append(given[0].size(0)))
    for batch in NeighborLoader(data, [4, 3], batch_size=10):
        sampled = {
            "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
            "num_sampled_edges_per_hop": batch.num_sampled_edges,
        }
        given = batch.x, batch.edge_index, batch.edge_weight
        assert_close(model(*given, **sampled)[:10], model(*given)[:10])
        assert rows.pop(-2) == sum(batch.num_sampled_nodes[:2]) < rows.pop()


def test_trim_to_layer_after_several_hops() -> None:
    model = make(aggr="appnp", aggr_kwargs={"hops": 2})
    data = Data(x=features(NODES, 8), edge_index=EDGES)
    batch = next(iter(NeighborLoader(data, [-1] * 4, batch_size=1)))
    sampled = (batch.num_sampled_nodes, batch.num_sampled_edges)
    names = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")
    out = model(batch.x, batch.edge_index, **dict(zip(names, sampled, strict=True)))
    assert out.size(0) == sum(batch.num_sampled_nodes[:3])


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
    model: CrossHops = shake(CrossHops(8, 4, 3, order=order, bags=2))
    x, file = features(NODES, 8), io.BytesIO()
    out = model(x, EDGES)
    assert out.shape == (NODES, 3)
    assert (model.in_channels, model.out_channels) == (8, 3)
    torch.save(model, file)
    file.seek(0)
    assert_close(torch.load(file, weights_only=False)(x, EDGES), out)
    assert_close(model(model.columns(x, EDGES)), out)
