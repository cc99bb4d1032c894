from __future__ import annotations

import torch
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.graph.standardise import fit_scale, standardise
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import HopPerceptron
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import Trainer


def test_it_is_the_mean_of_perceptrons_on_the_columns_of_cross_hops(small_graph: Data) -> None:
    torch.manual_seed(0)
    config = RunConfig.create(model="mlp-hops", bags=3, hidden_channels=4)
    model = build_model(
        "mlp-hops", small_graph.x.size(1), small_graph.num_classes, **config.model_settings()
    ).eval()
    assert isinstance(model, HopPerceptron)
    torch.nn.init.normal_(model.hidden_bias)
    (split,) = make_splits(small_graph, "stratified", num_splits=1)
    columns = Trainer(small_graph, [split]).hop_columns(2, split, labels=True)
    model.set_scale(fit_scale(columns, small_graph.x.size(1)))
    rows = standardise(columns, model.scale)
    scores = model(rows)
    expected = torch.zeros_like(scores)
    for bag in range(3):
        units = slice(4 * bag, 4 * bag + 4)
        classes = slice(bag * small_graph.num_classes, (bag + 1) * small_graph.num_classes)
        hidden = (rows @ model.transform.weight[0, units].t() + model.hidden_bias[units]).relu()
        expected += (hidden @ model.readout.weight[:, units].t() + model.readout.bias[classes]) / 3
    torch.testing.assert_close(scores, expected)
