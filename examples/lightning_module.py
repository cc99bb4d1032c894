"""CrossGCN in PyTorch Lightning: logging, early stopping and checkpoints are Lightning's.

python examples/lightning_module.py  # needs "pip install lightning"
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from torch_geometric.data import Data

from crossgcn import CrossGCN, load_dataset, make_splits


class NodeClassification(lightning.LightningModule):
    """Trains any model that maps features and edges to class scores."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def _step(self, batch: Data, role: str) -> Tensor:
        nodes = batch[f"{role}_mask"]
        scores, y = self.model(batch.x, batch.edge_index)[nodes], batch.y[nodes]
        loss = functional.cross_entropy(scores, y)
        accuracy = (scores.argmax(dim=1) == y).float().mean()
        self.log_dict({f"{role}_loss": loss, f"{role}_accuracy": accuracy}, batch_size=len(y))
        return loss

    def training_step(self, batch: Data) -> Tensor:
        return self._step(batch, "train")

    def validation_step(self, batch: Data) -> None:
        self._step(batch, "validation")

    def test_step(self, batch: Data) -> None:
        self._step(batch, "test")

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    lightning.seed_everything(0, verbose=False)
    data = load_dataset("citeseer")
    split = make_splits(data, "public")[0]
    for role in ("train", "validation", "test"):
        mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        mask[getattr(split, role)] = True
        data[f"{role}_mask"] = mask
    dataset: Any = [data]
    loader: Any = DataLoader(dataset, batch_size=None)  # the graph as it is: sparse features
    module = NodeClassification(CrossGCN(data.x.size(1), 16, 2, 6, dropout=0.5, cached=True))
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="validation_accuracy", mode="max")
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            callbacks=[best, EarlyStopping("validation_loss", patience=20)],
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=1,
        )
        trainer.fit(module, loader, loader)
        (result,) = trainer.test(module, loader, ckpt_path="best", verbose=False)
    print(f"test accuracy {result['test_accuracy']:.3f}")


if __name__ == "__main__":
    main()
