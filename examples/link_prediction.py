"""Link prediction, as PyG's own example does it, with CrossGCNConv in the place of GCNConv.

python examples/link_prediction.py [--order 2] [--epochs 30]
"""

from __future__ import annotations

import argparse

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling

from crossgcn import CrossGCNConv, load_dataset


class Encoder(nn.Module):
    """Two layers; the score of a pair is the inner product of its embeddings."""

    def __init__(self, in_channels: int, order: int) -> None:
        super().__init__()
        self.first = CrossGCNConv(in_channels, 64, order=order)
        self.second = CrossGCNConv(64, 32, order=1)

    def forward(self, data: Data, pairs: Tensor) -> Tensor:
        hidden = self.first(data.x, data.edge_index).relu()
        embedding = self.second(hidden, data.edge_index)
        scores: Tensor = (embedding[pairs[0]] * embedding[pairs[1]]).sum(dim=1)
        return scores


@torch.no_grad()
def area_under_curve(model: Encoder, data: Data) -> float:
    """Score the pairs to be predicted; they carry no messages."""
    model.eval()
    return float(roc_auc_score(data.edge_label, model(data, data.edge_label_index)))


def main() -> None:
    """Keep the test score of the best validation epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--order", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    torch.manual_seed(0)
    data = load_dataset("citeseer")
    graph = Data(x=data.x.to_dense(), edge_index=data.edge_index)
    split = RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)
    train, validation, test = split(graph)
    model = Encoder(graph.num_features, options.order)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    best, chosen = 0.0, 0.0
    for _ in range(options.epochs):
        model.train()
        optimizer.zero_grad()
        positive = train.edge_label_index
        negative = negative_sampling(train.edge_index, train.num_nodes, positive.size(1))
        scores = model(train, torch.cat([positive, negative], dim=1))
        wanted = torch.cat([torch.ones(positive.size(1)), torch.zeros(negative.size(1))])
        loss = nn.functional.binary_cross_entropy_with_logits(scores, wanted)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        score = area_under_curve(model, validation)
        if score > best:
            best, chosen = score, area_under_curve(model, test)
    print(f"order {options.order}: validation AUC {best:.3f}, test AUC {chosen:.3f}")


if __name__ == "__main__":
    main()
