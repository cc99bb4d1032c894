"""Cross features in a layer of another kind: PyG's graph attention, on Citeseer.

``crossify`` replaces the linear maps of any PyG layer or model by cross-feature transforms. With
"gated" order weights the crossed model starts as the model and grows crosses where they pay.

    python examples/attention.py
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv

from crossgcn import crossed_maps, crossify, load_dataset, make_splits


class Attention(nn.Module):
    """Two layers of graph attention on a narrow embedding of the words."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.embed = nn.Linear(in_channels, hidden_channels, bias=False)
        self.first = GATv2Conv(hidden_channels, hidden_channels, heads=4)
        self.second = GATv2Conv(4 * hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.first(self.embed(x), edge_index).relu()
        hidden = functional.dropout(hidden, 0.5, self.training)
        out: Tensor = self.second(hidden, edge_index)
        return out


def train(model: nn.Module, data: Data, epochs: int) -> float:
    """Train on Planetoid's split; return the test accuracy of the best validation epoch."""
    split = make_splits(data, "public")[0]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, at_best = 0.0, 0.0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        scores = model(data.x, data.edge_index)[split.train]
        torch.autograd.backward(functional.cross_entropy(scores, data.y[split.train]))
        optimizer.step()
        model.eval()
        with torch.no_grad():
            correct = (model(data.x, data.edge_index).argmax(dim=1) == data.y).float()
        if correct[split.validation].mean() > best:
            best = float(correct[split.validation].mean())
            at_best = float(correct[split.test].mean())
    return at_best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    epochs = parser.parse_args().epochs
    citeseer = load_dataset("citeseer")
    torch.manual_seed(0)
    plain = Attention(citeseer.x.size(1), 16, 6)
    crossed = crossify(plain, order=2, skip="embed")
    print("crossed:", ", ".join(crossed_maps(crossed)))
    for name, model in (("attention", plain), ("attention with crosses", crossed)):
        print(f"{name}: test accuracy {train(model, citeseer, epochs):.3f}")


if __name__ == "__main__":
    main()
