"""The paper's protocol as a plain PyTorch loop, for its baseline SemiEmb."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from crossgcn import RunConfig, Split
from paper.baselines import SemiEmb, laplacian_penalty


@dataclass(frozen=True)
class Trained:
    """One training; accuracies are fractions at the selected epoch, which counts from 1."""

    best_epoch: int
    validation_accuracy: float
    test_accuracy: float


def train_semi_emb(
    data: Data,
    split: Split,
    config: RunConfig,
    laplacian_weight: float,
    seed: int,
    device: torch.device,
) -> Trained:
    """Train SemiEmb as crossgcn trains its presets.

    Adam over the whole graph, weight decay on matrices alone (NOTE[D5]), and the first epoch of
    strictly best validation accuracy (NOTE[D6]).
    """
    torch.manual_seed(seed)
    data = data.clone().to(device)
    sizes = (data.x.size(1), config.hidden_channels, data.num_classes)
    model = SemiEmb(*sizes, config.dropout).to(device)
    train_nodes = split.train.to(device)
    optimizer = torch.optim.Adam(
        [
            {"params": [weight], "weight_decay": config.weight_decay if weight.dim() > 1 else 0.0}
            for weight in model.parameters()
        ],
        lr=config.learning_rate,
        fused=True,
    )

    @torch.no_grad()
    def accuracy(nodes: Tensor) -> float:
        nodes = nodes.to(device)
        predicted = model.eval()(data.x, data.edge_index)[nodes].argmax(dim=-1)
        return float((predicted == data.y[nodes]).double().mean())

    best_epoch, best_score, best_state = 0, -1.0, model.state_dict()
    for epoch in range(1, config.epochs + 1):
        model.train()
        optimizer.zero_grad()
        scores = model(data.x, data.edge_index)
        loss = functional.cross_entropy(scores[train_nodes], data.y[train_nodes])
        loss = loss + laplacian_weight * laplacian_penalty(scores, data.edge_index)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        score = accuracy(split.validation)
        if score > best_score:
            best_epoch, best_score, best_state = epoch, score, deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    return Trained(best_epoch, best_score, accuracy(split.test))
