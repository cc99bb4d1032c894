"""Cross-hops: a polynomial of named columns, and the mean of its bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from crossgcn import CrossGCNClassifier, build_model, load_model
from crossgcn.data.features import Preprocess, csr_tensor
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.graph.standardise import fit_scale
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.saved_models import save_model


def make_graph(num_nodes: int = 40) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    edges = torch.randint(num_nodes, (2, 120))
    return torch.rand(num_nodes, 3), torch.cat([edges, edges.flip(0)], dim=1)


def trained(order: int, bags: int, *, label_features: bool = False, outputs: int = 2) -> CrossHops:
    """A model with weights and gates as after training."""
    torch.manual_seed(1)
    model = CrossHops(
        3, 4, 1, outputs, dropout=0.5, order=order, bags=bags, label_features=label_features
    ).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight).requires_grad_(False)
    model.center.normal_()
    model.deviation.uniform_(0.5, 2)
    return model


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_scores_are_the_written_out_polynomial(order: int) -> None:
    x, edges = make_graph()
    model = trained(order, bags=2).double()
    columns = model.columns(x.double(), edges)
    assert isinstance(columns, Tensor)
    gates = model.transform.unit_order_weights() if order > 1 else torch.ones(1, 8)
    assert gates is not None
    for node in (0, 7):
        score = torch.zeros(2, dtype=torch.float64)
        for bag in range(2):
            for unit in range(4 * bag, 4 * bag + 4):
                product, value = 1.0, 0.0
                for k in range(order):
                    product = product * float(model.transform.weight[k, unit] @ columns[node])
                    value = value + float(gates[k, unit]) * product
                score += value * model.readout.weight[:, unit]
            score += model.readout.bias[2 * bag : 2 * bag + 2]
        torch.testing.assert_close(model(x.double(), edges)[node], score / 2)


def split_bags(model: CrossHops) -> list[CrossHops]:
    """The bags of a model, as models of their own."""
    order, size, outputs = model.order, model.readout.in_channels, model.readout.out_channels
    singles = []
    for bag in range(model.bags):
        single = CrossHops(model.plan.num_features, size, 1, outputs, order=order)
        units = slice(size * bag, size * (bag + 1))
        state = {
            "layers.0.weight": model.transform.weight[:, units],
            "layers.1.weight": model.readout.weight[:, units],
            "layers.1.bias": model.readout.bias[outputs * bag : outputs * (bag + 1)],
            "center": model.center,
            "deviation": model.deviation,
        }
        if order > 1:
            gates = model.transform.unit_order_weights()
            assert gates is not None
            state["layers.0.aggregator.gates"] = gates[1:, units].flatten()
        single.to(model.center).load_state_dict(single.state_dict() | state)
        singles.append(single.eval())
    return singles


@pytest.mark.parametrize("outputs", [2, 3])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_saved_model_of_bags_is_the_mean_of_its_bags(
    order: int, outputs: int, tmp_path: Path
) -> None:
    x, edges = make_graph()
    x = x.double()
    model = trained(order, bags=3, outputs=outputs)
    settings = {"hidden_channels": 4, "order": order, "bags": 3, "label_features": False}
    save_model(
        tmp_path,
        model.state_dict(),
        preset="cross-hops",
        in_channels=3,
        settings=settings,
        preprocess=Preprocess.numbered(outputs),
    )
    model = model.double()
    scores = torch.stack([single(x, edges) for single in split_bags(model)])
    for one in (model, load_model(tmp_path).double()):
        torch.testing.assert_close(one(x, edges), scores.mean(0), rtol=0, atol=1e-6)
    model.train()
    model.dropout.p = 0.0
    torch.testing.assert_close(model(x, edges), scores, rtol=0, atol=1e-6)


def test_rows_of_columns_score_as_the_graph_does() -> None:
    x, edges = make_graph()
    model = trained(2, bags=1, label_features=True)
    labels = neighbour_labels(torch.randint(2, (40,)), torch.arange(20), 2)
    columns = model.columns(x, edges, labels=labels)
    assert isinstance(columns, Tensor)
    rows = torch.tensor([3, 1, 30])
    torch.testing.assert_close(model(columns[rows]), model(x, edges, labels=labels)[rows])
    with pytest.raises(BadInput, match="sees the labels of neighbours: give labels"):
        model(x, edges)


def test_sparse_features_score_as_dense_ones() -> None:
    x, edges = make_graph()
    x = x * (x > 0.5)
    model = trained(3, bags=2)
    expected = model(x, edges)
    matrix = csr_array(x.numpy())
    sparse = csr_tensor(matrix.indptr, matrix.indices, matrix.data, (40, 3))
    torch.testing.assert_close(model(sparse, edges), expected, rtol=1e-4, atol=1e-4)


def test_gates_start_at_zero_so_training_starts_linear() -> None:
    x, edges = make_graph()
    model = CrossHops(3, 4, 1, 2, order=3).eval()
    columns = model.columns(x, edges)
    assert isinstance(columns, Tensor)
    model.set_scale(fit_scale(columns, 3))
    middle = (columns[:1] + columns[1:2]) / 2
    torch.testing.assert_close(
        model(middle)[0], (model(columns[0:1])[0] + model(columns[1:2])[0]) / 2
    )


def test_a_number_is_predicted_in_its_unit() -> None:
    x, edges = make_graph()
    model = build_model("cross-hops", 3, 1, hidden_channels=4, bags=2, label_features=False)
    standardised = model.eval()(x, edges)
    model.predict_number(mean=100.0, deviation=20.0)
    torch.testing.assert_close(model(x, edges), 100 + 20 * standardised)
    again = build_model("cross-hops", 3, 1, hidden_channels=4, bags=2, label_features=False)
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again.eval()(x, edges), model(x, edges))


@pytest.mark.parametrize("directed", [False, True])
def test_scores_have_a_gradient_for_the_features(directed: bool) -> None:
    torch.manual_seed(0)
    x, edges = torch.rand(12, 3, dtype=torch.float64), torch.randint(12, (2, 30))
    edges[:, edges[1] == 4] = 0  # node 4 has no in-neighbour
    weight = torch.rand(30, dtype=torch.float64)
    model = CrossHops(3, 4, 1, 2, order=3, directed=directed, label_features=True).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    labels = neighbour_labels(torch.arange(12) % 2, torch.arange(8), 2)

    def score(features: Tensor) -> Tensor:
        scores: Tensor = model(features, edges, weight, labels)
        return scores

    expected = score(x)
    x.requires_grad_()
    torch.testing.assert_close(score(x), expected, rtol=1e-6, atol=1e-6)
    assert torch.autograd.gradcheck(score, x)


@pytest.mark.parametrize("wrong", [-1.0, torch.nan, torch.inf])
def test_weights_that_give_no_means_are_refused(wrong: float) -> None:
    x, edges = make_graph()
    weight = torch.ones(edges.size(1))
    weight[5] = wrong
    with pytest.raises(BadInput, match="negative or not finite"):
        trained(1, bags=1)(x, edges, weight)


def test_dropout_after_a_training_is_drawn_anew_in_each_pass() -> None:
    x, edges = make_graph()
    classifier = CrossGCNClassifier(model="cross-hops", dropout=0.5, epochs=1)
    classifier.fit(x.numpy(), torch.arange(40) % 2, edge_index=edges)
    model: Any = classifier.model_.train()
    rows = torch.randn(20, model.plan.num_columns)
    assert not torch.equal(model(rows), model(rows))
