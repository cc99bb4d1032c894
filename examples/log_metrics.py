"""Send the metrics of every epoch to TensorBoard; any other logger fits into `write`.

python examples/log_metrics.py [--epochs 50]  # needs "pip install tensorboard"
tensorboard --logdir logged
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from crossgcn import (
    PreparedGraph,
    RunConfig,
    build_model,
    load_dataset,
    make_splits,
    train_full_batch,
)


def main() -> None:
    """Train GCN and Cross-GCN on one split, each logged as a run of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args()
    data = load_dataset("citeseer")
    (split,) = make_splits(data, "random", num_splits=1, train=20, seed=0)
    graph = PreparedGraph(data.x, data.edge_index)
    for name in ("gcn", "cross-gcn"):
        writer = SummaryWriter(f"logged/{name}")

        def write(metrics: Any, writer: SummaryWriter = writer) -> None:
            values = {key: value for key, value in asdict(metrics).items() if value is not None}
            epoch = values.pop("epoch")
            for key, value in values.items():
                writer.add_scalar(key, value, epoch)

        model = build_model(name, data.num_features, data.num_classes)
        config = RunConfig(epochs=options.epochs)
        trained = train_full_batch(model, graph, data.y, split, config, seed=0, on_metrics=write)
        assert trained.test is not None
        settings = {"model": name, "epochs": options.epochs}
        writer.add_hparams(settings, {"test accuracy": trained.test["accuracy"]}, run_name=".")
        writer.close()
        print(f"{name}: epoch {trained.best_epoch}, test accuracy {trained.test['accuracy']:.3f}")


if __name__ == "__main__":
    main()
