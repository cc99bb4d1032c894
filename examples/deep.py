"""Eight layers of crosses of order 3 on Citeseer, in the residual blocks of PyG's DeepGCNLayer.

Products of many factors vanish or explode as layers are stacked. A block that normalises its
input, crosses it and adds the result to the input trains at any depth.

    python examples/deep.py
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import DeepGCNLayer, LayerNorm

from crossgcn import CrossFeatureTransform, CrossGCNConv, load_dataset, make_splits


class DeepCrossGCN(nn.Module):
    """A linear map, blocks of normalisation, ReLU, dropout and a convolution, and a linear map."""

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, order: int
    ) -> None:
        super().__init__()
        self.embed = CrossFeatureTransform(in_channels, hidden_channels, order=1)
        self.blocks = nn.ModuleList(
            DeepGCNLayer(
                CrossGCNConv(hidden_channels, hidden_channels, order, cached=True),
                LayerNorm(hidden_channels, mode="node"),
                nn.ReLU(),
                block="res+",
                dropout=0.5,
            )
            for _ in range(num_layers)
        )
        self.read_out = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.embed(x)
        for block in self.blocks:
            hidden = block(hidden, edge_index)
        out: Tensor = self.read_out(functional.dropout(hidden.relu(), 0.5, self.training))
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--num-layers", type=int, default=8)
    parser.add_argument("--order", type=int, default=3)
    given = parser.parse_args()
    data = load_dataset("citeseer")
    split = make_splits(data, "public")[0]
    torch.manual_seed(0)
    model = DeepCrossGCN(data.x.size(1), 32, given.num_layers, 6, given.order)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, at_best = 0.0, 0.0
    for epoch in range(1, given.epochs + 1):
        model.train()
        optimizer.zero_grad()
        scores = model(data.x, data.edge_index)[split.train]
        loss = functional.cross_entropy(scores, data.y[split.train])
        torch.autograd.backward(loss)
        optimizer.step()
        model.eval()
        with torch.no_grad():
            correct = (model(data.x, data.edge_index).argmax(dim=1) == data.y).float()
        if correct[split.validation].mean() > best:
            best = float(correct[split.validation].mean())
            at_best = float(correct[split.test].mean())
        if epoch % 20 == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, validation accuracy {best:.3f}")
    print(f"{given.num_layers} layers of order {given.order}: test accuracy {at_best:.3f}")


if __name__ == "__main__":
    main()
