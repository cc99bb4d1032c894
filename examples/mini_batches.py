"""Mini-batches for a graph that one step cannot hold: PyG's loader around a CrossGCN on Citeseer.

PyG's NeighborLoader samples neighbours and needs pyg-lib or torch-sparse, which have no wheel for
every version of PyTorch. Where neither is installed, PyG's RandomNodeLoader cuts the graph into
random parts instead, and a part keeps the edges between its own nodes. Models are scored on the
whole graph.

    python examples/mini_batches.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, RandomNodeLoader
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from crossgcn import CrossGCN, load_dataset, make_splits


def batches_of(data: Data, batch_size: int) -> Iterable[Data]:
    """Return batches whose training nodes are those of ``train_mask``."""
    loader: Iterable[Data]
    if WITH_PYG_LIB or WITH_TORCH_SPARSE:
        loader = NeighborLoader(
            data, [15, 10], data.train_mask, batch_size=batch_size, shuffle=True
        )
    else:
        num_parts = -(-data.num_nodes // (8 * batch_size))
        loader = RandomNodeLoader(data, num_parts=num_parts, shuffle=True)
    return loader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    given = parser.parse_args()
    torch.manual_seed(0)
    data = load_dataset("citeseer")
    split = make_splits(data, "public", train="all")[0]
    x = data.x.to_dense()  # loaders select rows
    train_mask = torch.zeros(data.num_nodes, dtype=torch.bool).index_fill(0, split.train, True)
    graph = Data(x=x, edge_index=data.edge_index, y=data.y, train_mask=train_mask)
    model = CrossGCN(x.size(1), 32, 2, data.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, at_best = 0.0, 0.0
    for epoch in range(1, given.epochs + 1):
        model.train()
        for batch in batches_of(graph, given.batch_size):
            # The seeds of a NeighborLoader come first; its other nodes only pass messages.
            seeds = batch.train_mask.clone()
            seeds[getattr(batch, "batch_size", seeds.numel()) :] = False
            if not seeds.any():
                continue
            optimizer.zero_grad()
            scores = model(batch.x, batch.edge_index)[seeds]
            torch.autograd.backward(functional.cross_entropy(scores, batch.y[seeds]))
            optimizer.step()
        model.eval()
        with torch.no_grad():
            correct = (model(x, data.edge_index).argmax(dim=1) == data.y).float()
        if correct[split.validation].mean() > best:
            best = float(correct[split.validation].mean())
            at_best = float(correct[split.test].mean())
        if epoch % 10 == 0:
            print(f"epoch {epoch}: best validation accuracy {best:.3f}")
    loader = type(batches_of(graph, given.batch_size)).__name__
    print(f"batches of {loader}: test accuracy {at_best:.3f}")


if __name__ == "__main__":
    main()
